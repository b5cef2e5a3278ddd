//! Tables whose rows a key's action writes: `ON DELETE SET NULL` computes their checks, generated columns and indexes
//! anew, in the session that removes somebody's card. So these may hold small expressions only.
//!
//! This sees one file; what an older one has made, the look at the catalog finds (`sql/plugin_actions.sql`).

use std::collections::BTreeMap;

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::cost::{self, Cost, cost};
use super::error::SchemaError;
use super::operations::{Columns, MAX_OPERATIONS};
use super::{keys, work};

const FIX: &str = "Write ON DELETE CASCADE for the key, or move this to another table; a table whose key sets a value when \
    a card is removed may compare values, test for NULL and bound lengths, no more.";

const MANY: &str = "the 17th operation on values of any length in a table whose key sets a value";
/// Columns of domains, and domains below them, that are looked at; a table has 1,600 columns at most.
const MAX_DOMAINS: usize = 10_000;

const CONSTANT_FIX: &str = "Write the value itself: PostgreSQL computes it whenever somebody removes a card.";

/// By table: whether a key writes it, and what is computed then.
#[derive(Default)]
pub(super) struct Actions {
    tables: BTreeMap<String, Table>,
    domains: BTreeMap<String, Table>,
}

/// A table, or a domain.
#[derive(Default)]
struct Table {
    is_written: bool,
    /// Where its first large expression is.
    large: Option<(usize, &'static str)>,
    columns: Columns,
    /// Where it has operations on values of any length.
    operations: Vec<usize>,
    /// Names of the types of its columns, domains among them.
    types: Vec<String>,
}

impl Actions {
    pub(super) fn read(&mut self, text: &str, statement: &SyntaxNode) -> Result<(), SchemaError> {
        let name = match statement.kind() {
            CREATE_TABLE | ALTER_TABLE => keys::table_of(statement, text)?,
            CREATE_DOMAIN | ALTER_DOMAIN => return self.read_domain(text, statement),
            CREATE_INDEX => match statement.children().find(|it| it.kind() == TABLE_RELATION_NAME) {
                Some(name) => keys::last_name(&name, text)?,
                None => return Ok(()),
            },
            // A table that is made again is another one.
            DROP_TABLE => {
                for name in statement.children().filter(|it| it.kind() == TABLE_NAME_REF) {
                    self.tables.remove(&keys::last_name(&name, text)?);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        if let Some(at) =
            statement.descendants().filter(|_| statement.kind() == CREATE_INDEX).find_map(|it| constant(&it))
        {
            return Err(SchemaError::forbidden(text, at, "a value that is computed from constants", CONSTANT_FIX));
        }
        let table = self.tables.entry(name).or_default();
        table.is_written |= statement.descendants().any(|it| is_writing(&it));
        let types = table.columns.read(statement, text)?;
        table.types.extend(types);
        table.add(statement, text);
        Ok(())
    }

    fn read_domain(&mut self, text: &str, statement: &SyntaxNode) -> Result<(), SchemaError> {
        let Some(name) = statement.children().find(|it| matches!(it.kind(), DOMAIN | DOMAIN_REF)) else {
            return Ok(());
        };
        let domain = self.domains.entry(keys::last_name(&name, text)?).or_default();
        if statement.kind() == CREATE_DOMAIN {
            domain.columns = Columns::for_domain(statement);
            let base = statement.children().find(|it| it.kind() == PATH_TYPE);
            domain.types.extend(base.map(|it| keys::last_name(&it, text)).transpose()?);
        }
        domain.add(statement, text);
        Ok(())
    }

    /// What PostgreSQL computes of a table's row: its own, and for each column of a domain that one's checks.
    fn computed<'a>(&'a self, table: &'a Table) -> Vec<&'a Table> {
        let (mut found, mut next) = (vec![table], table.types.iter().collect::<Vec<_>>());
        // A domain stands on an older one, never on itself.
        while let Some(name) = next.pop().filter(|_| found.len() < MAX_DOMAINS) {
            let Some(domain) = self.domains.get(name) else { continue };
            next.extend(&domain.types);
            found.push(domain);
        }
        found
    }

    fn refused(&self, table: &Table) -> Option<(usize, &'static str)> {
        let computed = self.computed(table);
        let operations: Vec<usize> = computed.iter().flat_map(|it| &it.operations).copied().collect();
        let many = operations.get(MAX_OPERATIONS).map(|at| (*at, MANY));
        computed.iter().filter_map(|it| it.large).min().or(many)
    }

    pub(super) fn check(&self, text: &str) -> Result<(), SchemaError> {
        let first = self.tables.values().filter(|it| it.is_written).filter_map(|it| self.refused(it)).min();
        match first {
            Some((at, what)) => Err(SchemaError::forbidden(text, at, what, FIX)),
            None => Ok(()),
        }
    }
}

impl Table {
    fn add(&mut self, statement: &SyntaxNode, text: &str) {
        if self.large.is_none() {
            self.large = statement.descendants().find_map(|it| large(&it));
        }
        let computed = statement.descendants().filter(|it| work::is_expression(it) && !is_default(it));
        for expression in computed {
            let found = self.columns.operations(&expression, text);
            self.operations.extend(found.at);
            self.large = self.large.or(found.large);
        }
    }
}

fn is_writing(node: &SyntaxNode) -> bool {
    node.kind() == ON_DELETE_ACTION
        && node.children().any(|it| matches!(it.kind(), SET_NULL_COLUMNS | SET_DEFAULT_COLUMNS))
}

/// A call or an operator without a column in it.
fn constant(node: &SyntaxNode) -> Option<usize> {
    let is_signed = node.kind() == PREFIX_EXPR && node.first_child().is_some_and(|it| it.kind() == LITERAL);
    let is_operation = matches!(node.kind(), CALL_EXPR | BIN_EXPR | PREFIX_EXPR) && !is_signed;
    let names = || node.descendants().filter(|it| it.kind() == NAME_REF && !cost::is_callee(it));
    // `= ANY (...)` is written like a call.
    let is_list = node.first_child().is_some_and(|it| matches!(it.kind(), ANY_FN | ALL_FN | SOME_FN));
    (is_operation && !is_list && names().next().is_none()).then(|| super::start(node))
}

fn large(node: &SyntaxNode) -> Option<(usize, &'static str)> {
    let at = super::start(node);
    if node.kind() == EXCLUDE_CONSTRAINT {
        return Some((at, "EXCLUDE in a table whose key sets a value"));
    }
    let is_large = work::is_expression(node) && !is_default(node) && cost(node) == Cost::Large;
    is_large.then_some((at, "an expression without a bound in a table whose key sets a value"))
}

/// A default is computed for new rows; the look at the catalog knows those that SET DEFAULT computes.
fn is_default(expression: &SyntaxNode) -> bool {
    expression.parent().is_some_and(|it| matches!(it.kind(), DEFAULT_CONSTRAINT | SET_DEFAULT))
}
