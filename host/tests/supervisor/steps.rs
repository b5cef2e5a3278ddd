//! Schema steps from outside: once per content, one host after the other, nothing lost.

use std::sync::Arc;

use cardinal_database::connect;

use super::database::{Database, found_in, superuser_databases};

const FIRST: &str = "CREATE TABLE IF NOT EXISTS items (id int, v text)";

async fn applied_at(database: &Database) -> (time::OffsetDateTime, i32) {
    let state = "SELECT applied_at, duration_ms FROM public.plugin_schema_state WHERE plugin = 'alpha'";
    let row = database.admin().await.query_one(state, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn the_same_content_runs_once() {
    let database = Database::new().await;
    // Would fail the second time.
    let once = "CREATE TABLE items (id int)";
    database.provision("alpha", once).await.unwrap();
    let first = applied_at(&database).await;
    let again = database.provision("alpha", once).await.unwrap();
    assert_eq!(applied_at(&database).await, first);
    assert_eq!((again.schema.as_str(), again.role), ("plugin_alpha", database.prepared.names.plugin_runtime("alpha")));
    found_in(database.provision("alpha", &format!("{once};")).await, "schema-failed");
}

#[tokio::test]
async fn hosts_that_race_apply_it_once() {
    let database = Arc::new(Database::new().await);
    let racing = (0..8).map(|_| {
        let database = Arc::clone(&database);
        tokio::spawn(async move { database.provision("alpha", "CREATE TABLE items (id int)").await.map(|_| ()) })
    });
    for host in racing.collect::<Vec<_>>() {
        host.await.unwrap().unwrap();
    }
    assert_eq!(database.tables("plugin_alpha").await, ["items"]);
}

#[tokio::test]
async fn different_plugins_step_side_by_side() {
    let database = Arc::new(Database::new().await);
    let racing = (0..8).map(|number| {
        let database = Arc::clone(&database);
        tokio::spawn(async move { database.provision(&format!("plugin-{number}"), FIRST).await.map(|_| ()) })
    });
    for host in racing.collect::<Vec<_>>() {
        host.await.unwrap().unwrap();
    }
}

/// Neither its keys nor its checks and indexes are looked at, each of which would wait for the lock.
#[tokio::test]
async fn a_plugin_that_locks_its_tables_holds_up_no_other_step() {
    let tables = "
        CREATE TABLE IF NOT EXISTS items (
          id int PRIMARY KEY, v text CHECK (v <> ''), card_id uuid REFERENCES public.master_cards (id));
        CREATE TABLE IF NOT EXISTS parts (item int REFERENCES items (id), card_id uuid REFERENCES public.master_cards (id));
        CREATE INDEX IF NOT EXISTS by_text ON items (lower(v))";
    for database in superuser_databases().await {
        let made = database.provision("locker", tables).await.unwrap();
        let holder = connect::connect(&made.connect).await.unwrap();
        let lock =
            "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE items, parts IN ACCESS EXCLUSIVE MODE";
        holder.batch_execute(lock).await.unwrap();
        database.provision("alpha", tables).await.unwrap();
        let more = format!("{tables}; ALTER TABLE parts ADD COLUMN IF NOT EXISTS note text CHECK (note <> '')");
        database.provision("alpha", &more).await.unwrap();
        holder.batch_execute("COMMIT").await.expect("the lock went before the steps ended");
    }
}

#[tokio::test]
async fn a_plugin_without_a_schema_gets_its_login_and_place() {
    let database = Database::new().await;
    let made = database.provision("price-watch", "").await.unwrap();
    assert_eq!(made.schema, "plugin_price_watch");
    let plugin = connect::connect(&made.connect).await.unwrap();
    plugin.query("SELECT id, title, attributes FROM public.master_cards", &[]).await.unwrap();
}

#[tokio::test]
async fn additions_pass_and_old_rows_stay() {
    let database = Database::new().await;
    let made = database.provision("alpha", FIRST).await.unwrap();
    let plugin = connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO items VALUES (1, 'x')", &[]).await.unwrap();
    let second = format!(
        "{FIRST}; ALTER TABLE items ADD COLUMN IF NOT EXISTS note text; CREATE TABLE IF NOT EXISTS more (id int)"
    );
    database.provision("alpha", &second).await.unwrap();
    plugin.query_one("SELECT id, note FROM items", &[]).await.unwrap();
    plugin.execute("INSERT INTO more VALUES (1)", &[]).await.unwrap();
}

#[tokio::test]
async fn losses_wait_for_an_operator() {
    let database = Database::new().await;
    let made = database.provision("alpha", FIRST).await.unwrap();
    let plugin = connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO items VALUES (1, 'x')", &[]).await.unwrap();
    for (loss, named) in [
        ("ALTER TABLE items DROP COLUMN v", "column items.v is dropped"),
        (
            "ALTER TABLE items ALTER COLUMN v TYPE varchar(10)",
            "column items.v changes from text to character varying(10)",
        ),
        ("ALTER TABLE items RENAME COLUMN v TO w", "column items.v is renamed to w"),
        ("ALTER TABLE items DROP COLUMN v; ALTER TABLE items ADD COLUMN v text", "column items.v is dropped"),
        ("DROP TABLE items", "table items is dropped"),
        ("DROP TABLE items; CREATE TABLE items (id int, v text)", "table items is dropped"),
        ("ALTER TABLE items RENAME TO other", "table items is renamed to other"),
    ] {
        let found = found_in(database.provision("alpha", loss).await, "destructive-migration");
        assert!(found.contains(named), "{loss}: {found}");
    }
    assert_eq!(plugin.query("SELECT v FROM items WHERE v = 'x'", &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_first_step_that_fails_leaves_nothing_and_can_be_repeated() {
    let database = Database::new().await;
    found_in(database.provision("alpha", "CREATE TABLE items (id int); SELECT 1/0").await, "schema-failed");
    assert!(!database.has_role(&database.prepared.names.plugin_runtime("alpha")).await);
    assert!(!database.has_role(&database.prepared.names.plugin_schema("alpha")).await);
    let recorded = "SELECT 1 FROM public.plugin_schema_state WHERE schema_sha256 IS NOT NULL";
    assert!(database.admin().await.query_opt(recorded, &[]).await.unwrap().is_none());
    database.provision("alpha", FIRST).await.unwrap();
}

#[tokio::test]
async fn a_schema_of_somebody_elses_is_not_taken_over() {
    let database = Database::new().await;
    database
        .admin()
        .await
        .batch_execute("CREATE SCHEMA plugin_alpha; CREATE TABLE plugin_alpha.theirs ()")
        .await
        .unwrap();
    let found = found_in(database.provision("alpha", FIRST).await, "schema-taken");
    assert!(found.contains("cardinal_superuser"), "{found}");
    assert_eq!(database.tables("plugin_alpha").await, ["theirs"]);
}

/// A card that a plugin's foreign key holds is told by name of the schema, which is what 409 card-in-use is made from.
#[tokio::test]
async fn a_key_without_cascade_holds_the_card_and_names_the_plugin() {
    let database = Database::new().await;
    let made = database
        .provision("alpha", "CREATE TABLE items (card_id uuid REFERENCES public.master_cards (id))")
        .await
        .unwrap();
    let card = database.card("held").await;
    connect::connect(&made.connect).await.unwrap().execute("INSERT INTO items VALUES ($1)", &[&card]).await.unwrap();
    database.core().await.execute("UPDATE public.master_cards SET deleted_at = now()", &[]).await.unwrap();
    let held =
        database.reaper().await.execute("DELETE FROM public.master_cards WHERE id = $1", &[&card]).await.unwrap_err();
    let db_error = held.as_db_error().unwrap();
    assert_eq!((db_error.code().code(), db_error.schema()), ("23503", Some("plugin_alpha")));
}

/// What the key's action breaks names the schema, too.
#[tokio::test]
async fn a_constraint_that_holds_the_card_names_the_plugin() {
    let database = Database::new().await;
    let tables = "CREATE TABLE wanted (card_id uuid NOT NULL REFERENCES public.master_cards (id) ON DELETE SET NULL);
        CREATE TABLE checked (card_id uuid REFERENCES public.master_cards (id) ON DELETE SET NULL CHECK (card_id IS NOT NULL));
        CREATE TABLE single (card_id uuid UNIQUE NULLS NOT DISTINCT REFERENCES public.master_cards (id) ON DELETE SET NULL)";
    let made = database.provision("alpha", tables).await.unwrap();
    let plugin = connect::connect(&made.connect).await.unwrap();
    for (table, code) in [("wanted", "23502"), ("checked", "23514"), ("single", "23505")] {
        let card = database.card(table).await;
        plugin.execute(&format!("INSERT INTO {table} VALUES ($1)"), &[&card]).await.unwrap();
        if table == "single" {
            plugin.execute("INSERT INTO single VALUES (NULL)", &[]).await.unwrap();
        }
        database.core().await.execute("UPDATE public.master_cards SET deleted_at = now()", &[]).await.unwrap();
        let delete = "DELETE FROM public.master_cards WHERE id = $1";
        let held = database.reaper().await.execute(delete, &[&card]).await.unwrap_err();
        let db_error = held.as_db_error().unwrap();
        assert_eq!((db_error.code().code(), db_error.schema()), (code, Some("plugin_alpha")));
    }
}

#[tokio::test]
async fn writers_of_cards_go_on_while_a_schema_waits_for_them() {
    let database = Database::new().await;
    let card = database.card("busy").await;
    let mut core = database.core().await;
    let writing = core.transaction().await.unwrap();
    writing.execute("UPDATE public.master_cards SET title = 'x' WHERE id = $1", &[&card]).await.unwrap();
    // Its foreign key needs a lock that the writer's transaction holds off; it gives up each time after 0.2 s.
    let linked = "CREATE TABLE items (card_id uuid REFERENCES public.master_cards (id))";
    let (stepped, ()) = tokio::join!(database.provision("alpha", linked), async {
        let other = database.core().await;
        other.execute("UPDATE public.master_cards SET title = 'y' WHERE sku = 'none'", &[]).await.unwrap();
        writing.commit().await.unwrap();
    });
    stepped.unwrap();
}
