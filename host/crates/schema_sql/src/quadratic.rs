//! Functions and operators that compare each place of one value with another value: they take the product of the two
//! lengths, and PostgreSQL does not interrupt them. So one of the two is short, or both have a length that the text bounds.
//! The types of columns do not count: another version may change them.

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::error::SchemaError;
use super::keys;
use super::names::Words;
use super::operations::sign;

/// Compare the first two arguments.
const PAIRS: Words =
    Words::new("strpos replace split_part string_to_array string_to_table translate btrim ltrim rtrim trim");
/// Sorts marks with exchanges of neighbours.
const ALONE: Words = Words::new("normalize");
/// One value of this length may be compared with one of any length, ...
const MAX_SHORT: usize = 8;
/// ... so many times in a statement.
const MAX_UNBOUNDED: usize = 8;
/// Steps of one call: some hundredths of a second.
const MAX_STEPS: usize = 16 * 1024 * 1024;
/// The longest text of a value of a fixed length.
const FIXED_TEXT: usize = 64;
/// The longest digest, in hexadecimal.
const DIGEST_TEXT: usize = 128;
/// Of a character in UTF-8; also what changing its case may make of one.
const CHARACTER_BYTES: usize = 4;

const FIX: &str = "PostgreSQL takes the product of both lengths and cannot be interrupted. Look for at most 8 bytes, or bound the \
    text: `strpos(left(v, 1000), w::varchar(100))`; or do it in the plugin, in Rust.";

/// Whether a function of one argument is among them: `value.name` would call it, and its value has any length.
pub(super) fn takes_long_alone(name: &str) -> bool {
    ALONE.contains(name)
}

/// Refuses the first comparison of the statement that may take long.
pub(super) fn check(statement: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    let mut unbounded = 0;
    for node in statement.descendants() {
        let Some((name, one, other)) = compared(&node, text) else { continue };
        let (one, other) = (length(&one, text), length(&other, text));
        let is_short = |length: Option<usize>| length.is_some_and(|it| it <= MAX_SHORT);
        match (one, other) {
            (Some(one), Some(other)) if one.saturating_mul(other) <= MAX_STEPS => continue,
            _ if is_short(one) || is_short(other) => unbounded += 1,
            _ => return Err(SchemaError::node(text, &node, &format!("{name} of values of any length"), FIX)),
        }
        if unbounded > MAX_UNBOUNDED {
            let what = format!("more than {MAX_UNBOUNDED} of {name} and its like on values of any length");
            return Err(SchemaError::node(text, &node, &what, FIX));
        }
    }
    Ok(())
}

/// The two values that are compared, and the name of what compares them.
fn compared(node: &SyntaxNode, text: &str) -> Option<(String, SyntaxNode, SyntaxNode)> {
    let pair = |name: &str, values: Vec<SyntaxNode>| {
        let mut values = values.into_iter();
        Some((name.to_owned(), values.next()?, values.next()?))
    };
    match node.kind() {
        POSITION_FN => pair("position", node.children().collect()),
        TRIM_FN => pair("trim", trimmed(node)),
        BIN_EXPR if is_like(node) => {
            let (left, right) = (node.first_child()?, node.last_child()?);
            if is_prefix(&right) { None } else { Some(("LIKE".to_owned(), left, right)) }
        }
        CALL_EXPR => {
            let name = keys::last_name(&node.first_child()?, text).ok()?;
            let arguments = arguments(node);
            if ALONE.contains(&name) {
                let value = arguments.into_iter().next()?;
                return Some((name, value.clone(), value));
            }
            PAIRS.contains(&name).then(|| pair(&name, arguments)).flatten()
        }
        _ => None,
    }
}

fn is_like(node: &SyntaxNode) -> bool {
    let is_operator = |it: &SyntaxNode| it.kind() == CUSTOM_OP && it.text().to_string().contains("~~");
    node.children().any(|it| matches!(it.kind(), NOT_LIKE | NOT_ILIKE) || is_operator(&it))
        || ["like", "ilike"].contains(&sign(node).as_str())
}

fn is_concatenation(node: &SyntaxNode) -> bool {
    node.children().any(|it| it.kind() == CUSTOM_OP && it.text().to_string().trim() == "||")
}

fn arguments(call: &SyntaxNode) -> Vec<SyntaxNode> {
    let list = call.children().find(|it| it.kind() == ARG_LIST);
    list.iter().flat_map(|list| list.children()).filter_map(|it| value(&it)).collect()
}

/// What stands in an argument, without the words around it.
fn value(argument: &SyntaxNode) -> Option<SyntaxNode> {
    match argument.kind() {
        ARG => argument.last_child(),
        _ => Some(argument.clone()),
    }
}

