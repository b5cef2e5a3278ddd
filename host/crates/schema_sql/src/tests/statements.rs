//! What is known of a statement: its keys and checks, its work, what it writes over, where it stands.

use super::*;

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
    let function = read("plugin_x", "create table a ();\n create function f() returns int language sql as 'select 1'");
    let function = function.unwrap_err();
    assert_eq!(
        function.found,
        "CREATE FUNCTION at line 2, column 2: `create function f() returns int language sql as 'select 1'`"
    );
    assert!(function.is_forbidden && function.fix.contains("Rust"), "{function:?}");
}
