//! The two walls held against each other: what the reader of schema.sql lets through, the look at the catalog must
//! know. The files come from the server's own lists of functions, operators and types, and from the corpus of
//! `tests/schemas/` with its words exchanged at random.
// How much was tried is a figure that people want to see.
#![allow(clippy::print_stdout)]

use cardinal_control::link::ProvisionFault;
use cardinal_database::connect;
use cardinal_schema::plugin_schema::{Step, StepError, catalog};
use cardinal_schema_sql as schema_sql;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use tokio_postgres::{Client, Transaction};

use super::database::{Database, Login, PATIENT, Place, is_long_run};

const SCHEMA: &str = "plugin_fuzz";
const CORPUS: [&str; 4] = [
    include_str!("../../../tests/schemas/accepted.sql"),
    include_str!("../../../tests/schemas/refused.sql"),
    include_str!("../../../tests/schemas/working.sql"),
    include_str!("../../../tests/schemas/unknown.sql"),
];
/// Accepted files between two looks.
const BATCH: usize = 50;
/// Of what a file does.
const FILE_TIMEOUT: &str = "2s";

/// The schema role at work in a transaction that is never committed.
struct Walls<'a> {
    database: &'a Database,
    tx: Transaction<'a>,
    since_look: Vec<String>,
    read: usize,
    accepted: usize,
    ran: usize,
}

impl<'a> Walls<'a> {
    async fn new(database: &'a Database, admin: &'a mut Client) -> Self {
        let role = database.prepared.names.plugin_schema("fuzz");
        let tx = admin.transaction().await.unwrap();
        let begin = format!(
            "GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {role}; GRANT USAGE ON SCHEMA public TO {role};
             GRANT SELECT, REFERENCES (id) ON public.master_cards TO {role};
             SET LOCAL statement_timeout = '{FILE_TIMEOUT}'; SET LOCAL client_min_messages = error"
        );
        database.open_fence(&tx).await;
        tx.batch_execute(&begin).await.unwrap();
        Self { database, tx, since_look: Vec::new(), read: 0, accepted: 0, ran: 0 }
    }

