//! Tables whose rows a key's action writes: `ON DELETE SET NULL` computes their checks, generated columns and indexes
//! anew, in the session that removes somebody's card. So these may hold small expressions only.
//!
//! This sees one file; what an older one has made, the look at the catalog finds (`sql/plugin_actions.sql`).

use std::collections::{BTreeMap, BTreeSet};

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::cost::{Cost, cost};
use super::error::SchemaError;
use super::names::Words;
use super::operations::{self, Columns, MAX_OPERATIONS};
use super::{keys, work};

const FIX: &str = "Write ON DELETE CASCADE for the key, or move this to another table; a table whose key sets a value when \
    a card is removed may compare values, test for NULL and bound lengths, no more.";

const DEFAULT: &str = "a default without a bound in a table whose key sets it";
const MANY: &str = "the 17th operation on values of any length in a table whose key sets a value";
/// Columns of domains, and domains below them, that are looked at; a table has 1,600 columns at most.
const MAX_DOMAINS: usize = 10_000;

const CONSTANT_FIX: &str = "Write the value itself: PostgreSQL computes it whenever somebody removes a card.";

/// Read their one value once, as in `sql/plugin_actions.sql`.
const QUICK_FUNCTIONS: Words = Words::new("lower upper length md5 abs date_trunc left right");
const PARTITION_FIX: &str = "Name a column: PostgreSQL computes the key's constants whenever it opens the table. A new column of the \
    table can hold the value, which the plugin writes.";

/// By table: whether a key writes it, and what is computed then.
#[derive(Default)]
pub(super) struct Actions {
    tables: BTreeMap<String, Table>,
    domains: BTreeMap<String, Table>,
}

