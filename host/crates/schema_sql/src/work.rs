//! How long a statement can take by its shape. While a session has the lock on the cards, only statements run that
//! evaluate nothing of the plugin's and read none of its rows: PostgreSQL cannot interrupt every expression.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::cost::{Cost, cost};
use super::error::SchemaError;
use super::{keys, lexis, names};

/// How long a statement can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// It drops or changes names, no more. May take the lock on the cards.
    Drops,
    /// It evaluates nothing but small expressions, and reads no row. Takes no lock on the cards.
    Quick,
    /// As quick as that, while these tables hold nothing but what this file wrote since the cards are locked.
    QuickOn(Vec<String>),
    Slow,
}

/// A table that makes a statement take the lock on the cards when it has a key to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedBy {
    pub table: String,
    /// When it is about this column alone.
    pub column: Option<String>,
    /// Whether the statement is quick all the same when the table has no default partition, whose rows PostgreSQL
    /// looks through.
    pub is_quick_without_default: bool,
    /// Whether its keys come or go with the statement, or change. One that is not made yet cannot.
    pub changes_keys: bool,
}

impl LockedBy {
    fn new(table: String) -> Self {
        Self { table, column: None, is_quick_without_default: false, changes_keys: false }
    }
}

/// What of a statement is run by itself. PostgreSQL drops first, whatever the order of an ALTER TABLE; so the part that
/// may take the lock can be apart from the part that may take long. Checks it adds behind all other changes of the
/// table; so they can be apart as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    drops: bool,
    late_checks: bool,
    others: bool,
}

impl Part {
    pub(super) const WHOLE: Self = Self { drops: true, late_checks: true, others: true };

    /// Whether it is nothing but checks that may be made without a look at the rows.
    pub(super) fn is_late(self) -> bool {
        !self.drops && !self.others
    }

    pub(super) fn has(self, action: &SyntaxNode) -> bool {
        match action.kind() {
            kind if is_drop(kind) => self.drops,
            _ if is_late_check(action) => self.late_checks,
            _ => self.others,
        }
    }
}

/// `may_check_later`: whether checks may be apart.
pub(super) fn parts(statement: &SyntaxNode, may_check_later: bool) -> Vec<Part> {
    let actions: Vec<SyntaxNode> = statement.children().filter(|it| is_action(it.kind())).collect();
    if statement.kind() != ALTER_TABLE || actions.is_empty() {
        return vec![Part::WHOLE];
    }
    let late = Part { drops: false, late_checks: true, others: false };
    let has_late = may_check_later && actions.iter().any(|it| late.has(it));
    let changes = Part { late_checks: !has_late, ..Part::WHOLE };
    // An expression of USING may read a column that the same statement drops.
    let mut parts = match statement.descendants().any(|it| it.kind() == USING_EXPR) {
        true => vec![changes],
        false => vec![Part { drops: true, late_checks: false, others: false }, Part { drops: false, ..changes }],
    };
    parts.extend(has_late.then_some(late));
    parts.retain(|part| actions.iter().any(|it| part.has(it)));
    parts
}

/// Whether an action of an ALTER TABLE adds a check that the author wants for the rows that are there as well.
pub(super) fn is_late_check(action: &SyntaxNode) -> bool {
    action.kind() == ADD_CONSTRAINT
        && find_check(action).is_some()
        && !action.descendants().any(|it| it.kind() == NOT_VALID)
}

pub(super) fn find_check(action: &SyntaxNode) -> Option<SyntaxNode> {
    action.children().find(|it| it.kind() == CHECK_CONSTRAINT)
}

/// Whether this is one of an ALTER TABLE's actions.
pub(super) fn is_action(kind: SyntaxKind) -> bool {
    !matches!(kind, IF_EXISTS | TABLE_RELATION_NAME | WHITESPACE | COMMENT)
}

fn is_drop(action: SyntaxKind) -> bool {
    matches!(action, DROP_COLUMN | DROP_CONSTRAINT)
}

/// Longer values are not written while the cards are locked: each operation of a check reads the whole value.
const MAX_QUICK_VALUE: usize = 8 * 1024;

pub(super) fn classify(statement: &SyntaxNode, part: Part, text: &str) -> Result<Work, SchemaError> {
    Ok(match statement.kind() {
        INSERT | CREATE_TABLE | ALTER_TABLE | CREATE_INDEX if has_long_value(statement) => Work::Slow,
        DROP_TABLE | DROP_INDEX | DROP_SEQUENCE | DROP_VIEW | DROP_TYPE | DROP_DOMAIN => Work::Drops,
        COMMENT_ON | CREATE_SEQUENCE | ALTER_SEQUENCE => Work::Quick,
        ALTER_INDEX | ALTER_VIEW | ALTER_TYPE | ALTER_DOMAIN if is_renaming(statement) => Work::Quick,
        CREATE_TYPE => Work::Quick,
        CREATE_VIEW if !has_texts(statement) => Work::Quick,
        CREATE_TABLE if is_quick_table(statement, text)? => Work::Quick,
        CREATE_INDEX => match expressions_are_small(statement) {
            true => Work::QuickOn(named_tables(statement, text)?),
            false => Work::Slow,
        },
        INSERT if is_plain_insert(statement) => Work::QuickOn(named_tables(statement, text)?),
        ALTER_TABLE => alteration(statement, part, text)?,
        _ => Work::Slow,
    })
}