    /// Runs what the reader makes of the file; a file that PostgreSQL refuses is undone.
    async fn try_file(&mut self, file: &str) {
        self.read += 1;
        let Ok(statements) = schema_sql::read(SCHEMA, file) else { return };
        self.accepted += 1;
        let role = self.database.prepared.names.plugin_schema("fuzz");
        let begin = format!("SAVEPOINT file; SET LOCAL ROLE {role}; SET LOCAL search_path = {SCHEMA}, pg_temp");
        self.tx.batch_execute(&begin).await.unwrap();
        let mut ran = true;
        for statement in &statements {
            let sql = statement.with_keys(|_, key| key.definition());
            ran = ran && self.tx.batch_execute(&sql).await.is_ok();
        }
        let end = if ran { "RESET ROLE; RELEASE file" } else { "ROLLBACK TO file; RESET ROLE; RELEASE file" };
        self.tx.batch_execute(end).await.unwrap();
        if ran {
            self.ran += 1;
            self.since_look.push(file.to_owned());
        }
        if self.since_look.len() >= BATCH {
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let names = &self.database.prepared.names;
        // Only what a file does is bounded.
        let begin = "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL statement_timeout = 0";
        self.tx.batch_execute(begin).await.unwrap();
        let questions = catalog::Questions::prepare(&self.tx).await.unwrap();
        let roles = [names.plugin_schema("fuzz"), names.plugin_runtime("fuzz")];
        let mut unknown = catalog::unknown(&self.tx, &questions, SCHEMA, &roles).await.unwrap();
        // What expressions cost is a matter of types, which the reader does not know.
        unknown.retain(|it| {
            !it.what.contains("in a table whose key sets a value") && !it.what.contains("computed from constants")
        });
        assert!(unknown.is_empty(), "the reader let through {unknown:#?}\nin one of {:#?}", self.since_look);
        self.since_look.clear();
        let clear = format!(
            "DO $$ DECLARE o record; BEGIN
               FOR o IN SELECT format('%s %s', CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END, oid::regclass) AS it
                 FROM pg_class WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind IN ('r', 'p', 'v', 'S', 'c') LOOP
                 BEGIN EXECUTE 'DROP ' || o.it || ' CASCADE'; EXCEPTION WHEN undefined_table OR undefined_object OR dependent_objects_still_exist THEN NULL; END;
               END LOOP;
               FOR o IN SELECT oid::regtype AS it, typtype FROM pg_type WHERE typnamespace = '{SCHEMA}'::regnamespace AND typtype IN ('e', 'd', 'r') LOOP
                 BEGIN EXECUTE format('DROP TYPE %s CASCADE', o.it); EXCEPTION WHEN undefined_object THEN NULL; END;
               END LOOP; END $$"
        );
        self.tx.batch_execute(&clear).await.unwrap();
        self.tx.batch_execute(&format!("SET LOCAL statement_timeout = '{FILE_TIMEOUT}'")).await.unwrap();
    }

    async fn finish(mut self, min_ran: usize) {
        self.look().await;
        println!("{} files read, {} accepted, {} ran", self.read, self.accepted, self.ran);
        assert!(self.ran >= min_ran, "only {} of {} accepted files ran", self.ran, self.accepted);
    }
}

async fn database(place: Place) -> Database {
    let database = place.database().await;
    database.provision("fuzz", "").await.unwrap();
    database
}

async fn texts(session: &Client, sql: &str) -> Vec<String> {
    session.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Every function, operator and type that the server has.
async fn everything_of_the_server(place: Place) {
    let database = database(place).await;
    let session = connect::connect(&database.admin).await.unwrap();
    let calls = "SELECT format('%I(%s)', proname, (SELECT string_agg('NULL::' || format_type(t, NULL), ', ' ORDER BY n)
                                                   FROM unnest(proargtypes) WITH ORDINALITY a (t, n)))
                 FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace";
    let operators =
        "SELECT format('%s %s %s', CASE WHEN oprleft <> 0 THEN 'NULL::' || format_type(oprleft, NULL) END, oprname,
                                   'NULL::' || format_type(oprright, NULL)) FROM pg_operator";
    let casts =
        "SELECT format('NULL::%s::%s', format_type(castsource, NULL), format_type(casttarget, NULL)) FROM pg_cast";
    let types = "SELECT format('NULL::%s', format_type(oid, NULL)) FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace";
    let mut expressions = Vec::new();
    for list in [calls, operators, casts, types] {
        expressions.extend(texts(&session, list).await);
    }
    let mut admin = database.admin().await;
    let mut walls = Walls::new(&database, &mut admin).await;
    for (number, expression) in expressions.iter().enumerate() {
        walls.try_file(&format!("CREATE VIEW v{number} AS SELECT ({expression})::text AS x")).await;
        walls.try_file(&format!("CREATE TABLE t{number} (a int CHECK (({expression}) IS NULL))")).await;
    }
    walls.finish(1000).await;
}

/// Words of the corpus, and words that ought to be refused wherever they end up.
fn words() -> Vec<&'static str> {
    let hostile = "pg_sleep set_config query_to_xml public.admin_users pg_catalog.pg_authid EXECUTE FUNCTION SECURITY DEFINER \
                   public.master_cards (id) uuid plugin_fuzz.f() OPERATOR(public.+) ; -- /* */ $$ ' \" E'\\' U&'' :: . , ( ) [ ]";
    CORPUS.iter().flat_map(|text| text.split_whitespace()).chain(hostile.split_whitespace()).collect()
}

/// A statement or three of the corpus with some of their words exchanged, doubled or left out.
fn mutation(random: &mut StdRng, statements: &[&str], words: &[&str]) -> String {
    let mut file = String::new();
    for _ in 0..random.random_range(1..=3) {
        let statement = statements.choose(random).copied().unwrap_or_default();
        for word in statement.split_whitespace() {
            let replaced = match random.random_range(0..40) {
                0 => words.choose(random).copied().unwrap_or_default().to_owned(),
                1 => format!("{word} {}", words.choose(random).copied().unwrap_or_default()),
                2 => String::new(),
                3 => format!("{word} {word}"),
                _ => word.to_owned(),
            };
            file.push_str(&replaced);
            file.push(if random.random_range(0..20) == 0 { '\n' } else { ' ' });
        }
        file.push_str(";\n");
    }
    file.replace("plugin_x", SCHEMA).replace("plugin_evil", SCHEMA)
}

