//! Foreign keys. PostgreSQL checks one as the owner of the table that is pointed to, so a key to the cards has one
//! form.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::error::SchemaError;
use super::lexis;

/// The one table of the core that a plugin's tables may point to.
pub(super) const CARDS: [&str; 2] = ["public", "master_cards"];
const CARD_ID: &str = "id";
const KEY_TYPE: &str = "uuid";

/// A key to the cards. It is taken out of its statement and made last of all, since it takes a lock that keeps others
/// from writing cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardKey {
    /// Where it stood in the statement's text.
    pub at: usize,
    pub table: String,
    pub column: String,
    /// As the author gave it.
    pub name: Option<String>,
    /// What stands behind the table that it points to, such as `on delete cascade`.
    pub options: String,
    pub place: KeyPlace,
    /// Whether it stands behind its column.
    pub is_in_column: bool,
    /// Whether it was written as NOT VALID.
    pub is_unchecked: bool,
}

/// Where a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// Behind a column.
    Column,
    /// In the list of a new table; whether that table can have others below it that take its constraints over.
    Table { is_partitioned: bool },
    /// ALTER TABLE ... ADD.
    Added,
}

impl CardKey {
    /// The key as an author would write it in its place.
    pub fn definition(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("constraint {} ", lexis::quoted(name))).unwrap_or_default();
        let columns = match self.is_in_column {
            true => String::new(),
            false => format!("foreign key ( {} ) ", lexis::quoted(&self.column)),
        };
        let end = if self.is_unchecked { " not valid" } else { "" };
        let cards = CARDS.map(lexis::quoted).join(".");
        format!("{}{end}", format!("{name}{columns}references {cards} {}", self.options).trim_end())
    }

    /// The names and options of the key that this constraint is, at a place of the statement's text.
    pub(super) fn read(constraint: &SyntaxNode, text: &str) -> Result<Self, SchemaError> {
        let parent = constraint.parent();
        let column = match constraint.kind() {
            REFERENCES_CONSTRAINT => parent.as_ref().and_then(|column| children(column, COLUMN_NAME).next()),
            _ => children(constraint, FOREIGN_KEY_COLUMN_LIST).next().and_then(|list| list.first_child()),
        };
        let name = children(constraint, CONSTRAINT_NAME_CLAUSE).next().and_then(|clause| clause.first_child());
        let name = name.map(|name| last_name(&name, text)).transpose()?;
        let statement = constraint.ancestors().find(|node| matches!(node.kind(), CREATE_TABLE | ALTER_TABLE));
        let (Some(column), Some(statement)) = (column, statement) else {
            return Err(super::syntax::refuse_node(constraint, text));
        };
        let is_partitioned = statement.children().any(|it| matches!(it.kind(), PARTITION_BY | PARTITION_OF));
        Ok(Self {
            at: 0,
            table: table_name(&statement, text)?,
            column: last_name(&column, text)?,
            name,
            options: String::new(),
            is_in_column: constraint.kind() == REFERENCES_CONSTRAINT,
            place: match (constraint.kind(), statement.kind()) {
                (_, CREATE_TABLE) => KeyPlace::Table { is_partitioned },
                (REFERENCES_CONSTRAINT, _) => KeyPlace::Column,
                _ => KeyPlace::Added,
            },
            is_unchecked: children(constraint, NOT_VALID).next().is_some(),
        })
    }
}

/// The table that a CREATE TABLE makes or an ALTER TABLE changes, without its schema.
pub(super) fn table_name(statement: &SyntaxNode, text: &str) -> Result<String, SchemaError> {
    let names = [TABLE_NAME, TABLE_RELATION_NAME];
    match statement.children().find(|node| names.contains(&node.kind())) {
        Some(node) => last_name(&node, text),
        None => Err(super::syntax::refuse_node(statement, text)),
    }
}

/// The last name of a path.
pub(super) fn last_name(path: &SyntaxNode, text: &str) -> Result<String, SchemaError> {
    let tokens = path.descendants_with_tokens().filter_map(|it| it.into_token());
    match tokens.filter(|token| lexis::is_word(token.kind())).last() {
        Some(token) => lexis::name(text, &token),
        None => Err(super::syntax::refuse_node(path, text)),
    }
}

