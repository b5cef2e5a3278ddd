//! Functions and operators that compare each place of one value with another value: they take the product of the two
//! lengths, and PostgreSQL does not interrupt them. So one of the two is short, or both have a length that the text
//! bounds. The types of columns do not count: another version may change them.

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
/// Compare each element with each, or each part of a document: of arrays and jsonb. Ranges have these signs, too, and
/// are quick.
const SETS: &[&str] = &["&&", "@>", "<@", "?|", "?&"];
/// Types whose values have no elements, or are read in one pass.
const RANGES: Words = Words::new(
    "daterange datemultirange int4range int4multirange int8range int8multirange numrange nummultirange tsrange
    tsmultirange tstzrange tstzmultirange inet cidr box circle lseg",
);
/// A literal with so many elements may be compared with a value of any length.
const MAX_ELEMENTS: usize = 8;
/// Read their second argument, a pattern, piece by piece without an end.
const FORMATS: Words = Words::new("to_char to_date to_timestamp to_number");
const MAX_FORMAT: usize = 256;
/// Compare each word of what is searched for, their last argument, with each.
const SEARCHES: Words = Words::new("phraseto_tsquery plainto_tsquery to_tsquery websearch_to_tsquery");
const MAX_SEARCH: usize = 1024;
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

const SETS_FIX: &str = "PostgreSQL compares each element with each and cannot be interrupted. Compare with a literal of at most 8 \
    elements; cast ranges, `a::daterange && b`; or do it in the plugin, in Rust.";
const FORMAT_FIX: &str =
    "PostgreSQL reads a format to its end and cannot be interrupted. Write it as a text of at most 256 bytes.";
const SEARCH_FIX: &str = "PostgreSQL compares each word that is searched for with each and cannot be interrupted. Write it as a text \
    of at most 1,024 bytes, or bound it: `left(v, 200)`.";
const PATH_FIX: &str = "A path of JSON may compare each value with each, and cannot be interrupted. Use `->`, `->>` and `#>`, \
    or do it in the plugin, in Rust.";
const FIX: &str = "PostgreSQL takes the product of both lengths and cannot be interrupted. Look for at most 8 bytes, or bound the \
    text: `strpos(left(v, 1000), w::varchar(100))`; or do it in the plugin, in Rust.";

/// Whether a function of one argument is among them: `value.name` would call it, and its value has any length.
pub(super) fn takes_long_alone(name: &str) -> bool {
    ALONE.contains(name) || SEARCHES.contains(name)
}

/// Refuses the first comparison of the statement that may take long.
pub(super) fn check(statement: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    let mut unbounded = 0;
    for node in statement.descendants() {
        refuse_long_format(&node, text)?;
        refuse_long_search(&node, text)?;
        refuse_json_path(&node, text)?;
        let unbounded_sets = compares_sets(&node, text)?.map(|operator| (operator, SETS_FIX));
        let unbounded_texts = compares_texts(&node, text)?.map(|name| (name, FIX));
        for (name, fix) in unbounded_sets.into_iter().chain(unbounded_texts) {
            unbounded += 1;
            if unbounded > MAX_UNBOUNDED {
                let what = format!("more than {MAX_UNBOUNDED} of {name} and its like on values of any length");
                return Err(SchemaError::node(text, &node, &what, fix));
            }
        }
    }
    Ok(())
}

/// The function or operator, where it compares a text of any length with a short one.
fn compares_texts(node: &SyntaxNode, text: &str) -> Result<Option<String>, SchemaError> {
    let Some((name, one, other)) = compared(node, text) else { return Ok(None) };
    let (one, other) = (length(&one, text), length(&other, text));
    let is_short = |length: Option<usize>| length.is_some_and(|it| it <= MAX_SHORT);
    match (one, other) {
        (Some(one), Some(other)) if one.saturating_mul(other) <= MAX_STEPS => Ok(None),
        _ if is_short(one) || is_short(other) => Ok(Some(name)),
        _ => Err(SchemaError::node(text, node, &format!("{name} of values of any length"), FIX)),
    }
}

/// The operator, where it compares the elements of a value of any length with a few.
fn compares_sets(node: &SyntaxNode, text: &str) -> Result<Option<String>, SchemaError> {
    if node.kind() != BIN_EXPR {
        return Ok(None);
    }
    let sign = operator(node);
    let Some(operator) = SETS.iter().find(|it| sign == **it) else {
        return Ok(None);
    };
    let sides: Vec<SyntaxNode> = node.first_child().into_iter().chain(node.last_child()).collect();
    if sides.iter().any(|it| is_range(it, text)) {
        return Ok(None);
    }
    match sides.iter().filter_map(elements).any(|count| count <= MAX_ELEMENTS) {
        true => Ok(Some((*operator).to_owned())),
        false => Err(SchemaError::node(text, node, &format!("{operator} of values of any length"), SETS_FIX)),
    }
}

