//! How many operations a declaration has on values whose length nobody knows. PostgreSQL computes the expressions of a
//! table for each of its rows while it keeps others from the table (a column of another type, a new index, a new
//! column), and looks at no time-out before it is done with a row. `quadratic` bounds what each operation takes, this
//! how many there are.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::cost::SMALL_FUNCTIONS;
use super::error::SchemaError;
use super::{keys, operations};

/// Of one statement.
const MAX_WEIGHT: usize = 512;
const COMPARISON_WEIGHT: usize = 1;
/// Numbers have no more than 131,072 digits.
const ARITHMETIC_WEIGHT: usize = 4;
/// A call, a cast or an operator that may make or search a text.
const CALL_WEIGHT: usize = 16;
/// Declarations whose expressions are computed for rows that are there, now or with a later one.
const DECLARATIONS: [SyntaxKind; 6] =
    [CREATE_TABLE, ALTER_TABLE, CREATE_INDEX, CREATE_DOMAIN, ALTER_DOMAIN, ALTER_TYPE];
const COMPARISONS: &[&str] =
    &["=", "<>", "!=", "<", ">", "<=", ">=", "in", "notin", "isdistinctfrom", "isnotdistinctfrom"];
const ARITHMETIC: &[&str] = &["+", "-", "*", "/", "%"];

const FIX: &str = "PostgreSQL computes them for each row while nobody else gets to the table, and cannot be interrupted within a row. \
    Write shorter expressions, spread them over several statements, or compute the values in the plugin.";

/// Refuses the first operation beyond the bound.
pub(super) fn check(statement: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    if !DECLARATIONS.contains(&statement.kind()) {
        return Ok(());
    }
    let mut weight = 0;
    for node in statement.descendants() {
        weight += call_weight(&node, text);
        if weight > MAX_WEIGHT {
            let what = format!("more than {} calls in the expressions of one statement", MAX_WEIGHT / CALL_WEIGHT);
            return Err(SchemaError::node(text, &node, &what, FIX));
        }
    }
    Ok(())
}

fn call_weight(node: &SyntaxNode, text: &str) -> usize {
    match node.kind() {
        CALL_EXPR => match node.first_child().and_then(|callee| keys::last_name(&callee, text).ok()) {
            Some(name) if SMALL_FUNCTIONS.contains(&name) => COMPARISON_WEIGHT,
            _ => CALL_WEIGHT,
        },
        BETWEEN_EXPR => COMPARISON_WEIGHT,
        BIN_EXPR => match operations::sign(node).as_str() {
            "and" | "or" | "is" | "isnot" => 0,
            sign if COMPARISONS.contains(&sign) => COMPARISON_WEIGHT,
            sign if ARITHMETIC.contains(&sign) => ARITHMETIC_WEIGHT,
            _ => CALL_WEIGHT,
        },
        CAST_EXPR if operations::is_constant(node) => 0,
        CAST_EXPR if node.children().any(|it| operations::is_fixed_type(&it)) => COMPARISON_WEIGHT,
        CAST_EXPR => CALL_WEIGHT,
        _ => 0,
    }
}
