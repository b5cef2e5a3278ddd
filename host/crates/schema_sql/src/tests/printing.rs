//! How what passes is printed.

use super::*;

#[test]
fn names_are_printed_with_their_schema_and_in_quotes() {
    let sql = "create table Notes (Id bigint primary key, \"Text\" text default lower('X'), card_id uuid references public.master_cards on delete cascade)";
    assert_eq!(
        printed(sql),
        [
            "create table \"plugin_x\".\"notes\" ( \"id\" bigint primary key , \"Text\" pg_catalog.\"text\" default pg_catalog.\"lower\" ( 'X' ) , \
          \"card_id\" pg_catalog.\"uuid\" references \"public\".\"master_cards\" on delete cascade )"
        ]
    );
}

#[test]
fn texts_have_one_form() {
    let forms = [
        ("'it''s'", "'it''s'"),
        ("$$it's$$", "'it''s'"),
        ("$x$a $$ b$x$", "'a $$ b'"),
        (r"E'a\'b\\c\n'", "E'a''b\\\\c\n'"),
        (r"'a\b'", r"E'a\\b'"),
        (r"E'\u00e9'", r"E'\U000000e9'"),
        ("'Ã\\'", r"E'\U000000c3\\'"),
        ("X'0Fa'", "X'0Fa'"),
        ("B'01'", "B'01'"),
        ("1.5e-3", "1.5e-3"),
    ];
    for (written, expected) in forms {
        assert_eq!(printed(&format!("select {written}")), [format!("select {expected}")]);
    }
    // A text that goes on in the next line is printed in one piece, since not every form of a piece can go on.
    let continued = [
        ("'a'\n  'b'", "'ab'"),
        ("'a' -- x\n 'b''c'", "'ab''c'"),
        ("'a'\n'\u{e9}'", r"E'a\U000000e9'"),
        ("'a\\'\n'b'", r"E'a\\b'"),
        ("E'a\\t'\n'b\\t'", "'a\tb\t'"),
        ("B'01'\n'10'", "B'0110'"),
        ("X'0f'\n'a0'", "X'0fa0'"),
        ("date '2020'\n'-01-01'", "pg_catalog.\"date\" '2020-01-01'"),
    ];
    for (written, expected) in continued {
        assert_eq!(printed(&format!("select {written}")), [format!("select {expected}")]);
    }
}

/// What PostgreSQL gets is ASCII: read in another encoding, a character may swallow the quote behind it.
#[test]
fn no_encoding_can_read_it_otherwise() {
    let sql = printed("create table \"Größe\" (\"ä\\\" text default 'Ã\\', \"😀\" text default '😀')");
    assert!(sql[0].is_ascii(), "{sql:?}");
    assert!(sql[0].contains(r#"U&"Gr\+0000f6\+0000dfe""#) && sql[0].contains(r"E'\U0001f600'"), "{sql:?}");
}

#[test]
fn a_view_reads_as_who_asks() {
    assert_eq!(
        printed("create view v as select 1"),
        ["create view \"plugin_x\".\"v\" with (security_invoker = true) as select 1"]
    );
    let own = printed("create view v with (security_barrier) as select 1");
    assert!(own[0].contains("( security_barrier , security_invoker = true)"), "{own:?}");
    refused("create view v with (security_invoker = false) as select 1");
}

#[test]
fn an_alteration_drops_first() {
    let parts = printed(
        "alter table if exists t add check (a > 0), drop column b cascade, add column c int, drop constraint k",
    );
    let head = "alter table if exists \"plugin_x\".\"t\"";
    assert_eq!(
        parts,
        [
            format!("{head} drop column \"b\" cascade , drop constraint \"k\""),
            format!("{head} add column \"c\" int"),
            format!("{head} add check ( \"a\" > 0 )"),
        ]
    );
    assert_eq!(printed("alter table t alter b type int using c, drop column c").len(), 1);
}