/// What locks the cards when a table has a key to them: a new type of the key's column, and a partition that comes or
/// goes.
pub(super) fn locked_by(statement: &SyntaxNode, text: &str) -> Result<Vec<LockedBy>, SchemaError> {
    let mut found = Vec::new();
    match statement.kind() {
        CREATE_TABLE => {
            let parents = statement.children().filter(|it| it.kind() == PARTITION_OF);
            for parent in parents {
                let is_quick_without_default = is_quick_table(statement, text)?;
                let table = keys::last_name(&parent, text)?;
                found.push(LockedBy { is_quick_without_default, ..LockedBy::new(table) });
            }
        }
        ALTER_TABLE => {
            let table = keys::table_name(statement, text)?;
            for action in statement.children() {
                let column = action.children().find(|it| it.kind() == COLUMN_NAME_REF);
                let changes_type = action.children().any(|it| it.kind() == SET_TYPE);
                if let Some(column) = column.filter(|_| changes_type) {
                    let column = Some(keys::last_name(&column, text)?);
                    found.push(LockedBy { column, ..LockedBy::new(table.clone()) });
                }
                if matches!(action.kind(), ATTACH_PARTITION | DETACH_PARTITION | ALTER_CONSTRAINT) {
                    found.push(LockedBy { changes_keys: true, ..LockedBy::new(table.clone()) });
                    let names =
                        action.children().filter(|it| matches!(it.kind(), TABLE_NAME_REF | TABLE_RELATION_NAME));
                    for name in names {
                        let table = keys::last_name(&name, text)?;
                        found.push(LockedBy::new(table));
                    }
                }
            }
        }
        _ => {}
    }
    Ok(found)
}

fn is_renaming(statement: &SyntaxNode) -> bool {
    let renames = [
        INDEX_RENAME_TO,
        VIEW_RENAME_TO,
        TYPE_RENAME_TO,
        DOMAIN_RENAME_TO,
        RENAME_COLUMN,
        RENAME_VALUE,
        RENAME_ATTRIBUTE,
        RENAME_CONSTRAINT,
        ADD_VALUE,
    ];
    statement.children().any(|it| renames.contains(&it.kind()))
}

/// A new table is quick when PostgreSQL computes nothing for it: it does for generated columns, for EXCLUDE, for
/// partitions by an expression, and for values of the plugin's own types, which may have checks.
fn is_quick_table(statement: &SyntaxNode, text: &str) -> Result<bool, SchemaError> {
    let heavy = [GENERATED_STORED, EXCLUDE_CONSTRAINT, LIKE_CLAUSE, INHERITS, PARTITION_BY];
    let is_plain = !statement.descendants().any(|it| heavy.contains(&it.kind()));
    Ok(is_plain && expressions_are_small(statement) && types_are_built_in(statement, text)?)
}

fn alteration(statement: &SyntaxNode, part: Part, text: &str) -> Result<Work, SchemaError> {
    let mut work = Work::Drops;
    for action in statement.children().filter(|it| is_action(it.kind()) && part.has(it)) {
        work = match (work, classify_action(&action, text)?) {
            (work, Work::Drops) => work,
            (Work::Slow, _) | (_, Work::Slow) => Work::Slow,
            (work @ Work::QuickOn(_), _) => work,
            (_, Work::QuickOn(_)) => Work::QuickOn(named_tables(statement, text)?),
            (_, work) => work,
        };
    }
    Ok(work)
}

fn classify_action(action: &SyntaxNode, text: &str) -> Result<Work, SchemaError> {
    Ok(match action.kind() {
        DROP_COLUMN | DROP_CONSTRAINT | TABLE_RENAME_TO | RENAME_COLUMN | RENAME_CONSTRAINT => Work::Drops,
        ALTER_COLUMN => match action.children().last().map(|it| it.kind()) {
            Some(DROP_DEFAULT | DROP_NOT_NULL | SET_STATISTICS | SET_STORAGE | SET_COMPRESSION | SET_OPTIONS)
            | Some(RESET_OPTIONS) => Work::Quick,
            // A text may be a value of a type of the plugin's, with checks.
            Some(SET_DEFAULT) if expressions_are_small(action) && !has_texts(action) => Work::Quick,
            _ => Work::Slow,
        },
        ADD_COLUMN => {
            let clauses: Vec<SyntaxKind> = action.children().map(|it| it.kind()).collect();
            let slow = [GENERATED_CONSTRAINT, CHECK_CONSTRAINT, NOT_NULL_CONSTRAINT, UNIQUE_CONSTRAINT];
            let is_quick = !clauses.iter().any(|it| slow.contains(it) || *it == PRIMARY_KEY_CONSTRAINT)
                && !action.descendants().any(|it| it.kind() == CALL_EXPR)
                && !is_own_key(action, text)
                && expressions_are_small(action)
                && types_are_built_in(action, text)?;
            if is_quick { Work::Quick } else { Work::QuickOn(Vec::new()) }
        }
        ADD_CONSTRAINT => match action.first_child().map(|it| it.kind()) {
            Some(FOREIGN_KEY_CONSTRAINT) if !is_own_key(action, text) => Work::Quick,
            Some(CHECK_CONSTRAINT | UNIQUE_CONSTRAINT | PRIMARY_KEY_CONSTRAINT | NOT_NULL_CONSTRAINT)
                if expressions_are_small(action) =>
            {
                Work::QuickOn(Vec::new())
            }
            _ => Work::Slow,
        },
        _ => Work::Slow,
    })
}

