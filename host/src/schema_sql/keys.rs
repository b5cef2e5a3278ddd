//! Foreign keys. PostgreSQL checks one as the owner of the table that is pointed to, so a key to the cards has one form.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::error::SchemaError;
use super::lexis;

/// The one table of the core that a plugin's tables may point to.
pub(super) const CARDS: [&str; 2] = ["public", "master_cards"];
const CARD_ID: &str = "id";
const KEY_TYPE: &str = "uuid";

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
        KeyType::Known(_) | KeyType::Elsewhere => Ok(true),
    }
}

enum KeyType {
    Known(String),
    Elsewhere,
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
        return Ok(Some(parent.as_ref().and_then(type_name).map_or(KeyType::Elsewhere, KeyType::Known)));
    }
    let Some(own) = children(constraint, FOREIGN_KEY_COLUMN_LIST).next() else { return Ok(None) };
    let own = columns(&own, text)?;
    let [name] = own.as_slice() else { return Ok(None) };
    for column in parent.iter().flat_map(|list| children(list, COLUMN)) {
        let first = children(&column, COLUMN_NAME).next().and_then(|node| node.first_token());
        if first.map(|token| lexis::name(text, &token)).transpose()?.as_ref() == Some(name) {
            return Ok(Some(type_name(&column).map_or(KeyType::Elsewhere, KeyType::Known)));
        }
    }
    Ok(Some(KeyType::Elsewhere))
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