/// `trim(BOTH 'x' FROM v)` and `trim(v, 'x')` alike.
fn trimmed(node: &SyntaxNode) -> Vec<SyntaxNode> {
    let is_around = |it: &SyntaxNode| matches!(it.kind(), TRIM_EXPR_FROM | TRIM_FROM | TRIM_EXPRS);
    let mut values = Vec::new();
    for child in node.children() {
        match is_around(&child) {
            true => values.extend(child.children().flat_map(|it| match is_around(&it) {
                true => it.children().collect(),
                false => vec![it],
            })),
            false if matches!(child.kind(), TRIM_BOTH | TRIM_LEADING | TRIM_TRAILING) => {}
            false => values.push(child),
        }
    }
    values
}

/// A pattern whose one `%` is its last sign reads no more than itself.
fn is_prefix(pattern: &SyntaxNode) -> bool {
    let written = pattern.text().to_string();
    let inner = written.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    pattern.kind() == LITERAL
        && inner.is_some_and(|it| it.find('%').is_none_or(|at| at + 1 == it.len()) && !it.contains(['\'', '\\']))
}

/// How many bytes the value has at most, as far as the text shows.
fn length(node: &SyntaxNode, text: &str) -> Option<usize> {
    match node.kind() {
        LITERAL => literal_length(node),
        PAREN_EXPR | ARG => length(&node.last_child()?, text),
        COLLATE => length(&node.first_child()?, text),
        BIN_EXPR if is_concatenation(node) => {
            Some(length(&node.first_child()?, text)?.saturating_add(length(&node.last_child()?, text)?))
        }
        CAST_EXPR => cast_length(node, text),
        CALL_EXPR => call_length(node, text),
        BIN_EXPR if sign(node) == "escape" => length(&node.first_child()?, text),
        CASE_EXPR => longest(results(node).iter(), text),
        _ => None,
    }
}

/// Of a text, or of a number that is written out.
fn literal_length(node: &SyntaxNode) -> Option<usize> {
    const QUOTES: usize = 2;
    let written = node.text().to_string();
    let is_text = written.ends_with(['\'', '$']);
    let is_whole = written.bytes().all(|it| it.is_ascii_alphanumeric()) && !written.contains(['e', 'E']);
    (is_text || is_whole).then(|| if is_text { written.len().saturating_sub(QUOTES) } else { written.len() })
}

fn longest<'a>(mut nodes: impl Iterator<Item = &'a SyntaxNode>, text: &str) -> Option<usize> {
    nodes.try_fold(0, |most, node| Some(most.max(length(node, text)?)))
}

/// What stands behind THEN and ELSE.
fn results(case: &SyntaxNode) -> Vec<SyntaxNode> {
    let own = |it: &SyntaxNode| it.ancestors().skip(1).find(|up| up.kind() == CASE_EXPR).as_ref() == Some(case);
    let clauses = case.descendants().filter(|it| matches!(it.kind(), WHEN_CLAUSE | ELSE_CLAUSE) && own(it));
    clauses.filter_map(|it| it.last_child()).collect()
}

/// A text that is brought to a length, and a value of a fixed length that is written as a text.
fn cast_length(node: &SyntaxNode, text: &str) -> Option<usize> {
    let value = node.first_child()?;
    let target = node.last_child()?;
    if matches!(target.kind(), VARCHAR_TYPE | CHARACTER_TYPE)
        || keys::last_name(&target, text).is_ok_and(|it| it == "varchar")
    {
        let written = target.text().to_string();
        let count =
            written.split_once('(').map(|(_, rest)| rest.trim_end().trim_end_matches(')').trim().parse::<usize>());
        if let Some(Ok(count)) = count {
            return count.checked_mul(CHARACTER_BYTES);
        }
    }
    let inside = match value.kind() {
        CAST_EXPR => value.last_child().filter(super::operations::is_fixed_type).map(|_| FIXED_TEXT),
        _ => length(&value, text),
    };
    let is_text = target.text().to_string().trim().eq_ignore_ascii_case("text");
    inside.filter(|_| is_text)
}

fn call_length(node: &SyntaxNode, text: &str) -> Option<usize> {
    let arguments = arguments(node);
    let bound = |at: usize| -> Option<usize> {
        let count = arguments.get(at).filter(|it| it.kind() == LITERAL)?;
        count.text().to_string().parse::<usize>().ok()?.checked_mul(CHARACTER_BYTES)
    };
    let callee = node.first_child()?;
    match keys::last_name(&callee, text).ok()?.as_str() {
        "left" | "right" => bound(1),
        "substr" | "substring" => bound(2),
        "md5" => Some(DIGEST_TEXT),
        "coalesce" => longest(arguments.iter(), text),
        "lower" | "upper" | "initcap" => length(arguments.first()?, text)?.checked_mul(CHARACTER_BYTES),
        _ => None,
    }
}
