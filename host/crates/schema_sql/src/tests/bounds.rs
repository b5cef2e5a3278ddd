//! What may take long for PostgreSQL and cannot be interrupted: each has a bound or is refused.

use super::*;

/// PostgreSQL computes what is constant there in everybody's session.
#[test]
fn a_partition_key_is_a_column() {
    for key in [
        "(lower(a))",
        "lower(a)",
        "((case when a is null then 1 else 2 end))",
        "(a || 'x')",
        "position('a' in a)",
        "(a)",
    ] {
        let refused = refused(&format!("create table t (a text) partition by range ({key})"));
        assert!(refused.found.starts_with("a partition key that is no column"), "{key}: {refused}");
    }
    let refused = refused("create table p partition of t for values in (1) partition by list (a, (b + 1))");
    assert!(refused.found.starts_with("a partition key that is no column"), "{refused}");
    printed("create table t (a text, b int) partition by range (a collate \"C\" text_ops, b)");
}

/// `coalesce('a', v)` is a constant for PostgreSQL, and so is what is computed from it.
#[test]
fn what_may_become_a_constant_is_one() {
    for index in [
        "(strpos(coalesce('aaaa', v), 'b'))",
        "(pg_catalog.strpos('aaaa', 'b'))",
        "(a) where case when true then 'aaaa' else v end ~ 'b'",
        "(a) where (coalesce('aaaa', v)) || 'b' = v",
        "(strpos(case when a > 0 then 'aaaa'::text else v end, 'b'))",
        "((coalesce('aaaa', v))::varchar || 'x')",
    ] {
        let refused = refused(&format!("create index on t {index}"));
        assert!(refused.found.starts_with("a value that is computed from constants"), "{index}: {refused}");
    }
    for index in [
        "(lower(coalesce(v, '')))",
        "(a) where coalesce(gone, false) = false",
        "(extract(year from at))",
        "(lower(w[1]))",
        "(lower(v::varchar(9))) where v is not null and not gone",
        "((data ->> 'kind'))",
        "(substring(v from 1 for 3)) where a in (1, 2)",
        "using gin (to_tsvector('simple', v))",
    ] {
        printed(&format!("create index on t {index}"));
    }
}

/// PostgreSQL compares each element with each and cannot be interrupted; between ranges the same signs are quick.
#[test]
fn comparisons_of_sets_are_refused() {
    for expression in [
        "a && b",
        "a @> (b)",
        "b <@ array_agg(a)",
        "a ?| b",
        "data @> other::jsonb",
        "a && '{1,2,3,4,5,6,7,8,9}'",
        "a && array[b, 'x']",
        "a::int4range[] && b",
        "'{1,2}'::int[] || b && a",
    ] {
        let refused = refused(&format!("create table t (a text, b text, data jsonb, check ({expression}))"));
        assert!(refused.found.contains("of values of any length"), "{expression}: {refused}");
    }
    for expression in [
        "tags @> '{sale}'",
        "data @> '{\"kind\": \"chair\"}'",
        "a && array['x', 'y']::text[]",
        "during::tstzrange @> now()",
        "int4range(a, b) && int4range(0, 10)",
        "address <<= '10.0.0.0/8'",
    ] {
        printed(&format!("create table t (a text, b text, data jsonb, check ({expression}))"));
    }
    printed("create table t (during tstzrange, exclude using gist (during with &&))");
    let nine = ["tags @> '{x}'"; 9].join(" or ");
    assert!(refused(&format!("create table t (tags text[], check ({nine}))")).found.contains("more than 8"));
    for sql in ["create table t (p polygon)", "create table t (p path)", "create table t (p jsonpath)"] {
        refused(sql);
    }
    for expression in ["data @? '$.a'", "data @@ '$.a == $.b'", "data @@ E'\\x24.a'", "jsonb_path_exists(data, '$.a')"]
    {
        refused(&format!("create table t (data jsonb, check ({expression}))"));
    }
    printed("create table t (v tsvector, check (v @@ 'chair:*'))");
}

#[test]
fn a_format_is_short() {
    printed("create table t (at timestamptz, check (to_char(at, 'YYYY-MM') <> ''))");
    let long = "YYYY".repeat(100);
    for format in [format!("'{long}'"), "v".to_owned(), "lower(v)".to_owned()] {
        let sql = format!("create table t (at timestamptz, v text, check (to_char(at, {format}) <> ''))");
        assert!(refused(&sql).fix.contains("256 bytes"), "{sql}");
    }
}

#[test]
fn a_search_is_short() {
    printed("create table t (v tsvector, check (v @@ to_tsquery('simple', 'chair & lamp')))");
    printed(
        "create table t (v text, w text, check (to_tsvector('simple', v) @@ plainto_tsquery('simple', left(w, 200))))",
    );
    for words in [format!("'{}'", "a ".repeat(600)), "w".to_owned(), "v || w".to_owned()] {
        for name in ["to_tsquery", "plainto_tsquery", "phraseto_tsquery", "websearch_to_tsquery"] {
            let sql = format!("create table t (v tsvector, w text, check (v @@ {name}('simple', {words})))");
            assert!(refused(&sql).fix.contains("1,024 bytes"), "{sql}");
        }
    }
}

