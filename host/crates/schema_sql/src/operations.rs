//! Operations on values of any length, in tables whose rows a key's action writes: each reads its values whole, in the
//! session that removes somebody's card. So their number is bounded. Counts no fewer than the look at the catalog does
//! (`sql/plugin_actions.sql`), so that it refuses nothing here that the reader has let through.

use std::collections::BTreeMap;

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::error::SchemaError;
use super::{keys, lexis};

/// Of one table, as `sql/plugin_actions.sql` has it.
pub(super) const MAX_OPERATIONS: usize = 16;

/// Types whose values have one length.
const FIXED: &[&str] = &[
    "smallint",
    "int2",
    "integer",
    "int",
    "int4",
    "bigint",
    "int8",
    "smallserial",
    "serial",
    "serial2",
    "serial4",
    "bigserial",
    "serial8",
    "real",
    "float",
    "float4",
    "float8",
    "double",
    "boolean",
    "bool",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "money",
    "oid",
    "macaddr",
    "macaddr8",
    "point",
];
/// Types whose values are read no further when they have another length than what they are compared with.
const TEXTS: &[&str] = &["text", "varchar", "bytea"];

/// What it takes to read a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Fixed,
    Text,
    Any,
}

/// PostgreSQL writes the value as text and reads that.
const CONVERSION: &str = "a cast from or to a text in a table whose key sets a value";
const ARITHMETIC: &str = "a computation with values of any length in a table whose key sets a value";
const LIST: &str = "IN with values of any length, or that are computed, in a table whose key sets a value";

/// What an expression has, by place.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// On values of any length.
    pub at: Vec<usize>,
    /// What has no bound at all, with the words for it.
    pub large: Option<(usize, &'static str)>,
}

/// The columns of a table, as far as the file says.
#[derive(Debug, Default)]
pub(super) struct Columns {
    widths: BTreeMap<String, Width>,
    /// Whether the file makes the table, with all of its columns: those of another are known to the server alone.
    is_whole: bool,
}

impl Columns {
    /// Notes the columns that the statement declares; gives the names of their types.
    pub(super) fn read(&mut self, statement: &SyntaxNode, text: &str) -> Result<Vec<String>, SchemaError> {
        if statement.kind() == CREATE_TABLE {
            self.is_whole =
                !statement.descendants().any(|it| matches!(it.kind(), LIKE_CLAUSE | INHERITS | PARTITION_OF | OF_TYPE));
        }
        let mut types = Vec::new();
        for column in statement.descendants().filter(|it| matches!(it.kind(), COLUMN | ADD_COLUMN)) {
            let Some(name) = column.children().find(|it| it.kind() == COLUMN_NAME) else { continue };
            let Some(kind) = column.children().find(is_type) else { continue };
            self.widths.insert(keys::last_name(&name, text)?, width_of_type(&kind));
            types.extend(keys::last_name(&kind, text));
        }
        Ok(types)
    }

    /// For the checks of a domain, whose value is the one column.
    pub(super) fn for_domain(domain: &SyntaxNode) -> Self {
        let width = domain.children().find(is_type).map_or(Width::Any, |kind| width_of_type(&kind));
        Self { widths: BTreeMap::from([("value".to_owned(), width)]), is_whole: true }
    }

    fn width(&self, name: &str) -> Width {
        let unknown = if self.is_whole { Width::Any } else { Width::Fixed };
        self.widths.get(name).copied().unwrap_or(unknown)
    }

    pub(super) fn operations(&self, expression: &SyntaxNode, text: &str) -> Operations {
        let mut count = Count { columns: self, text, found: Operations::default() };
        count.width(expression);
        count.found
    }
}

pub(super) fn is_type(node: &SyntaxNode) -> bool {
    matches!(
        node.kind(),
        PATH_TYPE
            | ARRAY_TYPE
            | DOUBLE_TYPE
            | VARCHAR_TYPE
            | CHARACTER_TYPE
            | BIT_TYPE
            | BIT_VARYING_TYPE
            | TIME_TYPE
            | TIMESTAMP_TYPE
            | INTERVAL_TYPE
    )
}

/// Whether values of the type have one length.
pub(super) fn is_fixed_type(kind: &SyntaxNode) -> bool {
    is_type(kind) && width_of_type(kind) == Width::Fixed
}

/// A name in quotes or with a schema may be a type of the plugin's.
fn width_of_type(kind: &SyntaxNode) -> Width {
    let written = kind.text().to_string().to_ascii_lowercase();
    let words: Vec<&str> = written.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    let first = words.first().copied().unwrap_or_default();
    match kind.kind() {
        ARRAY_TYPE => Width::Any,
        VARCHAR_TYPE if first == "varchar" || words.contains(&"varying") => Width::Text,
        _ if written.contains(['[', '"', '.']) => Width::Any,
        _ if FIXED.contains(&first) => Width::Fixed,
        _ if TEXTS.contains(&first) => Width::Text,
        _ => Width::Any,
    }
}