/// A table, or a domain.
#[derive(Default)]
struct Table {
    is_written: bool,
    /// Tables whose rows its own follow: by a key that acts ON UPDATE, or as a partition.
    follows: Vec<String>,
    is_partition: bool,
    /// Whether a key computes defaults.
    sets_default: bool,
    /// Where its first large expression is.
    large: Option<(usize, &'static str)>,
    /// Where its first large default is.
    large_default: Option<usize>,
    /// Where a check of it computes something from constants.
    constant_check: Option<usize>,
    columns: Columns,
    /// Where it has operations on values of any length.
    operations: Vec<usize>,
    /// Names of the types of its columns, domains among them.
    types: Vec<String>,
}

impl Actions {
    pub(super) fn read(&mut self, text: &str, statement: &SyntaxNode) -> Result<(), SchemaError> {
        if let Some(key) = statement.descendants().find_map(|it| expression_of_partition_key(&it)) {
            return Err(SchemaError::forbidden(text, key, "a partition key that is no column", PARTITION_FIX));
        }
        let name = match statement.kind() {
            CREATE_TABLE | ALTER_TABLE => keys::table_name(statement, text)?,
            CREATE_DOMAIN | ALTER_DOMAIN => return self.read_domain(text, statement),
            CREATE_INDEX => match statement.children().find(|it| it.kind() == TABLE_RELATION_NAME) {
                Some(name) => keys::last_name(&name, text)?,
                None => return Ok(()),
            },
            // A table that is made again is another one.
            DROP_TABLE => {
                for name in statement.children().filter(|it| it.kind() == TABLE_NAME_REF) {
                    self.tables.remove(&keys::last_name(&name, text)?);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        if let Some(at) =
            statement.descendants().filter(|_| statement.kind() == CREATE_INDEX).find_map(|it| constant(&it))
        {
            return Err(SchemaError::forbidden(text, at, "a value that is computed from constants", CONSTANT_FIX));
        }
        self.read_partitions(&name, statement, text)?;
        let table = self.tables.entry(name).or_default();
        table.is_written |= statement.descendants().any(|it| is_writing(&it));
        table.sets_default |= statement.descendants().any(|it| it.kind() == SET_DEFAULT_COLUMNS);
        for key in statement.descendants().filter(acts_on_update) {
            let pointed_to = key.descendants().find(|it| it.kind() == TABLE_NAME_REF);
            table.follows.extend(pointed_to.map(|it| keys::last_name(&it, text)).transpose()?);
        }
        let types = table.columns.read(statement, text)?;
        table.types.extend(types);
        table.add(statement, text);
        Ok(())
    }

    /// Partitions have the checks of their own beside those of the table above.
    fn read_partitions(&mut self, name: &str, statement: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
        for clause in statement.children() {
            let (below, above) = match clause.kind() {
                PARTITION_BY => (name.to_owned(), None),
                PARTITION_OF => (name.to_owned(), Some(keys::last_name(&clause, text)?)),
                ATTACH_PARTITION => match clause.children().find(|it| it.kind() == TABLE_NAME_REF) {
                    Some(below) => (keys::last_name(&below, text)?, Some(name.to_owned())),
                    None => continue,
                },
                _ => continue,
            };
            let table = self.tables.entry(below).or_default();
            table.is_partition = true;
            table.follows.extend(above);
        }
        Ok(())
    }

    fn read_domain(&mut self, text: &str, statement: &SyntaxNode) -> Result<(), SchemaError> {
        let Some(name) = statement.children().find(|it| matches!(it.kind(), DOMAIN | DOMAIN_REF)) else {
            return Ok(());
        };
        let domain = self.domains.entry(keys::last_name(&name, text)?).or_default();
        if statement.kind() == CREATE_DOMAIN {
            domain.columns = Columns::for_domain(statement);
            let base = statement.children().find(|it| it.kind() == PATH_TYPE);
            domain.types.extend(base.map(|it| keys::last_name(&it, text)).transpose()?);
        }
        domain.add(statement, text);
        Ok(())
    }

    /// What PostgreSQL computes of a table's row: its own, and for each column of a domain that one's checks.
    fn computed<'a>(&'a self, table: &'a Table) -> Vec<&'a Table> {
        let (mut found, mut next) = (vec![table], table.types.iter().collect::<Vec<_>>());
        // A domain stands on an older one, never on itself.
        while let Some(name) = next.pop().filter(|_| found.len() < MAX_DOMAINS) {
            let Some(domain) = self.domains.get(name) else { continue };
            next.extend(&domain.types);
            found.push(domain);
        }
        found
    }

    fn refused(&self, table: &Table) -> Option<(usize, &'static str)> {
        let computed = self.computed(table);
        let operations: Vec<usize> = computed.iter().flat_map(|it| &it.operations).copied().collect();
        let many = operations.get(MAX_OPERATIONS).map(|at| (*at, MANY));
        let default = table.large_default.filter(|_| table.sets_default).map(|at| (at, DEFAULT));
        computed.iter().filter_map(|it| it.large).chain(default).min().or(many)
    }

    pub(super) fn check(&self, text: &str) -> Result<(), SchemaError> {
        let written = self.written();
        let first =
            self.tables.iter().filter(|(name, _)| written.contains(name)).filter_map(|(_, it)| self.refused(it)).min();
        if let Some((at, what)) = first {
            return Err(SchemaError::forbidden(text, at, what, FIX));
        }
        let constant = self.tables.values().filter(|it| it.is_partition).filter_map(|it| it.constant_check).min();
        match constant {
            Some(at) => Err(SchemaError::forbidden(text, at, "a value that is computed from constants", CONSTANT_FIX)),
            None => Ok(()),
        }
    }

    /// The tables that a key writes, and those that follow them.
    fn written(&self) -> BTreeSet<&String> {
        let mut written: BTreeSet<&String> =
            self.tables.iter().filter(|(_, it)| it.is_written).map(|(name, _)| name).collect();
        loop {
            let follows = |table: &Table| table.follows.iter().any(|it| written.contains(it));
            let more: Vec<&String> = self
                .tables
                .iter()
                .filter(|(name, table)| !written.contains(name) && follows(table))
                .map(|(name, _)| name)
                .collect();
            if more.is_empty() {
                return written;
            }
            written.extend(more);
        }
    }
}

impl Table {
    fn add(&mut self, statement: &SyntaxNode, text: &str) {
        if self.large.is_none() {
            self.large = statement.descendants().find_map(|it| large(&it));
        }
        let large_default = statement.descendants().find(|it| is_default(it) && cost(it) == Cost::Large);
        self.large_default = self.large_default.or(large_default.map(|it| super::start(&it)));
        let mut checks = statement.descendants().filter(|it| it.kind() == CHECK_CONSTRAINT);
        self.constant_check =
            self.constant_check.or(checks.find_map(|check| check.descendants().find_map(|it| constant(&it))));
        let computed = statement.descendants().filter(|it| work::is_expression(it) && !is_default(it));
        for expression in computed {
            let found = self.columns.operations(&expression, text);
            self.operations.extend(found.at);
            self.large = self.large.or(found.large);
        }
    }
}

fn is_writing(node: &SyntaxNode) -> bool {
    node.kind() == ON_DELETE_ACTION
        && node.children().any(|it| matches!(it.kind(), SET_NULL_COLUMNS | SET_DEFAULT_COLUMNS))
}

/// Whether it is a key whose rows change with those that it points to.
fn acts_on_update(key: &SyntaxNode) -> bool {
    let is_key = matches!(key.kind(), REFERENCES_CONSTRAINT | FOREIGN_KEY_CONSTRAINT);
    is_key
        && key.children().filter(|it| it.kind() == ON_UPDATE_ACTION).any(|action| {
            action.children().any(|it| matches!(it.kind(), CASCADE | SET_NULL_COLUMNS | SET_DEFAULT_COLUMNS))
        })
}

/// Only the name of a column is none.
fn expression_of_partition_key(node: &SyntaxNode) -> Option<usize> {
    let key = node.parent().filter(|it| it.kind() == PARTITION_ITEM).filter(|_| node.prev_sibling().is_none())?;
    let is_key = key.parent()?.parent()?.kind() == PARTITION_BY;
    let column = match node.kind() {
        COLLATE => node.first_child()?,
        _ => node.clone(),
    };
    (is_key && column.kind() != NAME_REF).then(|| super::start(node))
}

/// A call or an operator that PostgreSQL can compute before it has a row.
fn constant(node: &SyntaxNode) -> Option<usize> {
    let is_signed = node.kind() == PREFIX_EXPR && node.first_child().is_some_and(|it| it.kind() == LITERAL);
    let is_operation = matches!(node.kind(), CALL_EXPR | BIN_EXPR | PREFIX_EXPR) && !is_signed && !is_cheap(node);
    // `= ANY (...)` is written like a call.
    let is_list = node.first_child().is_some_and(|it| matches!(it.kind(), ANY_FN | ALL_FN | SOME_FN));
    (is_operation && !is_list && operands(node).all(|it| may_be_constant(&it))).then(|| super::start(node))
}

/// Its values, without the name of a function, which may have a schema.
fn operands(node: &SyntaxNode) -> impl Iterator<Item = SyntaxNode> {
    let is_call = node.children().any(|it| it.kind() == ARG_LIST);
    node.children().skip(usize::from(is_call)).filter(|it| it.kind() != OP)
}

/// Reads its values once, and one of them may have a column in it.
fn is_cheap(node: &SyntaxNode) -> bool {
    let has_column = node.descendants().any(|it| it.kind() == NAME_REF && !operations::is_callee(&it));
    let callee = || node.first_child().map(|it| it.text().to_string().to_ascii_lowercase()).unwrap_or_default();
    is_logic(node)
        || ["=", "<>", "!=", "<", ">", "<=", ">=", "is", "isnot"].contains(&operations::sign(node).as_str())
        || has_column && node.kind() == CALL_EXPR && (QUICK_FUNCTIONS.contains(&callee()) || is_coalesce(node))
}

/// Of AND, OR and NOT the simplified operands are what is left, and each of them is looked at.
fn is_logic(node: &SyntaxNode) -> bool {
    matches!(operations::sign(node).as_str(), "and" | "or" | "not")
}

/// Whether PostgreSQL may make a constant of it without a row: of `coalesce('a', v)` it makes `'a'`, of a CASE one of
/// its results.
fn may_be_constant(node: &SyntaxNode) -> bool {
    let inside = || operands(node);
    match node.kind() {
        NAME_REF => false,
        CAST_EXPR => node.children().filter(|it| !operations::is_type(it)).all(|it| may_be_constant(&it)),
        INDEX_EXPR | SLICE_EXPR => node.first_child().is_none_or(|it| may_be_constant(&it)),
        BIN_EXPR if !is_logic(node) => inside().all(|it| may_be_constant(&it)),
        CALL_EXPR | ARG_LIST if !is_coalesce(node) => inside().all(|it| may_be_constant(&it)),
        ARG | EXTRACT_FN | SUBSTRING_FN | SUBSTRING_FROM_FOR | SUBSTRING_FOR_FROM | SUBSTRING_EXPRS | OVERLAY_FN
        | OVERLAY_EXPRS | OVERLAY_PLACING | TRIM_FN | TRIM_FROM | TRIM_EXPR_FROM | TRIM_EXPRS | POSITION_FN => {
            inside().all(|it| may_be_constant(&it))
        }
        _ => inside().next().is_none() || inside().any(|it| may_be_constant(&it)),
    }
}

/// The call, or the list of its values.
fn is_coalesce(node: &SyntaxNode) -> bool {
    let call = if node.kind() == ARG_LIST { node.parent() } else { Some(node.clone()) };
    let callee = call.and_then(|it| it.first_child());
    callee.is_some_and(|it| it.text().to_string().eq_ignore_ascii_case("coalesce"))
}

fn large(node: &SyntaxNode) -> Option<(usize, &'static str)> {
    let at = super::start(node);
    if node.kind() == EXCLUDE_CONSTRAINT {
        return Some((at, "EXCLUDE in a table whose key sets a value"));
    }
    let is_large = work::is_expression(node) && !is_default(node) && cost(node) == Cost::Large;
    is_large.then_some((at, "an expression without a bound in a table whose key sets a value"))
}

/// A default is computed for new rows; the look at the catalog knows those that SET DEFAULT computes.
fn is_default(expression: &SyntaxNode) -> bool {
    work::is_expression(expression)
        && expression.parent().is_some_and(|it| matches!(it.kind(), DEFAULT_CONSTRAINT | SET_DEFAULT))
}
