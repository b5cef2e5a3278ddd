//! What passes and how it is printed; what is refused, and in which words.

use squawk_syntax::ast::AstNode as _;

use super::*;

mod bounds;

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

/// What was printed reads as itself, but for names in escapes, which authors may not write: two readers of it see one thing.
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
fn a_key_to_the_cards_is_taken_out_of_its_statement() {
    let text = "create table if not exists T (C uuid not null constraint k references public.master_cards (id) on delete set null deferrable, a int, \
        foreign key (c) references public.master_cards not valid)";
    let statement = &read("plugin_x", text).unwrap()[0];
    let (inline, listed) = (&statement.card_keys[0], &statement.card_keys[1]);
    assert_eq!((inline.table.as_str(), inline.column.as_str(), inline.name.as_deref()), ("t", "c", Some("k")));
    assert_eq!((inline.options.as_str(), inline.is_unchecked), ("on delete set null deferrable", false));
    assert_eq!((listed.options.as_str(), listed.name.as_deref(), listed.is_unchecked), ("", None, true));
    let marked = statement.with_keys(|number, _| format!("<{number}>"));
    assert!(marked.ends_with("not null <0> , \"a\" int , <1> )"), "{marked}");
    let own = read("plugin_x", "alter table t add foreign key (a) references u (id)").unwrap();
    assert_eq!((own[0].card_keys.len(), own[0].work.clone()), (0, Work::Slow));
    refused("create table t (c uuid references public.master_cards on delete set null (c))");
}

/// Names of what a later statement puts below another table, and statements with other actions.
#[test]
fn checks_are_apart_from_other_changes() {
    let parts = |sql: &str| read("plugin_x", sql).unwrap();
    let of_two =
        parts("alter table t add constraint c check (a > 0), add column a int, add check ((b) ~ 'x') no inherit");
    let [columns, checks] = of_two.as_slice() else { panic!("{of_two:#?}") };
    assert_eq!((columns.sql.contains("check"), &columns.late_checks), (false, &None));
    let late = checks.late_checks.as_ref().unwrap();
    assert_eq!((late.table.as_str(), late.are_small), ("t", false));
    let expressions: Vec<&str> = late.checks.iter().map(|it| checks.sql[it.expression.clone()].trim()).collect();
    assert_eq!(expressions, ["\"a\" > 0", "( \"b\" ) ~ 'x'"]);
    assert_eq!(late.checks.iter().map(|it| it.is_own).collect::<Vec<_>>(), [false, true]);
    let not_valid = checks.with_checks_not_valid();
    assert!(
        not_valid.contains("> 0 ) not valid , add check") && not_valid.ends_with("no inherit not valid"),
        "{not_valid}"
    );
    assert!(parts("alter table t add check (length(a) < 9)")[0].late_checks.as_ref().unwrap().are_small);
    for as_written in [
        "alter table t add check (a ~ 'x') not valid",
        "alter table t add check (a ~ 'x'); alter table t inherit u",
        "alter table t add check (a ~ 'x'); alter table u attach partition t default",
        "create table t (a text check (a ~ 'x'))",
        "alter domain t add check (value ~ 'x')",
    ] {
        assert!(parts(as_written).iter().all(|it| it.late_checks.is_none()), "{as_written}");
    }
}

