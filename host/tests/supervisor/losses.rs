//! What waits for the operator's word, and what does not: on each version, since the server itself counts rows.

use cardinal_control::link::ProvisionFault;
use cardinal_database::connect;
use tokio_postgres::Client;

use super::{
    database::{Database, Place, found_in},
    everywhere::everywhere,
};

everywhere! {
    what_loses_data_waits
    what_loses_none_does_not
    types_that_are_there_are_passed_over
    types_that_are_there_are_as_the_file_says
}

const FIRST: &str = "
    CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE TYPE inner_size AS (width int, unit text);
    CREATE TYPE size AS (inside inner_size, depth int); CREATE TYPE unused AS (a int); CREATE TYPE no_mood AS ENUM ('a');
    CREATE DOMAIN sizes AS size[];
    CREATE TABLE parents (id int PRIMARY KEY, v text);
    CREATE TABLE items (id int PRIMARY KEY, v text, mood mood, sizes sizes,
                        parent int REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE parts (id int, v text) PARTITION BY LIST (id); CREATE TABLE part PARTITION OF parts FOR VALUES IN (1);
    CREATE DOMAIN amount AS numeric; CREATE TABLE priced (n numeric, m amount); INSERT INTO priced VALUES (1.5, 1.5);
    CREATE TABLE base (a int); CREATE TABLE derived (b int) INHERITS (base);
    CREATE INDEX items_v ON items (v); CREATE VIEW seen AS SELECT id, v FROM items;
    ALTER TABLE items ADD CONSTRAINT short CHECK (length(v) < 100);
    INSERT INTO parents VALUES (1, 'p'); INSERT INTO items VALUES (1, 'x', 'good', ARRAY[ROW(ROW(1, 'm'), 2)::size], 1);
    INSERT INTO parts VALUES (1, 'x'); INSERT INTO derived VALUES (1, 2)";

async fn provisioned(place: Place) -> (Database, Client) {
    let database = place.database().await;
    let made = database.provision("alpha", FIRST).await.unwrap_or_else(|fault| panic!("{fault:?}"));
    let plugin = connect::connect(&made.connect).await.unwrap();
    (database, plugin)
}

async fn what_loses_data_waits(place: Place) {
    let (database, plugin) = provisioned(place).await;
    let losses: [(&str, &[&str]); 35] = [
        ("ALTER TABLE items DROP COLUMN v CASCADE", &["column items.v is dropped"]),
        ("DROP TYPE mood CASCADE", &["column items.mood is dropped"]),
        ("ALTER TYPE size DROP ATTRIBUTE depth", &["attribute size.depth is dropped"]),
        ("ALTER TYPE inner_size DROP ATTRIBUTE unit", &["attribute inner_size.unit is dropped"]),
        ("ALTER TYPE size RENAME ATTRIBUTE depth TO d", &["attribute size.depth is renamed to d"]),
        ("ALTER TYPE mood RENAME VALUE 'good' TO 'fine'", &["value good of type mood is renamed to fine"]),
        ("ALTER TABLE parts DETACH PARTITION part", &["table part is detached from parts"]),
        ("ALTER TABLE derived NO INHERIT base", &["table derived is detached from base"]),
        ("ALTER TABLE items SET UNLOGGED", &["table items becomes UNLOGGED, which a crash empties"]),
        ("DELETE FROM items", &["rows of table items are deleted"]),
        ("DELETE FROM parts", &["rows of table part are deleted"]),
        ("DELETE FROM parents", &["rows of table items are deleted", "rows of table parents are deleted"]),
        ("WITH gone AS (DELETE FROM items RETURNING id) SELECT * FROM gone", &["rows of table items are deleted"]),
        ("UPDATE items SET v = ''", &["rows of table items are changed"]),
        ("UPDATE seen SET v = ''", &["rows of table items are changed"]),
        ("UPDATE parts SET v = ''", &["rows of table part are changed"]),
        ("UPDATE parents SET id = 2", &["rows of table items are changed", "rows of table parents are changed"]),
        ("UPDATE items SET sizes[1].depth = 3", &["rows of table items are changed"]),
        (
            "INSERT INTO parents VALUES (1, 'q') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
            &["rows of table parents are changed"],
        ),
        ("ALTER TABLE items ADD COLUMN w text; UPDATE items SET w = v, v = ''", &["rows of table items are changed"]),
        (
            "ALTER TABLE items ADD COLUMN w text; UPDATE items SET w = v; UPDATE seen SET v = ''",
            &["rows of table items are changed"],
        ),
        ("DROP VIEW seen; ALTER TABLE items ALTER v TYPE text USING 'y'", &["column items.v is computed anew"]),
        ("ALTER TABLE parts ALTER v TYPE text USING 'y'", &["column parts.v is computed anew"]),
        // Under another name for a while.
        (
            "DROP VIEW seen; ALTER TABLE items RENAME TO x; ALTER TABLE x ALTER v TYPE text USING ''; ALTER TABLE x RENAME TO items;
             CREATE TABLE x (v text)",
            &["column items.v is computed anew"],
        ),
        (
            "ALTER TABLE items RENAME TO x; UPDATE x SET v = ''; ALTER TABLE x RENAME TO items",
            &["rows of table items are changed"],
        ),
        // Through a table of this step that the old one is put below.
        (
            "CREATE TABLE above (v text); ALTER TABLE parents INHERIT above; UPDATE above SET v = ''",
            &["rows of table parents are changed"],
        ),
        (
            "CREATE TABLE above (v text); ALTER TABLE parents INHERIT above; ALTER TABLE above ALTER v TYPE text USING ''",
            &["column parents.v is computed anew"],
        ),
        // A new column above merges with an old one of that name below.
        ("ALTER TABLE base ADD COLUMN b int; UPDATE base SET b = 7", &["rows of table derived are changed"]),
        ("ALTER TABLE base ADD COLUMN b int; ALTER TABLE base ALTER b TYPE int USING 7", &["column derived.b is computed anew"]),
        // There and back: what the first conversion rounded stays so.
        (
            "ALTER TABLE priced ALTER n TYPE int; ALTER TABLE priced ALTER n TYPE numeric",
            &["column priced.n changes from integer to numeric", "column priced.n changes from numeric to integer"],
        ),
        (
            "CREATE DOMAIN whole AS int; ALTER TABLE priced ALTER m TYPE whole; DROP DOMAIN amount; ALTER DOMAIN whole RENAME TO amount",
            &["column priced.m changes from amount to whole"],
        ),
        // What fills a new column hides no key's action.
        (
            "CREATE TABLE fresh (id int PRIMARY KEY); INSERT INTO fresh VALUES (1);
             ALTER TABLE items ADD COLUMN w text, ADD CONSTRAINT k FOREIGN KEY (parent) REFERENCES fresh ON DELETE SET NULL;
             UPDATE items SET w = v; DELETE FROM fresh; ALTER TABLE items DROP CONSTRAINT k",
            &["rows of table items are changed"],
        ),
        (
            "CREATE TABLE fresh (id int PRIMARY KEY); INSERT INTO fresh VALUES (1);
             ALTER TABLE items ADD COLUMN w text, ADD CONSTRAINT k FOREIGN KEY (parent) REFERENCES fresh ON DELETE SET NULL;
             WITH gone AS (DELETE FROM fresh RETURNING id) UPDATE items SET w = v; ALTER TABLE items DROP CONSTRAINT k",
            &["rows of table items are changed"],
        ),
        ("UPDATE parts SET id = 1 WHERE id = 1", &["rows of table part are changed"]),
        ("INSERT INTO items SELECT 2; DELETE FROM items WHERE id = 1", &["rows of table items are deleted"]),
    ];
    for (sql, expected) in losses {
        let found = found_in(database.provision("alpha", sql).await, "destructive-migration");
        let mut found: Vec<&str> = found.split("; ").collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{sql}");
    }
    let kept = "SELECT FROM items i, parts p, derived WHERE i.v = 'x' AND p.v = 'x' AND mood = 'good' AND (sizes[1]).depth = 2 AND b = 2";
    assert_eq!(plugin.query(kept, &[]).await.unwrap().len(), 1);
    // Agreed to, it happens.
    database.replay("alpha", "ALTER TYPE size DROP ATTRIBUTE depth; DELETE FROM parts").await;
    assert!(plugin.query("SELECT FROM parts", &[]).await.unwrap().is_empty());
}

async fn what_loses_none_does_not(place: Place) {
    let (database, plugin) = provisioned(place).await;
    let harmless = [
        // What holds nothing of a row.
        "DROP VIEW seen; DROP INDEX items_v; ALTER TABLE items DROP CONSTRAINT short, DROP CONSTRAINT items_parent_fkey",
        "DROP TYPE unused; ALTER TYPE no_mood RENAME VALUE 'a' TO 'b'; DROP TYPE no_mood",
        "ALTER TYPE mood ADD VALUE 'odd' BEFORE 'bad'; ALTER TYPE size ADD ATTRIBUTE more int",
        "ALTER TABLE items ALTER v SET DEFAULT 'x', ALTER mood SET NOT NULL, ALTER v SET STORAGE EXTERNAL",
        "CREATE TABLE part_2 (id int, v text); INSERT INTO part_2 VALUES (2, 'y'); ALTER TABLE parts ATTACH PARTITION part_2 FOR VALUES IN (2)",
        // New rows and new columns.
        "INSERT INTO parents VALUES (1, 'q'), (2, 'r') ON CONFLICT DO NOTHING",
        "INSERT INTO parents VALUES (3, 's') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        "UPDATE items SET v = '' WHERE false; DELETE FROM parents WHERE id = 77",
        "ALTER TABLE items ADD COLUMN w text; UPDATE items SET w = v; ALTER TABLE parts ADD COLUMN w text; UPDATE parts SET w = v",
        "ALTER TABLE items ADD COLUMN n int DEFAULT 3; INSERT INTO items (id) VALUES (9) ON CONFLICT (id) DO UPDATE SET n = 4",
        "ALTER TABLE items ADD COLUMN z text; ALTER TABLE items ALTER z TYPE int USING 5",
        "CREATE TABLE fresh (a int); INSERT INTO fresh VALUES (1); UPDATE fresh SET a = 2; DELETE FROM fresh",
        // A tree; a new column of a table below others; the type that it has.
        "ALTER TABLE items ADD COLUMN up int REFERENCES items ON DELETE SET NULL ON UPDATE CASCADE, ADD COLUMN q int; UPDATE items SET q = 1",
        "ALTER TABLE base ADD COLUMN c int; UPDATE base SET c = 1; ALTER TABLE derived ALTER b TYPE int; ALTER TABLE priced ALTER m TYPE amount",
        "CREATE UNLOGGED TABLE cache (a int); ALTER TABLE cache SET LOGGED",
        "ALTER TABLE parts DETACH PARTITION part; ALTER TABLE parts ATTACH PARTITION part FOR VALUES IN (1)",
    ];
    for sql in harmless {
        // A label that was added cannot be used in the same transaction, and mood must not be null.
        let sql = sql.replace("INSERT INTO items (id) VALUES (9)", "INSERT INTO items (id, mood) VALUES (1, 'good')");
        database.provision("alpha", &sql).await.unwrap_or_else(|fault| panic!("{sql}: {fault:?}"));
    }
    let row = plugin.query_one("SELECT v, w, n, z FROM items", &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1), row.get::<_, i32>(2), row.get::<_, i32>(3)),
        ("x", "x", 4, 5)
    );
}

