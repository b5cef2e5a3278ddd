//! The list: which statements of PostgreSQL's grammar a schema.sql may have, and of what they may consist.

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::error::SchemaError;

mod nodes;

pub(super) use nodes::tokens;

/// Statements that may stand in the file. Everything else is refused by the name of its node.
const STATEMENTS: &[SyntaxKind] = &[
    CREATE_TABLE,
    CREATE_INDEX,
    CREATE_SEQUENCE,
    CREATE_VIEW,
    CREATE_TYPE,
    CREATE_DOMAIN,
    ALTER_TABLE,
    ALTER_INDEX,
    ALTER_SEQUENCE,
    ALTER_VIEW,
    ALTER_TYPE,
    ALTER_DOMAIN,
    DROP_TABLE,
    DROP_INDEX,
    DROP_SEQUENCE,
    DROP_VIEW,
    DROP_TYPE,
    DROP_DOMAIN,
    COMMENT_ON,
    INSERT,
    UPDATE,
    DELETE,
    SELECT,
    COMPOUND_SELECT,
    PAREN_SELECT,
    VALUES,
    EMPTY_STMT,
];

/// Whether a statement of this kind may stand in the file.
pub(super) fn is_allowed(kind: SyntaxKind) -> bool {
    STATEMENTS.contains(&kind)
}

/// Refuses a statement that is not on the list, in words for its author.
pub(super) fn check_statement(node: &SyntaxNode, text: &str) -> Result<(), SchemaError> {
    let kind = node.kind();
    if is_allowed(kind) || kind == ERROR {
        return Ok(());
    }
    Err(SchemaError::node(text, node, &in_words(kind), instead(kind)))
}

/// Refuses a part of a statement that is not on the list.
pub(super) fn refuse_node(node: &SyntaxNode, text: &str) -> SchemaError {
    SchemaError::node(text, node, &in_words(node.kind()), instead(node.kind()))
}

/// `CREATE_FUNCTION` is CREATE FUNCTION. Where the parser's name is none that authors know, theirs.
pub(super) fn in_words(kind: SyntaxKind) -> String {
    let known = match kind {
        ATTRIBUTE_NAMESPACE => "an option of the TOAST table",
        BASE_TYPE => "a type with functions of its own",
        COLUMN_DEF_LIST => "types for the columns of a function",
        ENABLE_RLS | FORCE_RLS | DISABLE_RLS | NO_FORCE_RLS => "ROW LEVEL SECURITY",
        JSON_TABLE_FROM_ITEM => "JSON_TABLE",
        NAMED_ARG => "an argument by its name",
        OPERATOR_CALL => "OPERATOR(...)",
        RETURNING_OPTION_LIST => "RETURNING WITH",
        ROWS_FROM_ITEM => "ROWS FROM",
        XML_TABLE_FROM_ITEM => "XMLTABLE",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let name = format!("{kind:?}");
    let name = name.trim_end_matches("_KW").replace('_', " ");
    match name.strip_prefix("OBJECT ") {
        Some(object) => format!("COMMENT ON {object}"),
        None => name,
    }
}

fn instead(kind: SyntaxKind) -> &'static str {
    match kind {
        CREATE_FUNCTION | CREATE_PROCEDURE | CREATE_AGGREGATE | DO | CALL | ALTER_FUNCTION | ALTER_PROCEDURE
        | ALTER_ROUTINE | ALTER_AGGREGATE | DROP_FUNCTION | DROP_PROCEDURE | DROP_ROUTINE | DROP_AGGREGATE
        | CREATE_LANGUAGE => "Take it out, and write that code in the plugin, in Rust: schema.sql declares tables.",
        CREATE_TRIGGER | ALTER_TRIGGER | DROP_TRIGGER | CREATE_RULE | ALTER_RULE | DROP_RULE | CREATE_EVENT_TRIGGER
        | ENABLE_TRIGGER | DISABLE_TRIGGER => "Take it out, and do that in the plugin where it writes its tables.",
        GRANT
        | REVOKE
        | ALTER_DEFAULT_PRIVILEGES
        | CREATE_ROLE
        | ALTER_ROLE
        | DROP_ROLE
        | CREATE_USER
        | ALTER_USER
        | CREATE_GROUP
        | OWNER_TO
        | SET_ROLE
        | REASSIGN
        | CREATE_POLICY
        | ALTER_POLICY
        | DROP_POLICY
        | ENABLE_RLS
        | FORCE_RLS => "Take it out: the host gives the plugin what it needs on its own tables.",
        BEGIN
        | COMMIT_TRANSACTION
        | ROLLBACK_TRANSACTION
        | SAVEPOINT_CREATE
        | RELEASE_SAVEPOINT
        | ROLLBACK_TO_SAVEPOINT
        | PREPARE_TRANSACTION
        | COMMIT_PREPARED
        | ROLLBACK_PREPARED
        | SET_TRANSACTION => "Take it out: the host runs the file in one transaction.",
        CREATE_EXTENSION | ALTER_EXTENSION | DROP_EXTENSION | CREATE_SCHEMA | DROP_SCHEMA | ALTER_SCHEMA
        | SET_SCHEMA => "Take it out: a plugin has one schema, which the host makes, and no extensions.",
        CREATE_CAST | CREATE_OPERATOR | CREATE_OPERATOR_CLASS | CREATE_OPERATOR_FAMILY => {
            "Take it out, and use the built-in types, casts and operators."
        }
        CREATE_MATERIALIZED_VIEW | CREATE_TABLE_AS | SELECT_INTO => {
            "Use CREATE TABLE with columns, and INSERT INTO ... SELECT."
        }
        MERGE => "Use INSERT ... ON CONFLICT, UPDATE or DELETE.",
        SET | RESET | SET_CONSTRAINTS => "Take it out: the host sets what the file runs with.",
        COPY => "Use INSERT, or fill the table when the plugin runs.",
        TEMP | ON_COMMIT | LOCAL_SCOPE => "Make an ordinary table.",
        OPERATOR_CALL => "Write the operator by itself.",
        NAMED_ARG => "Give the arguments in their order, without names.",
        ROWS_FROM_ITEM => "Call the functions one by one in FROM.",
        LOCKING_CLAUSE => "Take the lock out.",
        CONCURRENTLY_KW | DETACH_CONCURRENTLY => "Take CONCURRENTLY out: the host runs the file in one transaction.",
        _ => "Take it out, or do it in the plugin when it runs.",
    }
}