/// What may run while cards are locked, and what may lock them.
#[test]
fn the_work_of_a_statement_is_known_by_its_shape() {
    let on = |tables: &[&str]| Work::QuickOn(tables.iter().map(|it| (*it).to_owned()).collect());
    for (sql, expected) in [
        ("drop table a cascade", Work::Drops),
        ("alter table t drop column a, drop constraint b", Work::Drops),
        ("alter table t rename to u", Work::Drops),
        (
            "create table t (id bigint generated always as identity primary key, a text not null default 'x' check (a in ('x', 'y') and length(a) < 9), card_id uuid references public.master_cards)",
            Work::Quick,
        ),
        ("create table t (a int check (a > 3 * 5))", Work::Slow),
        ("create table t (a text check (strpos(a, 'x') = 1))", Work::Slow),
        ("create table t (a text check (a ~ 'x'))", Work::Slow),
        ("create table t (a text check (a like 'x'))", Work::Slow),
        ("create table t (a mine default '{x}')", Work::Slow),
        ("create table t (a int, b int generated always as (a) stored)", Work::Slow),
        ("create table t (a int, exclude using gist (a with =))", Work::Slow),
        ("create table t (like u)", Work::Slow),
        ("create table t (a int) partition by range (a)", Work::Slow),
        ("create index on t (a)", on(&["t"])),
        ("create index on t (lower(a))", Work::Slow),
        ("create index on t (a) where strpos(b, 'x') > 0", Work::Slow),
        ("insert into t values (1, 'a', now()), (-1, default, null) on conflict do nothing", on(&["t"])),
        ("insert into t values (strpos('a', 'b'))", Work::Slow),
        ("insert into t select 1", Work::Slow),
        ("insert into t values (1) on conflict (a) do update set a = 1", Work::Slow),
        ("insert into t values (1) returning strpos('a', 'b')", Work::Slow),
        ("update t set a = 1", Work::Slow),
        ("delete from t", Work::Slow),
        ("select 1", Work::Slow),
        ("alter table t add column a int default 3, add column c uuid references public.master_cards", Work::Quick),
        ("alter table t add column a uuid default gen_random_uuid()", on(&["t"])),
        ("alter table t add column a mine", on(&["t"])),
        ("alter table t alter a set default '{}'", Work::Slow),
        ("alter table t add check (strpos(a, 'x') > 0)", Work::Slow),
        ("alter table t add check (a > 0)", on(&["t"])),
        ("alter table t alter a type text", Work::Slow),
        ("alter table t validate constraint c", Work::Slow),
        ("alter table t alter a set not null", Work::Slow),
        ("alter table p attach partition q default", Work::Slow),
        ("create view v as select 'x'", Work::Slow),
    ] {
        let read = read("plugin_x", sql).unwrap_or_else(|refused| panic!("{sql}: {refused}"));
        assert_eq!((read.len(), &read[0].work), (1, &expected), "{sql}");
    }
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

#[test]
fn a_table_whose_key_sets_a_value_computes_nothing_large() {
    let key = "card_id uuid references public.master_cards on delete set null";
    for sql in [
        format!("create table t ({key}, a text check (strpos(a, 'x') > 0))"),
        format!("create table t ({key}, a text check (a ~ 'x'))"),
        format!("create table t ({key}, a text, b text generated always as (upper(a)) stored)"),
        format!("create table t ({key}, a int, exclude using gist (a with =))"),
        format!("create table t ({key}, a text); create index on t (lower(a))"),
        format!("create table t ({key}, a text); create index on t (card_id) where a like '%x'"),
        format!("create table t (a text check (a || a <> '')); alter table t add column {key}"),
        "create table t (a int references u on delete set default, b text check (b ~ 'x'))".to_owned(),
    ] {
        let refused = refused(&sql);
        assert!(refused.is_forbidden && refused.fix.contains("ON DELETE CASCADE"), "{sql}: {refused}");
    }
    printed(&format!(
        "create table t ({key}, a text default lower('X') check (a in ('x', 'y') or length(a) < 3), b int check (b * 2 > 3)); create index on t (card_id) where card_id is not null"
    ));
    printed(
        "create table t (card_id uuid references public.master_cards on delete cascade on update cascade, a text check (a ~ 'x'))",
    );
    for index in
        ["(a) where 'x' || 'y' <> ''", "(a) where length('x') > 3 or a > 0", "(lower('X'))", "(a) where a > 2.5 ^ 3"]
    {
        let refused = refused(&format!("create index on t {index}"));
        assert!(refused.found.starts_with("a value that is computed from constants"), "{index}: {refused}");
    }
    printed(
        "create index on t (lower(a)) where a > -3 and b in ('x', 'y') and c > date '2020-01-01' and d = 'x'::text",
    );
    printed(&format!("create table t ({key}); drop table t; create table t (a text check (a ~ 'x'))"));
}

/// As the look at the catalog has it, which knows the types: no file passes here that it refuses for these.
#[test]
fn rows_and_many_operations_beside_a_key_that_sets_a_value_have_a_place() {
    let key = "card_id uuid references public.master_cards on delete set null";
    for check in [
        "row(x, y) > row(y, z)",
        "(x, y) <= (y, z)",
        "(x, y) is null",
        "coalesce((x, y), (y, z)) = (y, z)",
        "((x, y), z) = ((y, z), x)",
    ] {
        let refused = refused(&format!("create table t ({key}, x int, y int, z int,\n check ({check}))"));
        assert!(refused.found.contains("line 2, column"), "{check}: {refused}");
    }
    printed(&format!(
        "create table t ({key}, x int, y int, check ((x, y) = (y, x) or (x, y) in ((1, 2), (3, 4)) or row(x, y) <> (1, 2)))"
    ));
    for check in ["n * n > 3", "-n < 2", "n + 1 between 2 and 3"] {
        let refused = refused(&format!("create table t ({key}, n numeric,\n check ({check}))"));
        assert!(refused.found.contains("line 2, column"), "{check}: {refused}");
    }
    let many = |kind: &str, check: &str, count: usize| {
        let checks = vec![check; count].join(" and ");
        format!("create table t (a {kind}, b text,\n {key},\n check ({checks}))")
    };
    let counted = [
        ("text", "a > 'x'", 1),
        ("text", "a = b", 1),
        ("text", "length(a) < 9", 1),
        ("text", "a not in ('x', b)", 2),
        ("text", "a between 'a' and 'b'", 2),
        ("text", "a between symmetric 'a' and 'b'", 4),
        ("text", "nullif(a, b) = 'x'", 1),
        ("text", "case a when 'x' then true when 'y' then false end", 2),
        ("int", "a > 2.5", 1),
        ("numeric", "a = 2", 1),
        ("mood[]", "a <> '{}'", 1),
        ("char(5)", "a = 'x'", 1),
        ("text", "(a, b) = (b, a)", 2),
    ];
    for (kind, check, each) in counted {
        printed(&many(kind, check, 16 / each));
        let refused = refused(&many(kind, check, 16 / each + 1));
        assert!(refused.found.contains("line 3, column") && refused.found.contains("17th"), "{check}: {refused}");
    }
    for (kind, check) in [
        ("int", "a * 2 > 3 and a in (1, 2) and a between 1 and 3"),
        ("uuid", "a is distinct from card_id"),
        ("timestamp with time zone", "a < now()"),
        ("double precision", "-a < 2 and coalesce(a, 3) = 3"),
        ("varchar(5)", "a in ('x', 'y') and a <> 'z' and a = 'x'::text and a is not null"),
        ("character varying", "a = 'x'"),
    ] {
        printed(&many(kind, check, 20));
    }
    let domain = format!(
        "create domain d as text check ({}); create table t ({key}, a d)",
        vec!["value > 'x'"; 17].join(" and ")
    );
    assert!(refused(&domain).found.contains("17th"));
    let domain =
        format!("create domain d as text check (value ~ 'x'); create domain e as d; create table t ({key}, a e)");
    assert!(refused(&domain).found.contains("line 1, column"));
    // Of a table that another file made, the server knows the columns.
    let other = vec!["a > 'x'"; 17].join(" and ");
    printed(&format!("alter table t add check ({other}); alter table t add column {key}"));
}

#[test]
fn what_a_statement_writes_over_is_known() {
    let overwrites = |text: &str| read("plugin_x", text).unwrap().remove(0).overwrites;
    let over = |table: &str, columns: &[&str], every_row| Overwrite {
        table: table.to_owned(),
        columns: columns.iter().map(|it| (*it).to_owned()).collect(),
        every_row,
    };
    assert_eq!(
        overwrites("update only plugin_x.Items as x set \"A\" = 1, b[1] = 2, (c, d.e) = (select 1, f from g)"),
        [over("items", &["A", "b", "c", "d"], false)]
    );
    assert_eq!(
        overwrites("insert into t (a, z) values (1, 2) on conflict (a) do update set b = excluded.z"),
        [over("t", &["b"], false)]
    );
    let both =
        "with c as (update t set a = 1 returning *) insert into u select * from c on conflict (a) do update set b = 2";
    let mut found = overwrites(both);
    found.sort_by(|one, other| one.table.cmp(&other.table));
    assert_eq!(found, [over("t", &["a"], false), over("u", &["b"], false)]);
    let types = "alter table only t alter a type int using 1, alter column b type text, alter c set default 3";
    assert_eq!(overwrites(types), [over("t", &["a"], true)]);
    for none in ["insert into t (a) values (1) on conflict do nothing", "delete from t", "select a from t"] {
        assert_eq!(overwrites(none), []);
    }
}

#[test]
fn positions_are_those_of_the_file() {
    let statements = read("plugin_x", "-- é\n  create table a ();\n\n/* x */ drop table a;").unwrap();
    let at: Vec<(usize, usize)> = statements.iter().map(|it| (it.position.line, it.position.column)).collect();
    assert_eq!(at, [(2, 3), (4, 9)]);
    let refused = refused("create table a ();\n  é;");
    assert_eq!(refused.position, Some(Position { line: 2, column: 3 }));
    let function =
        super::read("plugin_x", "create table a ();\n create function f() returns int language sql as 'select 1'");
    let function = function.unwrap_err();
    assert_eq!(
        function.found,
        "CREATE FUNCTION at line 2, column 2: `create function f() returns int language sql as 'select 1'`"
    );
    assert!(function.is_forbidden && function.fix.contains("Rust"), "{function:?}");
}

#[test]
fn types_and_domains_that_a_statement_makes_are_named() {
    let text = r#"create type mood as enum ('good', 'b''ad', E'a\u00e9'); create type plugin_x."Size" as (a int);
        create type spans as range (subtype = int8); create domain short as text check (value <> ''); create table t (m mood)"#;
    let made: Vec<_> = read("plugin_x", text).unwrap().into_iter().map(|statement| statement.new_type).collect();
    let new = |name: &str, letter, values: &[&str]| {
        Some(NewType {
            name: name.to_owned(),
            letter,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        })
    };
    let mood = new("mood", "e", &["'good'", "'b''ad'", r"E'a\U000000e9'"]);
    assert_eq!(made, [mood, new("Size", "c", &[]), new("spans", "r", &[]), new("short", "d", &[]), None]);
}

#[test]
fn types_and_domains_that_a_statement_alters_are_named() {
    let text = r#"alter type mood add value if not exists 'odd'; alter type plugin_x."Size" add attribute b int;
        alter domain short set default ''; alter type mood rename to spirit; alter domain plugin_x.short drop not null;
        create domain short as text; alter table t add column m mood"#;
    let altered: Vec<_> = read("plugin_x", text).unwrap().into_iter().map(|statement| statement.altered_type).collect();
    let expected = [Some("mood"), Some("Size"), Some("short"), Some("mood"), Some("short"), None, None];
    assert_eq!(altered, expected.map(|name| name.map(str::to_owned)));
}

#[test]
fn a_type_can_be_made_under_another_name() {
    let text = r#"create type plugin_x."Si""ze" as (a int); create domain short as text check (value <> '');
        create type Spans as range (multirange_type_name = many, subtype = int8)"#;
    let other = |statement: Statement| statement.with_type_names(|number| format!("x.o{number}"));
    let written: Vec<_> = read("plugin_x", text).unwrap().into_iter().map(other).collect();
    assert!(written[0].starts_with("create type x.o0 as ("), "{written:?}");
    assert!(written[1].starts_with("create domain x.o0 as ") && !written[1].contains("short"), "{written:?}");
    assert!(written[2].starts_with("create type x.o0 as range ( multirange_type_name = x.o1 , subtype"), "{written:?}");
}

/// Bombs: each has to be answered, and soon.
#[test]
fn nests_and_masses_are_refused_before_they_are_parsed() {
    let many = 100_000;
    let bombs = [
        format!("select {}1{}", "(".repeat(many), ")".repeat(many)),
        format!("select {}1", "(".repeat(many)),
        format!("select {}1", "- ".repeat(many)),
        format!("select {}true", "not ".repeat(many)),
        format!("select {}1{}", "case when ".repeat(many), " end".repeat(many)),
        format!("select * from a {}", "join b ".repeat(many)),
        format!("select 1{}", " + 1".repeat(many)),
        format!("select 1{}", " union select 1".repeat(many)),
        format!("select {}1{}", "array[".repeat(many), "]".repeat(many)),
        format!("select a{}", ".b".repeat(many)),
        format!("select a{}", "::int".repeat(many)),
        "select 1;".repeat(many),
        "x".repeat(MAX_BYTES + 1),
        "/*".repeat(many),
        "$$".repeat(many),
        "'".repeat(many + 1),
        format!("select '{}", "\\".repeat(many)),
        "select 1\0".to_owned(),
        "\u{feff}select 1".to_owned(),
        "select 1\u{85}".to_owned(),
    ];
    let started = std::time::Instant::now();
    for bomb in &bombs {
        let refused = refused(bomb);
        assert!(refused.found.chars().count() < 400, "{}", refused.found);
    }
    // Far less than this; what must not happen is that one of them runs into its time-out.
    assert!(started.elapsed() < READ_TIMEOUT, "{:?}", started.elapsed());
}

#[test]
fn chains_within_the_bounds_are_read() {
    let half = MAX_STATEMENT_TOKENS / 2 - 10;
    printed(&format!("select 1{}", " + 1".repeat(half)));
    printed(&format!("select {}1{}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH)));
    printed(&format!("insert into t values {}(1)", "(1),".repeat(MAX_STATEMENT_TOKENS / 4 - 10)));
    printed(&format!("select 1{}", " union all select 1".repeat(MAX_STATEMENT_TOKENS / 4 - 10)));
    printed(&format!("select * from a {}", "join b on true ".repeat(MAX_STATEMENT_TOKENS / 4 - 10)));
    printed(&format!("select a{}", "::text".repeat(MAX_STATEMENT_TOKENS / 3 - 10)));
}
