//! Statements that fail when the file runs again over what it has made, as it does with each new version of a plugin.
//! The first version runs all the same, so this is a hint, and no reason to refuse.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::error::{Position, SchemaError};
use super::{keys, mistakes::child};

/// What cannot run twice, and how to write it so that it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrepeatable {
    pub what: &'static str,
    pub fix: &'static str,
    pub position: Position,
}

const IF_NOT_THERE: &str = "Write IF NOT EXISTS.";
const IF_THERE: &str = "Write IF EXISTS.";

/// Names that statements of the file have dropped up to here: what is made anew behind that can run again.
#[derive(Default)]
pub(super) struct Repeats {
    dropped: Vec<String>,
}

impl Repeats {
    pub(super) fn read(&mut self, text: &str, statement: &SyntaxNode) -> Result<Option<Unrepeatable>, SchemaError> {
        let found = match statement.kind() {
            CREATE_TABLE | CREATE_SEQUENCE => unless(statement, IF_NOT_EXISTS, "a CREATE", IF_NOT_THERE),
            CREATE_VIEW => unless(statement, OR_REPLACE, "a CREATE VIEW", "Write CREATE OR REPLACE VIEW."),
            CREATE_INDEX if child(statement, INDEX).is_none() => Some((
                "an index without a name, which is made anew each time",
                "Give it a name, and write CREATE INDEX IF NOT EXISTS.",
            )),
            CREATE_INDEX => unless(statement, IF_NOT_EXISTS, "a CREATE INDEX", IF_NOT_THERE),
            DROP_TABLE | DROP_VIEW | DROP_INDEX | DROP_SEQUENCE | DROP_TYPE | DROP_DOMAIN => {
                unless(statement, IF_EXISTS, "a DROP", IF_THERE)
            }
            ALTER_TABLE => statement.children().find_map(|action| match action.kind() {
                ADD_COLUMN => unless(&action, IF_NOT_EXISTS, "an ADD COLUMN", IF_NOT_THERE),
                DROP_COLUMN => unless(&action, IF_EXISTS, "a DROP COLUMN", IF_THERE),
                DROP_CONSTRAINT => unless(&action, IF_EXISTS, "a DROP CONSTRAINT", IF_THERE),
                _ => None,
            }),
            _ => None,
        };
        let names = names(statement, text)?;
        if statement.kind() != ALTER_TABLE && found.is_some() && names.iter().any(|name| self.dropped.contains(name)) {
            return Ok(None);
        }
        if matches!(statement.kind(), DROP_TABLE | DROP_VIEW | DROP_INDEX | DROP_SEQUENCE) {
            self.dropped.extend(names);
        }
        let position = Position::in_text(text, super::start(statement));
        Ok(found.map(|(what, fix)| Unrepeatable { what, fix, position }))
    }
}

fn unless(
    node: &SyntaxNode,
    wanted: SyntaxKind,
    what: &'static str,
    fix: &'static str,
) -> Option<(&'static str, &'static str)> {
    child(node, wanted).is_none().then_some((what, fix))
}

/// Of what a statement makes or drops.
fn names(statement: &SyntaxNode, text: &str) -> Result<Vec<String>, SchemaError> {
    const NAMES: [SyntaxKind; 8] =
        [TABLE_NAME, TABLE_NAME_REF, VIEW, VIEW_REF, INDEX, INDEX_REF, SEQUENCE, SEQUENCE_REF];
    let children = statement.children().filter(|it| NAMES.contains(&it.kind()));
    children.map(|name| keys::last_name(&name, text)).collect()
}
