//! Mistakes that the text alone shows and that PostgreSQL refuses from the schema role, the oldest server at least:
//! `plugin check` says them with their place, before a host meets them.

use std::collections::HashSet;

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::error::SchemaError;
use super::lexis;

/// Columns that every table has already.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];
/// Nodes that begin a query.
const QUERIES: [SyntaxKind; 4] = [SyntaxKind::SELECT, COMPOUND_SELECT, VALUES, PAREN_SELECT];

/// Refuses the first of them in a statement that the list has let through.
pub(super) fn check(statement: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    statement.descendants().try_for_each(|node| match find(&node, text)? {
        Some((place, what, fix)) => Err(SchemaError::at(text, super::start(&place), &what, fix)),
        None => Ok(()),
    })
}

type Found = Option<(SyntaxNode, String, &'static str)>;

fn find(node: &SyntaxNode, text: &str) -> Result<Found, SchemaError> {
    let found = |what: &str, fix| Ok(Some((node.clone(), what.to_owned(), fix)));
    let has = |kinds: &[SyntaxKind]| node.children().any(|child| kinds.contains(&child.kind()));
    match node.kind() {
        CREATE_TABLE if !has(&[TABLE_ARG_LIST, PARTITION_OF]) => {
            found("a CREATE TABLE without columns", "Write them in brackets behind the name; `()` if there are none.")
        }
        CREATE_TYPE if node.children().count() < 2 => {
            found("a type without a definition", "Write what it is behind AS.")
        }
        ALTER_TABLE if node.children().filter(|child| child.kind() != IF_EXISTS).count() < 2 => {
            found("an ALTER TABLE without an action", "Write what it is to do.")
        }
        DROP_TABLE | DROP_VIEW | DROP_INDEX | DROP_SEQUENCE | DROP_TYPE | DROP_DOMAIN
            if node.children().count() == 0 =>
        {
            found("a DROP without a name", "Write what it is to drop.")
        }
        COMPOSITE_FIELD_DEF if node.children().count() < 2 => {
            found("an attribute without a type", "Write a type behind its name.")
        }
        CHECK_CONSTRAINT | DEFAULT_CONSTRAINT | GENERATED_STORED | PARTITION_ITEM if has_query(node) => found(
            "a query where PostgreSQL takes none",
            "Compare columns and values; do the rest in the plugin when it runs.",
        ),
        GENERATED_STORED if !has(&[STORED]) => found(
            "a generated column without STORED",
            "Write STORED behind it; only the newest servers know another kind.",
        ),
        PARTITION_ITEM if has(&[LITERAL]) => found("a value in the place of a column", "Write the name of a column."),
        ON_UPDATE_ACTION if node.descendants().any(|child| child.kind() == COLUMN_REF_LIST) => {
            found("columns behind ON UPDATE SET", "Leave them out: only ON DELETE takes columns.")
        }
        TABLE_ARG_LIST => in_columns(node, text),
        SET_COLUMN_LIST => twice(node.descendants().filter(|it| is_target(it) && !has_accessor(it)), text),
        COLUMN_TARGET_LIST => twice(node.children().filter(|it| !has_accessor(it)), text),
        _ => Ok(None),
    }
}

/// The columns of a table: two of one name, one of PostgreSQL's own, two primary keys.
fn in_columns(list: &SyntaxNode, text: &str) -> Result<Found, SchemaError> {
    let names = || list.children().filter(|it| it.kind() == COLUMN).filter_map(|column| child(&column, COLUMN_NAME));
    for name in names() {
        if SYSTEM_COLUMNS.contains(&written(&name, text)?.as_str()) {
            return Ok(Some((name, "a column that every table has already".to_owned(), "Give it another name.")));
        }
    }
    if let Some(key) = list.descendants().filter(|it| it.kind() == PRIMARY_KEY_CONSTRAINT).nth(1) {
        return Ok(Some((
            key,
            "a second primary key".to_owned(),
            "Write one PRIMARY KEY, over several columns if need be.",
        )));
    }
    twice(names(), text)
}

fn twice(names: impl Iterator<Item = SyntaxNode>, text: &str) -> Result<Found, SchemaError> {
    let mut known = HashSet::new();
    for node in names {
        let name = written(&node, text)?;
        if known.contains(&name) {
            return Ok(Some((node, format!("column {name} once more"), "Write it once.")));
        }
        known.insert(name);
    }
    Ok(None)
}

fn written(node: &SyntaxNode, text: &str) -> Result<String, SchemaError> {
    node.first_token().map_or_else(|| Ok(String::new()), |token| lexis::name(text, &token))
}

fn is_target(node: &SyntaxNode) -> bool {
    node.kind() == COLUMN_TARGET
}

/// Elements and fields of one column may be written side by side.
fn has_accessor(target: &SyntaxNode) -> bool {
    target.children().any(|it| matches!(it.kind(), INDEX_ACCESSOR | FIELD_ACCESSOR))
}

fn has_query(node: &SyntaxNode) -> bool {
    node.descendants().any(|it| QUERIES.contains(&it.kind()))
}

pub(super) fn child(node: &SyntaxNode, kind: SyntaxKind) -> Option<SyntaxNode> {
    node.children().find(|child| child.kind() == kind)
}