/// There is no IF NOT EXISTS for types and domains, and a file runs again with each of its contents.
async fn types_that_are_there_are_passed_over(place: Place) {
    let (database, plugin) = provisioned(place).await;
    let again = "CREATE TYPE mood AS ENUM ('good', 'bad'); ALTER TYPE mood ADD VALUE IF NOT EXISTS 'odd';
        CREATE TYPE size AS (inside inner_size, depth int); CREATE DOMAIN sizes AS size[];
        CREATE TYPE spans AS RANGE (subtype = int8); ALTER TABLE items ADD COLUMN IF NOT EXISTS span spans;";
    for run in 1..=3 {
        let file = format!("{again} COMMENT ON TABLE items IS 'run {run}'");
        database.provision("alpha", &file).await.unwrap_or_else(|fault| panic!("run {run}: {fault:?}"));
    }
    let values: Vec<String> = plugin.query_one("SELECT enum_range(NULL::mood)::text[]", &[]).await.unwrap().get(0);
    assert_eq!(values, ["good", "bad", "odd"]);
    // Another type of that name is a mistake, and so are values that it has not.
    for other in
        ["CREATE TYPE mood AS ENUM ('good', 'new')", "CREATE DOMAIN mood AS text", "CREATE TYPE items AS (a int)"]
    {
        let found = found_in(database.provision("alpha", other).await, "schema-failed");
        assert!(found.contains("already exists"), "{other}: {found}");
    }
}