/// What stands between the two values: also a sign that the grammar has no word for.
fn operator(node: &SyntaxNode) -> String {
    let own = node.children().filter(|it| it.kind() == CUSTOM_OP);
    let own: String = own.map(|it| it.text().to_string()).collect();
    if own.is_empty() { sign(node) } else { own.split_whitespace().collect::<String>().to_ascii_lowercase() }
}

/// A value that the text makes a range, or something else without elements. The other side then is one, too.
fn is_range(node: &SyntaxNode, text: &str) -> bool {
    match node.kind() {
        PAREN_EXPR => node.last_child().is_some_and(|it| is_range(&it, text)),
        CAST_EXPR => {
            let is_array = |it: &SyntaxNode| it.text().to_string().trim_end().ends_with(']');
            node.last_child().is_some_and(|it| {
                !is_array(&it)
                    && (super::operations::is_fixed_type(&it)
                        || keys::last_name(&it, text).is_ok_and(|name| RANGES.contains(&name)))
            })
        }
        CALL_EXPR => {
            node.first_child().is_some_and(|it| keys::last_name(&it, text).is_ok_and(|name| RANGES.contains(&name)))
        }
        _ => false,
    }
}

/// How many elements a literal, or an array that is written out, has at most.
fn elements(node: &SyntaxNode) -> Option<usize> {
    match node.kind() {
        LITERAL => {
            let written = node.text().to_string();
            Some(1 + written.chars().filter(|it| matches!(it, ',' | ':' | '\\')).count())
        }
        PAREN_EXPR => elements(&node.last_child()?),
        CAST_EXPR => elements(&node.first_child()?),
        ARRAY_EXPR => {
            let values = node.descendants().filter(|it| it.kind() == LITERAL).count();
            let is_plain = node.descendants().all(|it| matches!(it.kind(), ARRAY_EXPR | LITERAL));
            is_plain.then_some(values)
        }
        _ => None,
    }
}

fn refuse_long_format(node: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    let Some(name) = called(node, text).filter(|it| FORMATS.contains(it)) else { return Ok(()) };
    let format = arguments(node).into_iter().nth(1);
    match format.is_none_or(|it| length(&it, text).is_some_and(|length| length <= MAX_FORMAT)) {
        true => Ok(()),
        false => Err(SchemaError::node(text, node, &format!("{name} with a format of any length"), FORMAT_FIX)),
    }
}

fn refuse_long_search(node: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    let Some(name) = called(node, text).filter(|it| SEARCHES.contains(it)) else { return Ok(()) };
    let words = arguments(node).into_iter().last();
    match words.is_some_and(|it| length(&it, text).is_some_and(|length| length <= MAX_SEARCH)) {
        true => Ok(()),
        false => Err(SchemaError::node(text, node, &format!("{name} of a text of any length"), SEARCH_FIX)),
    }
}

/// The function that is called here.
fn called(node: &SyntaxNode, text: &str) -> Option<String> {
    if node.kind() != CALL_EXPR {
        return None;
    }
    keys::last_name(&node.first_child()?, text).ok()
}

/// Of `@@` the right side can also be a search of text; only a path has a `$`, or hides one.
fn refuse_json_path(node: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    if node.kind() != BIN_EXPR {
        return Ok(());
    }
    let sign = operator(node);
    let hides = |it: &SyntaxNode| {
        let written = it.text().to_string();
        it.kind() == LITERAL && written.contains(['$', '\\'])
    };
    let is_path = sign.contains("@?")
        || sign.contains("@@") && node.children().any(|it| it.descendants().any(|inner| hides(&inner)));
    match is_path {
        true => Err(SchemaError::node(text, node, "a path of JSON", PATH_FIX)),
        false => Ok(()),
    }
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
    let operator = operator(node);
    node.children().any(|it| matches!(it.kind(), NOT_LIKE | NOT_ILIKE))
        || operator.contains("~~")
        || ["like", "ilike"].contains(&operator.as_str())
}

fn is_concatenation(node: &SyntaxNode) -> bool {
    operator(node) == "||"
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
        CASE_EXPR => max_length(results(node).iter(), text),
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

fn max_length<'a>(mut nodes: impl Iterator<Item = &'a SyntaxNode>, text: &str) -> Option<usize> {
    nodes.try_fold(0, |max, node| Some(max.max(length(node, text)?)))
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
        "coalesce" => max_length(arguments.iter(), text),
        "lower" | "upper" | "initcap" => length(arguments.first()?, text)?.checked_mul(CHARACTER_BYTES),
        _ => None,
    }
}
