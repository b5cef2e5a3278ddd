//! Checks that a later version adds to a table with rows: nobody waits while PostgreSQL computes them.

// How long somebody waited is a figure that people want to see.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use cardinal_database::connect;
use tokio_postgres::Client;

use super::database::{Database, found_in, superuser_databases};
use super::removals::beside_removals;
use super::slow_expression::{BIG, NEEDLE, alone, searches_that_take};

const TABLE: &str = "CREATE TABLE keyed (v text, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE)";
/// As promised to operators, with what a busy machine adds.
const PROMISED: Duration = Duration::from_secs(4);
/// Of each of two rows.
const SLOW: Duration = Duration::from_secs(3);

/// The plugin's first version, and its session.
async fn plugin(database: &Database, first: &str) -> Client {
    let made = database.provision("late", first).await.unwrap_or_else(|fault| panic!("{fault:?}"));
    connect::connect(&made.connect).await.unwrap()
}

/// The plugin's checks, with a mark at those that are not valid.
async fn checks(database: &Database) -> Vec<String> {
    let sql = "SELECT conname || CASE WHEN convalidated THEN '' ELSE ' open' END FROM pg_constraint
                 WHERE contype = 'c' AND connamespace = 'plugin_late'::regnamespace ORDER BY conname";
    database.admin().await.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// PostgreSQL needs seconds for these rows: longer than a step may keep removals waiting.
#[tokio::test]
async fn a_check_that_takes_long_keeps_no_card_from_being_removed() {
    let _alone = alone().await;
    for database in superuser_databases().await {
        let searches = searches_that_take(&database, SLOW).await;
        let slow = vec![format!("strpos(v, {NEEDLE}) = 0"); searches].join(" AND ");
        let session = plugin(&database, TABLE).await;
        session
            .batch_execute(&format!("INSERT INTO keyed (v) WITH {BIG} SELECT v FROM big, generate_series(1, 2)"))
            .await
            .unwrap();
        let file = format!("ALTER TABLE keyed ADD CHECK ({slow})");
        let (made, waited) = beside_removals(&database, database.provision("late", &file)).await;
        made.unwrap_or_else(|fault| panic!("{fault:?}"));
        println!("a removal waited for {waited:?} at most");
        assert!(waited < PROMISED, "{waited:?}");
        assert_eq!(checks(&database).await, ["keyed_v_check"]);
    }
}

#[tokio::test]
async fn a_row_that_breaks_a_new_check_is_found_before_anything_stays() {
    for database in superuser_databases().await {
        let session = plugin(&database, TABLE).await;
        session.batch_execute("INSERT INTO keyed (v) VALUES ('a'), (NULL), ('b')").await.unwrap();
        for check in ["v ~ 'a'", "v = 'a'"] {
            let file = format!("CREATE TABLE more (n int); ALTER TABLE keyed ADD CONSTRAINT c CHECK ({check})");
            let found = found_in(database.provision("late", &file).await, "schema-failed");
            assert!(found.starts_with("23514") && found.contains("line 1, column 28"), "{found}");
            assert_eq!(database.tables("plugin_late").await, ["keyed"]);
        }
        // A table that the step has locked is not read under the lock.
        let file = "ALTER TABLE keyed ADD COLUMN IF NOT EXISTS w text NOT NULL DEFAULT 'y'; ALTER TABLE keyed ADD CONSTRAINT c CHECK (w ~ 'x')";
        database.provision("late", file).await.unwrap_or_else(|fault| panic!("{fault:?}"));
        assert_eq!(checks(&database).await, ["c open"]);
        session.batch_execute("INSERT INTO keyed (w) VALUES ('x')").await.unwrap();
        assert!(session.batch_execute("INSERT INTO keyed (w) VALUES ('y')").await.is_err());
    }
}

/// By name and by whether they are valid, as PostgreSQL itself would make them.
#[tokio::test]
async fn late_checks_come_out_as_they_are_written() {
    let first = "CREATE TABLE parent (v text, CONSTRAINT of_parent CHECK (v ~ '.')); CREATE TABLE child (v text); CREATE TABLE other (v text);
        CREATE TABLE below () INHERITS (other); CREATE TABLE parts (k int, v text) PARTITION BY LIST (k);
        CREATE TABLE part PARTITION OF parts DEFAULT";
    let second = "ALTER TABLE child ADD CONSTRAINT of_parent CHECK (v ~ '.'); ALTER TABLE child INHERIT parent;
        ALTER TABLE other ADD CHECK (v ~ 'a'), ADD CHECK (v ~ 'b'), ADD CONSTRAINT open CHECK (v ~ 'c') NOT VALID,
          ADD CONSTRAINT own CHECK (v ~ 'd') NO INHERIT, ADD COLUMN w text DEFAULT 'w';
        ALTER TABLE other RENAME TO renamed; ALTER TABLE renamed RENAME CONSTRAINT own TO mine; ALTER TABLE parts ADD CHECK (v ~ 'e');
        ALTER TABLE renamed ADD CONSTRAINT gone CHECK (v ~ 'f'); ALTER TABLE renamed DROP CONSTRAINT gone;
        ALTER TABLE IF EXISTS missing ADD CHECK (v ~ 'g'); CREATE TABLE new (v text); ALTER TABLE new ADD CHECK (v ~ 'h')";
    for database in superuser_databases().await {
        plugin(&database, first).await;
        database.replay("late", second).await;
        let sql = "SELECT string_agg(format('%s %s %s %s %s', conrelid::regclass, conname, convalidated, connoinherit, pg_get_expr(conbin, conrelid)), E'\\n'
                       ORDER BY conrelid::regclass::text, conname) FROM pg_constraint WHERE contype = 'c' AND connamespace = $1::text::regnamespace";
        let admin = database.admin().await;
        admin
            .batch_execute(&format!("CREATE SCHEMA theirs; SET search_path = theirs; {first}; {second}"))
            .await
            .unwrap();
        let mut seen = Vec::new();
        for schema in ["plugin_late", "theirs"] {
            admin.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
            seen.push(admin.query_one(sql, &[&schema]).await.unwrap().get::<_, String>(0));
        }
        assert_eq!(seen[0], seen[1]);
    }
}
