//! What a table may compute that has a key which sets a value (`on delete set null`).

use super::*;

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
