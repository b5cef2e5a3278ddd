//! What an expression costs, as far as its words show: some of PostgreSQL's functions take minutes for one value and
//! cannot be interrupted meanwhile.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::names::Words;
use super::{lexis, operations};

/// From less to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cost {
    /// No more than reading its values once.
    Small,
    /// A matter of the types.
    Unknown,
    /// A call or an operator that is not on the list.
    Large,
}

/// Functions that read their one value once, or know the answer without.
pub(super) const SMALL_FUNCTIONS: Words = Words::new(
    "
    length char_length character_length octet_length bit_length cardinality array_length jsonb_typeof num_nulls
    num_nonnulls isfinite isempty coalesce nullif now gen_random_uuid statement_timestamp
    transaction_timestamp clock_timestamp
",
);

/// The nodes of an expression that cost nothing by themselves.
const SMALL_NODES: &[SyntaxKind] = &[
    NAME_REF,
    LITERAL,
    PAREN_EXPR,
    BETWEEN_EXPR,
    SYMMETRIC,
    POSTFIX_EXPR,
    IS_NOT,
    IS_DISTINCT_FROM,
    IS_NOT_DISTINCT_FROM,
    NOT_IN,
    ARG_LIST,
    ARG,
    CASE_EXPR,
    WHEN_CLAUSE_LIST,
    WHEN_CLAUSE,
    ELSE_CLAUSE,
];
const SMALL_SIGNS: &[SyntaxKind] = &[EQ, NEQ, NEQB, L_ANGLE, R_ANGLE, LTEQ, GTEQ, AND_KW, OR_KW, NOT_KW, IS_KW, IN_KW];
const ARITHMETIC: &[SyntaxKind] = &[PLUS, MINUS, STAR, SLASH, PERCENT];

pub(super) fn cost(expression: &SyntaxNode) -> Cost {
    let own = match expression.kind() {
        kind if SMALL_NODES.contains(&kind) => Cost::Small,
        CALL_EXPR => call(expression),
        TUPLE_EXPR if is_taken_apart(expression) => Cost::Small,
        // The sign of a number is part of it.
        PREFIX_EXPR if expression.first_child().is_some_and(|it| it.kind() == LITERAL) => Cost::Small,
        BIN_EXPR | PREFIX_EXPR | OP => signs(expression),
        // The type has names of its own, which are no part of the expression.
        CAST_EXPR => return expression.first_child().map_or(Cost::Large, |it| cost(&it)).max(Cost::Unknown),
        _ => Cost::Large,
    };
    let inside = expression.children().filter(|it| !operations::is_callee(it)).map(|it| cost(&it)).max();
    own.max(inside.unwrap_or(Cost::Small))
}

/// Rows that are equal or not PostgreSQL compares value by value, and lists are none; any other row is a value of its
/// own.
fn is_taken_apart(tuple: &SyntaxNode) -> bool {
    let Some(parent) = tuple.parent() else { return false };
    match parent.kind() {
        BIN_EXPR => ["=", "<>", "!=", "in", "notin", "isdistinctfrom", "isnotdistinctfrom"]
            .contains(&operations::sign(&parent).as_str()),
        // A row in a list.
        TUPLE_EXPR | PAREN_EXPR => parent
            .parent()
            .is_some_and(|it| it.kind() == BIN_EXPR && ["in", "notin"].contains(&operations::sign(&it).as_str())),
        _ => false,
    }
}

fn call(node: &SyntaxNode) -> Cost {
    let Some(callee) = node.first_child() else { return Cost::Large };
    match callee.kind() {
        NAME_REF if SMALL_FUNCTIONS.contains(&callee.text().to_string().to_ascii_lowercase()) => Cost::Small,
        // ANY and ALL among them: each element may read the whole value anew. IN has its elements written out.
        _ => Cost::Large,
    }
}

fn signs(node: &SyntaxNode) -> Cost {
    let tokens = node.children_with_tokens().filter_map(|it| it.into_token());
    let cost_of = |kind: SyntaxKind| match kind {
        kind if lexis::is_trivia(kind) || SMALL_SIGNS.contains(&kind) => Cost::Small,
        kind if ARITHMETIC.contains(&kind) => Cost::Unknown,
        _ => Cost::Large,
    };
    tokens.map(|token| cost_of(token.kind())).max().unwrap_or(Cost::Small)
}
