//! Checks that an ALTER TABLE adds. PostgreSQL computes them for each row while it keeps everybody from the table, so
//! the host may have the rows of a table that was there checked apart, without that lock
//! (`cardinal_schema::plugin_schema::late_checks`).

use std::collections::BTreeSet;
use std::ops::Range;

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::cost::{Cost, cost};
use super::error::SchemaError;
use super::{keys, work};

/// The checks of a statement that does nothing but add checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateChecks {
    pub table: String,
    pub checks: Vec<LateCheck>,
    /// Whether each row takes no more than reading its values once.
    pub are_small: bool,
}

/// Places in the statement's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateCheck {
    pub expression: Range<usize>,
    /// Where NOT VALID may stand.
    pub end: usize,
    /// Whether it is about the rows of the named table alone.
    pub is_own: bool,
}

/// Tables that the file puts below another one. PostgreSQL takes the checks of such a table for those of the other one
/// only where they are valid, so theirs stay as they are written.
#[derive(Debug, Default)]
pub(super) struct Inheriting(BTreeSet<String>);

impl Inheriting {
    pub(super) fn in_file(file: &SyntaxNode, text: &str) -> Result<Self, SchemaError> {
        let mut tables = BTreeSet::new();
        for statement in file.children().filter(|it| it.kind() == ALTER_TABLE) {
            for action in statement.children() {
                match action.kind() {
                    INHERIT_TABLE => drop(tables.insert(keys::table_name(&statement, text)?)),
                    ATTACH_PARTITION => {
                        for name in action.children().filter(|it| it.kind() == TABLE_NAME_REF) {
                            tables.insert(keys::last_name(&name, text)?);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(Self(tables))
    }

    /// Whether the rows of the table that the statement names may be checked apart.
    pub(super) fn allows(&self, statement: &SyntaxNode, text: &str) -> Result<bool, SchemaError> {
        Ok(statement.kind() == ALTER_TABLE && !self.0.contains(&keys::table_name(statement, text)?))
    }
}

pub(super) fn is_own(action: &SyntaxNode) -> bool {
    action.descendants().any(|it| it.kind() == NO_INHERIT)
}

pub(super) fn are_small(statement: &SyntaxNode) -> bool {
    let checks = statement.children().filter(work::is_late_check).filter_map(|action| work::find_check(&action));
    checks.flat_map(|check| check.children()).filter(work::is_expression).all(|it| cost(&it) == Cost::Small)
}