/// Every removal of a card is planned with all of them.
#[test]
fn keys_and_conditions_of_indexes_are_bounded_in_all() {
    let key =
        |n: usize| format!("alter table t add constraint k{n} foreign key (c) references public.master_cards (id);");
    let keys = |count: usize| (0..count).map(key).collect::<String>();
    printed(&format!("create table t (c uuid); {}", keys(32)));
    let refused = |sql: &str| self::refused(sql).found;
    assert!(refused(&format!("create table t (c uuid); {}", keys(33))).contains("more than 32 keys"));
    let index = |terms: usize| format!("create index on t (c) where {};", vec!["n = 1000001"; terms].join(" or "));
    printed(&index(200));
    assert!(refused(&index(600)).contains("conditions of indexes"));
    assert!(refused(&[index(300), index(300)].concat()).contains("conditions of indexes"));
}

/// PostgreSQL cannot be interrupted in them.
#[test]
fn comparisons_of_long_texts_are_refused() {
    let long = format!("'{}'", "a".repeat(120_000));
    for expression in [
        "strpos(a, b)",
        "pg_catalog.strpos(a, b)",
        "\"strpos\"(a, b)",
        "position(b in a)",
        "split_part(a, b, 1)",
        "replace(a, 'a long word', b)",
        "translate(a, b, '')",
        "string_to_array(a, b)",
        "btrim(a, b)",
        "trim(both b from a)",
        "normalize(a)",
        "a like b",
        "a not ilike b",
        "a ~~ b",
        "a !~~* b",
        "a like '%a%b%c%d%e%f'",
        "a like b escape 'x'",
        "strpos(left(a, 10000), left(b, 10000))",
        "strpos(left(a, -1), 'a long word')",
        "strpos(a::text, 'a long word')",
        &format!("strpos({long}{}, {long})", "::text"),
        &["strpos(a, 'x')"; 9].join(" + "),
    ] {
        for statement in [
            "select {}",
            "create view v as select {}",
            "update t set c = 1 where ({}) is null",
            "create table t (check (({}) is null))",
        ] {
            let refused = refused(&statement.replace("{}", expression));
            assert!(
                refused.is_forbidden && refused.fix.contains("product of both lengths"),
                "{statement} {expression:.99}: {refused}"
            );
        }
    }
    let refused = refused("select * from string_to_table(a, b)");
    assert!(refused.found.starts_with("string_to_table of values of any length"), "{refused}");
    for expression in [
        "strpos(a, 'x')",
        "split_part(a, '-', 1)",
        "replace(a, ' ', '')",
        "a like 'some long prefix%'",
        "a not like '%x%'",
        "trim(a)",
        "trim(both 'x' from a)",
        "trim(a, 'x')",
        "strpos(left(a, 1000), b::varchar(1000))",
        "position(substr(a, 1, 100) in coalesce(left(b, 10), 'some words'))",
        "md5(a) like lower(left(b, 9)) || '%'",
        "normalize(left(a, 100))",
    ] {
        printed(&format!("select {expression}"));
    }
}

/// As the look at the catalog has it: tables that follow one whose key sets a value.
#[test]
fn what_follows_a_table_whose_key_sets_a_value_computes_nothing_large() {
    let key = "card_id uuid unique references public.master_cards on delete set null";
    for sql in [
        "create table t (card_id uuid references public.master_cards on delete set default, n int default strpos('ab', 'b'))".to_owned(),
        format!("create table a ({key}); create table b (v text check (v like 'x'), c uuid references a (card_id) on update cascade)"),
        format!("create table b (v text check (v like 'x'), c uuid); create table a ({key}); alter table b add foreign key (c) references a (card_id) on update set null"),
        "create table p (k int, v text, card_id uuid references public.master_cards on delete set null) partition by list (k); \
         create table q partition of p for values in (1); alter table q add check (v like 'x')".to_owned(),
    ] {
        let refused = refused(&sql);
        assert!(refused.fix.contains("ON DELETE CASCADE"), "{sql}: {refused}");
    }
    for sql in [
        "create table p (k int, check (length('x' || 'y') > k)) partition by list (k)",
        "create table q partition of p (check (md5('x') <> '')) for values in (1)",
        "create table q (k int, check (md5('x') <> '')); alter table p attach partition q for values in (1)",
    ] {
        let refused = refused(sql);
        assert!(refused.found.starts_with("a value that is computed from constants"), "{sql}: {refused}");
    }
    printed("create table p (k int, v text, check (lower(v) <> 'x' and k > 3)) partition by list (k)");
    printed(
        "create table t (card_id uuid references public.master_cards on delete set default, at timestamptz default now(), n int default 3)",
    );
}

/// PostgreSQL computes all of them for a row before it looks at a time-out.
#[test]
fn a_declaration_has_a_bounded_number_of_calls() {
    let (call, most) = ("md5(v) <> ''", 30);
    let of = |count: usize| vec![call; count].join(" and ");
    for declaration in ["alter table t add check (X)", "create index on t (v) where X", "alter domain d add check (X)"]
    {
        printed(&declaration.replace('X', &of(most)));
        let refused = refused(&declaration.replace('X', &of(most + 2)));
        assert!(refused.found.contains("more than 32 calls in the expressions of one statement"), "{refused}");
    }
    let nested = |count: usize| format!("{}v{}", "upper(".repeat(count), ")".repeat(count));
    for computed in
        ["alter column v type text using X", "add column w text generated always as (X) stored", "add check (X = v)"]
    {
        printed(&format!("alter table t {}", computed.replace('X', &nested(30))));
        let refused = refused(&format!("alter table t {}", computed.replace('X', &nested(33))));
        assert!(refused.found.contains("calls in the expressions"), "{refused}");
    }
    printed(&format!("create table t (a int, check ({}))", vec!["a > 3"; 200].join(" and ")));
    printed(&format!("update t set v = v where {}", of(40)));
}