struct Count<'a> {
    columns: &'a Columns,
    text: &'a str,
    found: Operations,
}

impl Count<'_> {
    fn width(&mut self, node: &SyntaxNode) -> Width {
        match node.kind() {
            NAME_REF => keys::last_name(node, self.text).map_or(Width::Any, |name| self.columns.width(&name)),
            LITERAL => literal(node),
            PAREN_EXPR | ARG_LIST | ARG => self.all(node),
            SYMMETRIC | ASYMMETRIC => Width::Fixed,
            PREFIX_EXPR => {
                let width = self.all(node);
                let is_sign = !node.text().to_string().trim_start().to_ascii_lowercase().starts_with("not");
                if is_sign && width != Width::Fixed && !is_constant(node) {
                    self.refuse(node, ARITHMETIC);
                }
                width
            }
            BIN_EXPR => self.binary(node),
            BETWEEN_EXPR => self.between(node),
            POSTFIX_EXPR => {
                self.all(node);
                Width::Fixed
            }
            CALL_EXPR => self.call(node),
            CAST_EXPR => {
                let width = node.first_child().map_or(Width::Any, |it| self.width(&it));
                let target = node.children().find(is_type).map_or(Width::Any, |kind| width_of_type(&kind));
                if !is_constant(node) {
                    self.operation(node, width != Width::Fixed);
                    if (width == Width::Text) != (target == Width::Text) {
                        self.refuse(node, CONVERSION);
                    }
                }
                target
            }
            CASE_EXPR => {
                self.all(node);
                // Each WHEN compares, when there is a value to compare.
                let whens = node.descendants().filter(|it| it.kind() == WHEN_CLAUSE);
                whens.for_each(|when| {
                    self.operation(&when, !matches!(node.first_child(), Some(it) if it.kind() == WHEN_CLAUSE_LIST))
                });
                Width::Any
            }
            _ => self.all(node).max(Width::Any),
        }
    }

    /// The widest of what is inside.
    fn all(&mut self, node: &SyntaxNode) -> Width {
        let inside: Vec<SyntaxNode> = node.children().filter(|it| !is_callee(it)).collect();
        inside.iter().map(|it| self.width(it)).max().unwrap_or(Width::Fixed)
    }

    fn operation(&mut self, node: &SyntaxNode, is_one: bool) {
        if is_one {
            self.found.at.push(super::start(node));
        }
    }

    fn refuse(&mut self, node: &SyntaxNode, what: &'static str) {
        self.found.large = self.found.large.or(Some((super::start(node), what)));
    }

    fn binary(&mut self, node: &SyntaxNode) -> Width {
        let operands: Vec<SyntaxNode> = node.children().filter(|it| !is_sign(it)).collect();
        let [left, right] = operands.as_slice() else { return self.all(node) };
        match sign(node).as_str() {
            "and" | "or" | "is" | "isnot" => {
                self.all(node);
                Width::Fixed
            }
            "in" | "notin" => self.contained(node, left, right),
            "=" | "<>" | "!=" => {
                let width = self.compared(left, right);
                let is_text = width <= Width::Text && (is_constant(left) || is_constant(right));
                for _ in 0..items(left).len() {
                    self.operation(node, width != Width::Fixed && !is_text);
                }
                Width::Fixed
            }
            "<" | ">" | "<=" | ">=" | "isdistinctfrom" | "isnotdistinctfrom" => {
                let width = self.compared(left, right);
                for _ in 0..items(left).len() {
                    self.operation(node, width != Width::Fixed);
                }
                Width::Fixed
            }
            _ => {
                let width = self.compared(left, right);
                if width != Width::Fixed && !is_constant(node) {
                    self.refuse(node, ARITHMETIC);
                }
                width
            }
        }
    }

    fn between(&mut self, node: &SyntaxNode) -> Width {
        // What stands beside it is counted where it stands.
        let mut beside = Count { columns: self.columns, text: self.text, found: Operations::default() };
        let width = left_of_between(node).iter().map(|it| beside.width(it)).max().unwrap_or(Width::Fixed);
        let width = self.all(node).max(width);
        let operands = node.children().filter(|it| !matches!(it.kind(), SYMMETRIC | ASYMMETRIC)).count();
        // SYMMETRIC looks both ways.
        let times = if operands == node.children().count() { 1 } else { 2 };
        for _ in 0..operands.saturating_sub(1) * times {
            self.operation(node, width != Width::Fixed);
        }
        Width::Fixed
    }

    fn compared(&mut self, left: &SyntaxNode, right: &SyntaxNode) -> Width {
        let (left, right) = (self.items_width(left), self.items_width(right));
        left.max(right)
    }

    fn items_width(&mut self, node: &SyntaxNode) -> Width {
        items(node).iter().map(|it| self.width(it)).max().unwrap_or(Width::Fixed)
    }

    /// IN: a comparison with each value, or with a list of constants.
    fn contained(&mut self, node: &SyntaxNode, left: &SyntaxNode, right: &SyntaxNode) -> Width {
        let (listed, width) = (items(right), self.items_width(left));
        let is_list = listed.iter().all(is_constant);
        let widest = listed.iter().map(|it| self.items_width(it)).max().unwrap_or(Width::Fixed).max(width);
        // PostgreSQL makes a list of those without a column.
        let mut free = listed.iter().filter(|it| !has_column(it));
        let is_array = free.clone().count() > 1 && left.kind() != TUPLE_EXPR;
        if is_array && (widest == Width::Any || free.any(|it| !is_constant(it))) {
            self.refuse(node, LIST);
        }
        let is_free = widest == Width::Fixed || (is_list && widest == Width::Text);
        let count = if is_list { 1 } else { listed.len() * items(left).len() };
        for _ in 0..count {
            self.operation(node, !is_free);
        }
        Width::Fixed
    }

    fn call(&mut self, node: &SyntaxNode) -> Width {
        let width = self.all(node);
        let name = node.first_child().map(|it| it.text().to_string().to_ascii_lowercase()).unwrap_or_default();
        if name == "coalesce" {
            return width;
        }
        self.operation(node, width != Width::Fixed);
        if name == "nullif" { width } else { Width::Fixed }
    }
}