/// Whether a REFERENCES points to the cards; then it has to be one `uuid` column to `(id)`.
pub(super) fn points_to_cards(constraint: &SyntaxNode, path: &[String], text: &str) -> Result<bool, SchemaError> {
    if path != CARDS {
        return Ok(false);
    }
    let refuse = |what: &str, node: &SyntaxNode| {
        let fix = "Write `card_id uuid REFERENCES public.master_cards (id)`, with any name for the column.";
        Err(SchemaError::node(text, node, what, fix))
    };
    let referenced = referenced_columns(constraint, text)?;
    if !(referenced.is_empty() || referenced == [CARD_ID]) {
        return refuse("a key to something else of the cards than their id", constraint);
    }
    let Some(kind) = own_column_type(constraint, text)? else {
        return refuse("a key to the cards that is not one column", constraint);
    };
    match kind {
        KeyType::Known(written) if written != KEY_TYPE => refuse("a key to the cards that is no uuid", constraint),
        // Of a column that another statement made: PostgreSQL and the look at the catalog find out.
        KeyType::Known(_) | KeyType::DetachedTiming => Ok(true),
    }
}

enum KeyType {
    Known(String),
    DetachedTiming,
}

fn referenced_columns(constraint: &SyntaxNode, text: &str) -> Result<Vec<String>, SchemaError> {
    match constraint.kind() {
        REFERENCES_CONSTRAINT => columns(constraint, text),
        _ => match children(constraint, FOREIGN_KEY_COLUMN_LIST).nth(1) {
            Some(list) => columns(&list, text),
            None => Ok(Vec::new()),
        },
    }
}

/// Of the one column that has the key; `None` when there is not exactly one.
fn own_column_type(constraint: &SyntaxNode, text: &str) -> Result<Option<KeyType>, SchemaError> {
    let parent = constraint.parent();
    if constraint.kind() == REFERENCES_CONSTRAINT {
        return Ok(Some(parent.as_ref().and_then(type_name).map_or(KeyType::DetachedTiming, KeyType::Known)));
    }
    let Some(own) = children(constraint, FOREIGN_KEY_COLUMN_LIST).next() else { return Ok(None) };
    let own = columns(&own, text)?;
    let [name] = own.as_slice() else { return Ok(None) };
    for column in parent.iter().flat_map(|list| children(list, COLUMN)) {
        let first = children(&column, COLUMN_NAME).next().and_then(|node| node.first_token());
        if first.map(|token| lexis::name(text, &token)).transpose()?.as_ref() == Some(name) {
            return Ok(Some(type_name(&column).map_or(KeyType::DetachedTiming, KeyType::Known)));
        }
    }
    Ok(Some(KeyType::DetachedTiming))
}

/// The type as it is written, folded; with a schema or brackets it is another word than `uuid`.
fn type_name(column: &SyntaxNode) -> Option<String> {
    let kinds = [PATH_TYPE, ARRAY_TYPE, VARCHAR_TYPE, CHARACTER_TYPE, BIT_TYPE, BIT_VARYING_TYPE, TIME_TYPE];
    let node = column.children().find(|node| kinds.contains(&node.kind()))?;
    let written: String = node
        .descendants_with_tokens()
        .filter_map(|it| it.into_token())
        .filter(|token| !lexis::is_trivia(token.kind()))
        .map(|token| token.text().to_ascii_lowercase())
        .collect();
    Some(written.trim_start_matches("pg_catalog.").replace('"', ""))
}

fn columns(list: &SyntaxNode, text: &str) -> Result<Vec<String>, SchemaError> {
    let tokens = children(list, COLUMN_NAME_REF).filter_map(|node| node.first_token());
    tokens.map(|token| lexis::name(text, &token)).collect()
}

fn children(node: &SyntaxNode, kind: SyntaxKind) -> impl Iterator<Item = SyntaxNode> {
    node.children().filter(move |child| child.kind() == kind)
}