/// A file that says something else of a type than what is there would be believed by whoever reads it.
async fn types_that_are_there_are_as_the_file_says(place: Place) {
    let (database, plugin) = provisioned(place).await;
    let first = "CREATE TYPE place AS (street text COLLATE \"C\", number int); CREATE TABLE places (place place);
        INSERT INTO places VALUES (ROW('Main', 7));
        CREATE DOMAIN code AS varchar(9) DEFAULT 'x' NOT NULL CONSTRAINT long CHECK (length(VALUE) > 1) CHECK (VALUE <> 'no');
        CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = float8mi);
        CREATE TYPE words AS RANGE (subtype = text, collation = \"C\", multirange_type_name = many_words)";
    for run in 1..=2 {
        let file = format!("{} -- {run}", first.replace("TABLE", "TABLE IF NOT EXISTS").replace("INSERT", "-- INSERT"));
        let file = if run == 1 { first.to_owned() } else { file };
        database.provision("alpha", &file).await.unwrap_or_else(|fault| panic!("run {run}: {fault:?}"));
    }
    let code = "CREATE DOMAIN code AS varchar(9) DEFAULT 'x' NOT NULL CHECK (VALUE <> 'no') CHECK (length(VALUE) > 1)";
    for (file, found_words) in [
        ("CREATE TYPE place AS (street text, number int)", "`street text COLLATE \"C\"`, and the statement at"),
        ("CREATE TYPE place AS (street text COLLATE \"C\")", "`number integer`, and the statement at"),
        ("CREATE TYPE place AS (number int, street text COLLATE \"C\")", "says `number integer, street text COLLATE"),
        (
            "\n CREATE TYPE place AS (street text COLLATE \"C\", number int8, more int)",
            "line 2, column 2 says `number bigint",
        ),
        (&code.replace("'x'", "'y'"), "`DEFAULT 'y'::character varying`"),
        (&code.replace("varchar(9)", "text"), "`AS character varying(9)"),
        (&code.replace("NOT NULL ", ""), "is there with `NOT NULL`"),
        (&code.replace("> 1", "> 2"), "CHECK ((length((VALUE)::text) > 2))"),
        ("CREATE TYPE span AS RANGE (subtype = float8)", "SUBTYPE_DIFF = float8mi"),
        ("CREATE TYPE span AS RANGE (subtype = int8)", "SUBTYPE = bigint"),
        ("CREATE TYPE words AS RANGE (subtype = text, multirange_type_name = many_words)", "COLLATION = \"C\""),
    ] {
        let found = found_in(database.provision("alpha", file).await, "schema-failed");
        assert!(found.contains(found_words), "{file}: {found}");
    }
    database.provision("alpha", code).await.unwrap(); // another order of the checks is no difference

    // A type that the file itself alters is the author's affair; what the next file has to say is what came of it.
    let place = "CREATE TYPE place AS (street text COLLATE \"C\", number int)";
    let floor = format!("{place}; ALTER TYPE place ADD ATTRIBUTE \"Floor\" numeric(3, 1)");
    database.provision("alpha", &floor).await.unwrap();
    let found = found_in(database.provision("alpha", place).await, "schema-failed");
    assert!(
        found.contains(
            "is there with `\"Floor\" numeric(3,1)`, and the statement at line 1, column 1 says nothing more"
        ),
        "{found}"
    );
    let more = "CREATE TYPE place AS (street text COLLATE \"C\", number int, \"Floor\" numeric(3, 1));
        CREATE DOMAIN code AS varchar(9) NOT NULL; ALTER DOMAIN code SET DEFAULT 'z'; ALTER DOMAIN code DROP NOT NULL;";
    for run in 1..=2 {
        database.provision("alpha", &format!("{more} COMMENT ON TABLE places IS 'run {run}'")).await.unwrap();
    }
    let row = plugin
        .query_one("SELECT (place).street, (place).number, (place).\"Floor\" IS NULL FROM places", &[])
        .await
        .unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i32>(1), row.get::<_, bool>(2)), ("Main", 7, true));
    let left =
        "SELECT count(*) FROM pg_type WHERE typname LIKE '%aside%' AND typnamespace = 'plugin_alpha'::regnamespace";
    assert_eq!(plugin.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Names go into messages and logs, where a line is a line.
#[tokio::test]
async fn a_name_makes_no_line_of_its_own() {
    let database = Database::new().await;
    database.provision("odd", "CREATE TABLE \"a\nINFO fine\" (\"b\tc\" int)").await.unwrap();
    let drop = "ALTER TABLE \"a\nINFO fine\" DROP COLUMN \"b\tc\"";
    let refused = database.provision("odd", drop).await;
    let Err(ProvisionFault::Refused { losses, .. }) = &refused else { panic!("{refused:?}") };
    assert_eq!(losses, &[r"column a\u{a}INFO fine.b\u{9}c is dropped"]);
    assert_eq!(found_in(refused, "destructive-migration"), r"column a\u{a}INFO fine.b\u{9}c is dropped");
    let found =
        found_in(database.provision("odd", "INSERT INTO \"a\nINFO fine\" (missing) VALUES (1)").await, "schema-failed");
    assert!(found.contains(r"a\u{a}INFO fine") && !found.contains('\n'), "{found}");
}