async fn mutations(place: Place, seed: u64, files: usize, min_ran: usize) {
    let database = database(place).await;
    let statements: Vec<&str> =
        CORPUS.iter().flat_map(|text| text.split(";\n").flat_map(|part| part.split("; "))).collect();
    let words = words();
    let mut random = StdRng::seed_from_u64(seed);
    let mut admin = database.admin().await;
    let mut walls = Walls::new(&database, &mut admin).await;
    println!("seed {seed}");
    for _ in 0..files {
        walls.try_file(&mutation(&mut random, &statements, &words)).await;
    }
    walls.finish(min_ran).await;
}

/// A condition on the columns of [`beside_a_key`], mostly of matching types.
fn condition(random: &mut StdRng, depth: u32) -> String {
    const TYPES: [(&str, &[&str]); 6] = [
        (
            "a",
            &[
                "b",
                "'x'",
                "coalesce(a, b)",
                "nullif(a, 'x')",
                "v",
                "a::varchar(9)",
                "n::text",
                "CASE a WHEN 'x' THEN b ELSE a END",
            ],
        ),
        ("v", &["a", "'y'", "v", "v::text"]),
        ("n", &["m", "3", "-4", "2.5", "n * m", "length(a)", "m::int", "a::int", "(n + 1)", "coalesce(n, 3)"]),
        ("m", &["n", "3.25", "m * 2", "-m", "nullif(m, n)", "n::numeric"]),
        ("d", &["now()", "d", "timestamptz '2020-01-01'", "d::date"]),
        ("u", &["card_id", "u", "gen_random_uuid()"]),
    ];
    if depth > 0 && random.random_range(0..2) == 0 {
        let word = ["AND", "OR"].choose(random).copied().unwrap_or_default();
        return format!("({} {word} {})", condition(random, depth - 1), condition(random, depth - 1));
    }
    let (column, others) = TYPES.choose(random).copied().unwrap_or_default();
    let mut other = || others.choose(random).copied().unwrap_or_default();
    let (one, two) = (other(), other());
    match random.random_range(0..9) {
        0 => format!("{column} IN ({one}, {two})"),
        1 => format!("{column} NOT IN ({one}, {two})"),
        2 => format!("{column} BETWEEN {one} AND {two}"),
        3 => format!("{column} IS DISTINCT FROM {one}"),
        4 => format!("({column}, n) {} ({one}, m)", ["=", "<>", "<", ">="].choose(random).copied().unwrap_or_default()),
        5 => format!("ROW({column}, {column}) IS NOT NULL AND {column} = {one}"),
        6 => format!("{column} IS NULL OR NOT {one} = {two}"),
        _ => {
            format!("{column} {} {one}", ["=", "<>", "<", ">", "<=", ">="].choose(random).copied().unwrap_or_default())
        }
    }
}

fn beside_a_key(random: &mut StdRng) -> String {
    let checks: Vec<String> =
        (0..random.random_range(1..4)).map(|_| format!("CHECK ({})", condition(random, 3))).collect();
    format!(
        "CREATE DOMAIN d AS text CHECK ({});
         CREATE TABLE t (a text, b text, v varchar(9), n int, m numeric, d timestamptz, u uuid, w d,
           card_id uuid REFERENCES public.master_cards ON DELETE SET NULL, {});
         CREATE INDEX ON t (n) WHERE {}",
        "VALUE > 'x' AND ".repeat(random.random_range(0..4)) + "VALUE <> ''",
        checks.join(", "),
        condition(random, 1)
    )
}