/// Whether a foreign key points to another table than the cards.
fn is_own_key(action: &SyntaxNode, text: &str) -> bool {
    let mut pointed_to = action.descendants().filter(|it| it.kind() == TABLE_NAME_REF);
    pointed_to.any(|it| !matches!(keys::last_name(&it, text).as_deref(), Ok(name) if name == keys::CARDS[1]))
}

/// Rows of values, written out.
fn is_plain_insert(statement: &SyntaxNode) -> bool {
    let parts = [RELATION_NAME_REF, COLUMN_TARGET_LIST, VALUES, ON_CONFLICT_CLAUSE];
    statement.children().all(|it| parts.contains(&it.kind()))
        && statement
            .children()
            .all(|it| it.kind() != ON_CONFLICT_CLAUSE || it.children().any(|it| it.kind() == CONFLICT_DO_NOTHING))
        && statement
            .descendants()
            .filter(|it| it.kind() == ROW)
            .all(|row| row.children().all(|it| cost(&it) == Cost::Small))
}

/// Every expression within a declaration.
fn expressions_are_small(node: &SyntaxNode) -> bool {
    node.descendants().filter(is_expression).all(|it| cost(&it) == Cost::Small)
}

/// The outermost node of an expression within a declaration.
pub(super) fn is_expression(node: &SyntaxNode) -> bool {
    let is_node = matches!(
        node.kind(),
        NAME_REF
            | LITERAL
            | PAREN_EXPR
            | TUPLE_EXPR
            | ARRAY_EXPR
            | BETWEEN_EXPR
            | POSTFIX_EXPR
            | CASE_EXPR
            | CALL_EXPR
            | PREFIX_EXPR
            | BIN_EXPR
            | CAST_EXPR
            | FIELD_EXPR
            | INDEX_EXPR
            | SLICE_EXPR
    );
    let parents = [
        CHECK_CONSTRAINT,
        DEFAULT_CONSTRAINT,
        GENERATED_STORED,
        SET_DEFAULT,
        PARTITION_ITEM,
        WHERE_CONDITION_CLAUSE,
        PARTITION_FROM_VALUES,
        PARTITION_TO_VALUES,
        PARTITION_FOR_VALUES_IN,
        WHERE_CLAUSE,
    ];
    is_node && node.parent().is_some_and(|it| parents.contains(&it.kind()))
}

fn has_long_value(statement: &SyntaxNode) -> bool {
    let mut values = statement.descendants().filter(|it| it.kind() == LITERAL);
    values.any(|it| usize::from(it.text_range().len()) > MAX_QUICK_VALUE)
}

fn has_texts(node: &SyntaxNode) -> bool {
    let texts = [STRING, ESC_STRING, DOLLAR_QUOTED_STRING, BIT_STRING, BYTE_STRING];
    node.descendants_with_tokens().filter_map(|it| it.into_token()).any(|it| texts.contains(&it.kind()))
}

fn types_are_built_in(node: &SyntaxNode, text: &str) -> Result<bool, SchemaError> {
    for path in node.descendants().filter(|it| it.kind() == PATH_TYPE) {
        let is_quoted = path.text().to_string().contains('"');
        let name = keys::last_name(path.first_child().as_ref().unwrap_or(&path), text)?;
        // A path with a schema may be one of the plugin's.
        let dots = path.descendants_with_tokens().any(|it| it.kind() == DOT);
        if dots || names::built_in_type(&name, is_quoted).is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Every table that the statement names.
fn named_tables(statement: &SyntaxNode, text: &str) -> Result<Vec<String>, SchemaError> {
    let names = statement
        .descendants()
        .filter(|it| matches!(it.kind(), TABLE_NAME_REF | RELATION_NAME_REF) && !lexis::is_trivia(it.kind()));
    let mut tables = Vec::new();
    for node in names {
        let name = keys::last_name(&node, text)?;
        if name != keys::CARDS[1] {
            tables.push(name);
        }
    }
    Ok(tables)
}
