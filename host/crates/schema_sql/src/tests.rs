//! What passes and how it is printed; what is refused, and in which words.

use squawk_syntax::ast::AstNode as _;

use super::*;

mod bounds;
mod keys;
mod printing;
mod sizes;
mod statements;
mod types;

fn printed(text: &str) -> Vec<String> {
    match read("plugin_x", text) {
        Ok(statements) => statements.into_iter().map(as_written).collect(),
        Err(refused) => panic!("{:.300}\n{refused:?}", text),
    }
}

fn refused(text: &str) -> SchemaError {
    match read("plugin_x", text) {
        Ok(statements) => panic!("{text}\npassed as {statements:#?}"),
        Err(refused) => refused,
    }
}

/// Everything that the list has, as authors write it.
const PASSES: &str = include_str!("../../../../tests/schemas/accepted.sql");
/// One case after the other, each behind a line `-- NAME: part of the refusal`.
const REFUSED: &str = include_str!("../../../../tests/schemas/refused.sql");

#[test]
fn what_is_on_the_list_passes() {
    assert!(printed(PASSES).len() > 80);
}

/// The text of a statement with its keys to the cards, as an author would write them.
fn as_written(statement: Statement) -> String {
    statement.with_keys(|_, key| key.definition())
}

/// What was printed reads as itself, but for names in escapes, which authors may not write: two readers of it see one
/// thing.
#[test]
fn what_is_printed_prints_as_itself() {
    let statements = read("plugin_x", PASSES).unwrap().into_iter().map(as_written);
    for sql in statements.filter(|sql| !sql.contains("U&\"")) {
        // What the printer adds to views, and the one name that is not in the plugin's schema.
        let text = sql.replace(", security_invoker = true", "").replace("with (security_invoker = true) ", "");
        let again = read("plugin_x", &text).map(|read| read.into_iter().map(as_written).collect::<Vec<_>>());
        assert_eq!(again.as_deref(), Ok([sql.clone()].as_slice()));
    }
}

#[test]
fn each_refusal_says_what_stands_there() {
    let mut cases = 0;
    for case in REFUSED.split("\n-- ").skip(1) {
        let (expected, sql) = case.split_once('\n').unwrap();
        let refused = refused(sql);
        assert!(refused.found.contains(expected), "{expected:?} is not in {:?}\n{sql}", refused.found);
        assert!(refused.position.is_some() && !refused.fix.is_empty(), "{refused:?}");
        cases += 1;
    }
    assert!(cases > 100, "{cases}");
}

/// PostgreSQL's statements, one a line.
const STATEMENTS: &str = include_str!("../../../../tests/schemas/statements.sql");

/// Kinds that only newer servers than PostgreSQL 18 have.
const NEWER: [&str; 4] = ["ALTER_PROPERTY_GRAPH", "CREATE_PROPERTY_GRAPH", "DROP_PROPERTY_GRAPH", "REPACK"];

/// The parser's own list of statements is gone through: a kind that it learns fails here until it has a line, and is
/// refused until somebody puts it on the list.
#[test]
fn every_other_statement_of_the_grammar_is_refused_by_name() {
    let mut refused_kinds = std::collections::BTreeSet::new();
    for line in STATEMENTS.lines() {
        let node = SourceFile::parse(line).syntax_node().children().next().unwrap();
        let refused = refused(line);
        let name = syntax::in_words(node.kind());
        assert!(refused.is_forbidden && refused.found.starts_with(&name), "{line}: {refused:?}");
        refused_kinds.insert(node.kind());
    }
    let mut kinds = 0;
    for number in 0..=u16::MAX {
        // The last of the kinds has no statement behind it.
        let Some(kind) = squawk_kind(number) else { break };
        if !squawk_syntax::ast::Stmt::can_cast(kind) || NEWER.contains(&format!("{kind:?}").as_str()) {
            continue;
        }
        kinds += 1;
        assert!(
            syntax::is_allowed(kind) || refused_kinds.contains(&kind),
            "{kind:?} is neither on the list nor in statements.sql"
        );
    }
    assert!(kinds > 150, "{kinds}");
}

fn squawk_kind(number: u16) -> Option<SyntaxKind> {
    (number < SyntaxKind::__LAST as u16).then(|| SyntaxKind::from(number))
}