/// The reader finds by words what costs too much beside `ON DELETE SET NULL`, the look at the catalog by types.
#[tokio::test]
async fn both_walls_agree_on_what_stands_beside_a_key_that_sets_a_value() {
    let files = if is_long_run() { 400 } else { 100 };
    let Some(place) = newest() else { return };
    let database = place.database().await;
    let provisioner = database.login(&database.prepared.names.provision());
    let (mut accepted, mut made, mut differ) = (0, 0, Vec::new());
    for seed in 0..files {
        let file = beside_a_key(&mut StdRng::seed_from_u64(seed));
        if schema_sql::read("plugin_beside", &file).is_err() {
            continue;
        }
        accepted += 1;
        // The table of the file before is lost without a word, in a step of its own: behind a drop little may be done.
        let step = |file| Step { replay: true, lock_limits: PATIENT, ..database.step(&provisioner, "beside", file) };
        step("DROP TABLE IF EXISTS t; DROP DOMAIN IF EXISTS d").make().await.unwrap();
        match step(&file).make().await {
            Ok(_) => made += 1,
            // Types that do not match.
            Err(StepError::Refused(ProvisionFault::Refused { code, .. })) if code == "schema-failed" => {}
            Err(fault) => differ.push(format!("seed {seed}: {fault:?}\n{file}")),
        }
    }
    assert!(differ.is_empty(), "{} of {accepted} differ:\n{}", differ.len(), differ.join("\n"));
    println!("{files} files, {accepted} accepted, {made} made");
    assert!(made > files / 40, "only {made} of {accepted} accepted files were made");
}

fn newest() -> Option<Place> {
    Place::new(18, Login::Superuser)
}

fn oldest() -> Option<Place> {
    Place::new(15, Login::Superuser)
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn everything_of_the_oldest_server() {
    if let Some(place) = oldest() {
        everything_of_the_server(place).await;
    }
}

#[tokio::test]
async fn everything_of_the_newest_server() {
    if let Some(place) = newest() {
        everything_of_the_server(place).await;
    }
}

#[tokio::test]
async fn a_thousand_mutations() {
    if let Some(place) = newest() {
        mutations(place, 1, 1_500, 50).await;
    }
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn half_a_million_mutations() {
    for seed in 2..12 {
        if let (Some(oldest), Some(newest)) = (oldest(), newest()) {
            mutations(oldest, seed, 25_000, 500).await;
            mutations(newest, seed + 100, 25_000, 500).await;
        }
    }
}

/// `value.name` is a call in PostgreSQL: no function but harmless ones may be reached by it.
async fn no_other_function_is_reached_behind_a_dot(place: Place) {
    let database = database(place).await;
    let session = connect::connect(&database.admin).await.unwrap();
    let callable = "SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
                    AND pronargs >= 1 AND pronargs - pronargdefaults <= 1";
    let types =
        texts(&session, "SELECT typname::text FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace").await;
    for name in texts(&session, callable).await {
        let dotted = schema_sql::read(SCHEMA, &format!("SELECT x.\"{name}\"")).is_ok();
        let called = schema_sql::read(SCHEMA, &format!("SELECT \"{name}\"(x)")).is_ok();
        assert!(!dotted || called || types.contains(&name), "{name}");
    }
}

#[tokio::test]
async fn no_other_function_is_reached_on_any_server() {
    let majors: &[u32] = if is_long_run() { &[15, 16, 17, 18] } else { &[15, 18] };
    for &major in majors {
        if let Some(place) = Place::new(major, Login::Superuser) {
            no_other_function_is_reached_behind_a_dot(place).await;
        }
    }
}

/// What the reader lets a file call changes nothing and waits for nothing: PostgreSQL says so of each, but for these.
#[tokio::test]
async fn functions_on_the_list_have_no_side_effects() {
    const VOLATILE: [&str; 9] =
        ["clock_timestamp", "currval", "gen_random_uuid", "lastval", "nextval", "random", "setval", "uuidv4", "uuidv7"];
    let Some(place) = newest() else { return };
    let session = connect::connect(&database(place).await.admin).await.unwrap();
    let sql = "SELECT proname::text, bool_or(provolatile = 'v'), bool_or(prosrc ~ 'SPI|xml|large') FROM pg_proc
                 WHERE pronamespace = 'pg_catalog'::regnamespace GROUP BY 1";
    let mut accepted = 0;
    for row in session.query(sql, &[]).await.unwrap() {
        let (name, is_volatile, is_odd) = (row.get::<_, String>(0), row.get::<_, bool>(1), row.get::<_, bool>(2));
        if schema_sql::read(SCHEMA, &format!("SELECT \"{name}\"()")).is_ok() {
            accepted += 1;
            assert!(!is_volatile || VOLATILE.contains(&name.as_str()), "{name}");
            assert!(!is_odd, "{name}");
        }
    }
    assert!(accepted > 250, "{accepted}");
}
