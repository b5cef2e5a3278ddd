//! Types and domains that a statement makes. PostgreSQL has no IF NOT EXISTS for them, so a run of the file passes over
//! one that is there (`cardinal_schema::plugin_schema`).

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::error::SchemaError;
use super::{keys, lexis};

/// A type, or a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewType {
    pub name: String,
    /// Its letter in the catalog (`pg_type.typtype`).
    pub letter: &'static str,
    /// Of an enum, as SQL.
    pub values: Vec<String>,
}

pub(super) fn find(statement: &SyntaxNode, text: &str) -> Result<Option<NewType>, SchemaError> {
    let letter = match statement.kind() {
        CREATE_DOMAIN => Some("d"),
        CREATE_TYPE => statement.children().find_map(|definition| match definition.kind() {
            ENUM_TYPE => Some("e"),
            COMPOSITE_TYPE => Some("c"),
            RANGE_TYPE => Some("r"),
            _ => None,
        }),
        _ => None,
    };
    let name = statement.children().find(|it| matches!(it.kind(), TYPE_NAME | DOMAIN));
    let (Some(letter), Some(name)) = (letter, name) else { return Ok(None) };
    let variants = statement.descendants().filter(|it| it.kind() == VARIANT);
    let values = variants.filter_map(|variant| value(&variant, text)).collect::<Result<_, _>>()?;
    Ok(Some(NewType { name: keys::last_name(&name, text)?, letter, values }))
}

/// The type or domain that a statement alters.
pub(super) fn find_altered(statement: &SyntaxNode, text: &str) -> Result<Option<String>, SchemaError> {
    if !matches!(statement.kind(), ALTER_TYPE | ALTER_DOMAIN) {
        return Ok(None);
    }
    let name = statement.children().find(|it| matches!(it.kind(), TYPE_NAME_REF | DOMAIN_REF));
    name.map(|name| keys::last_name(&name, text)).transpose()
}

fn value(variant: &SyntaxNode, text: &str) -> Option<Result<String, SchemaError>> {
    let mut tokens =
        variant.descendants_with_tokens().filter_map(|it| it.into_token()).filter(|it| !lexis::is_trivia(it.kind()));
    tokens.next().map(|first| lexis::literal(text, &first, tokens))
}
