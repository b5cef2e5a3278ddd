//! Which values of rows a statement writes over: UPDATE, ON CONFLICT DO UPDATE, and a column that is computed anew.
//! What they do to rows that were there is found out where the statement runs, in
//! `cardinal_schema::plugin_schema::rows`.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::{SyntaxNode, SyntaxToken};

use super::error::SchemaError;
use super::lexis;

/// Columns of one table, or of a view, that a statement gives new values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwrite {
    pub table: String,
    pub columns: Vec<String>,
    /// Whether it is `ALTER COLUMN ... TYPE ... USING`, which computes the column of every row anew.
    pub every_row: bool,
}

/// Those of a statement that the list has let through, queries of its WITH included.
pub(super) fn find(statement: &SyntaxNode, text: &str) -> Result<Vec<Overwrite>, SchemaError> {
    let mut found = Vec::new();
    for node in statement.descendants() {
        let (target, every_row) = match node.kind() {
            SET_CLAUSE => (node.ancestors().find(|it| matches!(it.kind(), SyntaxKind::UPDATE | INSERT)), false),
            ALTER_COLUMN if has_using(&node) => (node.parent(), true),
            _ => continue,
        };
        let Some(table) = target.and_then(|target| table_name(&target)) else { continue };
        let table = lexis::name(text, &table)?;
        let columns = columns(&node).map(|column| lexis::name(text, &column)).collect::<Result<_, _>>()?;
        found.push(Overwrite { table, columns, every_row });
    }
    Ok(found)
}

/// Whether it converts values to another type, of columns that it names or of tables that have its type.
pub(super) fn changes_types(statement: &SyntaxNode) -> bool {
    statement.descendants().any(|it| matches!(it.kind(), SET_TYPE | ALTER_ATTRIBUTE))
}

fn has_using(column: &SyntaxNode) -> bool {
    column.children().any(|it| it.kind() == SET_TYPE && it.children().any(|part| part.kind() == USING_EXPR))
}

/// The last name of the path, which the printer has found to be the plugin's own.
fn table_name(target: &SyntaxNode) -> Option<SyntaxToken> {
    let kinds = [RELATION_NAME, RELATION_NAME_REF, TABLE_RELATION_NAME];
    let name = target.children().find(|it| kinds.contains(&it.kind()))?;
    words(&name).filter(|token| !matches!(token.kind(), ONLY_KW | STAR)).last()
}

/// The columns that a SET writes to, or that ALTER COLUMN names.
fn columns(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    let is_set = node.kind() == SET_CLAUSE;
    let of_target = move |it: &SyntaxNode| {
        let parent = it.parent().map(|parent| parent.kind());
        it.kind() == COLUMN_NAME_REF && parent == Some(if is_set { COLUMN_TARGET } else { ALTER_COLUMN })
    };
    node.descendants().filter(of_target).filter_map(|column| words(&column).next())
}

fn words(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    node.descendants_with_tokens().filter_map(|it| it.into_token()).filter(|token| lexis::is_word(token.kind()))
}