/// The parser reads `a || b BETWEEN c AND d` as `a || (b BETWEEN c AND d)`: what stands before `b` belongs to the
/// subject.
fn left_of_between(node: &SyntaxNode) -> Vec<SyntaxNode> {
    let mut lefts = Vec::new();
    let mut at = node.clone();
    while let Some(parent) = at.parent().filter(|it| it.kind() == BIN_EXPR) {
        let is_logic = ["and", "or"].contains(&sign(&parent).as_str());
        match parent.first_child().filter(|left| *left != at && !is_logic) {
            Some(left) => lefts.push(left),
            None => break,
        }
        at = parent;
    }
    lefts
}

/// The values of a row or a list, or the one value.
fn items(node: &SyntaxNode) -> Vec<SyntaxNode> {
    match node.kind() {
        TUPLE_EXPR => node.children().collect(),
        PAREN_EXPR => node.children().flat_map(|it| items(&it)).collect(),
        _ => vec![node.clone()],
    }
}

/// PostgreSQL makes a whole number of eight bytes at most, and of any other one a value of any length.
fn literal(node: &SyntaxNode) -> Width {
    const MAX_DIGITS: usize = 18;
    let written = node.text().to_string();
    let is_number = written.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    let is_whole = written.len() <= MAX_DIGITS && written.bytes().all(|letter| letter.is_ascii_digit());
    if is_number && !is_whole { Width::Any } else { Width::Fixed }
}

fn has_column(node: &SyntaxNode) -> bool {
    node.descendants().any(|it| it.kind() == NAME_REF && !is_callee(&it))
}

/// Whether this is the name of a function.
pub(super) fn is_callee(node: &SyntaxNode) -> bool {
    node.kind() == NAME_REF
        && node.parent().is_some_and(|it| it.kind() == CALL_EXPR && it.first_child().as_ref() == Some(node))
}

/// A value that PostgreSQL keeps as it is: to bring a text to a length, as `::varchar(9)` does, is computed each time.
pub(super) fn is_constant(node: &SyntaxNode) -> bool {
    match node.kind() {
        LITERAL => true,
        CAST_EXPR if node.children().any(|it| is_type(&it) && it.text().to_string().contains('(')) => false,
        PAREN_EXPR | PREFIX_EXPR | CAST_EXPR => node.first_child().is_some_and(|it| is_constant(&it)),
        _ => false,
    }
}

fn is_sign(node: &SyntaxNode) -> bool {
    matches!(node.kind(), OP | NOT_IN | IS_NOT | IS_DISTINCT_FROM | IS_NOT_DISTINCT_FROM)
}

/// The operator between two values, without spaces.
pub(super) fn sign(node: &SyntaxNode) -> String {
    let own = node.children_with_tokens().filter_map(|it| match (it.as_node(), it.as_token()) {
        (Some(node), _) if is_sign(node) => Some(node.text().to_string()),
        (_, Some(token)) if !lexis::is_trivia(token.kind()) => Some(token.text().to_string()),
        _ => None,
    });
    own.collect::<String>().split_whitespace().collect::<String>().to_ascii_lowercase()
}
