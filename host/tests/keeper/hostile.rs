//! Schemas that are refused for what they would leave behind, each with the object that it is about.

use super::database::{Place, found_in};
use super::everywhere::everywhere;

everywhere! {
    a_security_definer_function
    a_security_definer_procedure
    a_trigger_on_a_table_that_cascades_from_cards
    a_trigger_further_down_the_cascade
    a_trigger_on_a_partition
    a_deferred_constraint_trigger
    an_object_made_by_a_deferred_trigger
    a_rule
    a_grant_of_its_role_to_another
    a_member_of_its_schema_role
    a_grant_to_the_core
    more_rights_for_its_own_run_time_role
    catalogs_of_its_own_do_not_deceive_the_checks
    a_hostile_update_leaves_the_plugin_as_it_was
    a_trigger_on_a_table_of_its_own_alone_passes
}

const LINKED: &str =
    "CREATE TABLE items (id bigint PRIMARY KEY, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE);";

/// Refused as unsafe, naming the object, with nothing left behind.
async fn refused(place: Place, schema_sql: &str, named: &str) {
    let database = place.database().await;
    let found = found_in(database.provision("evil", schema_sql).await, "schema-unsafe");
    assert!(found.contains(named), "{named:?} is not named: {found}");
    assert!(database.tables("plugin_evil").await.is_empty());
    assert!(!database.has_role(&database.prepared.names.plugin_runtime("evil")).await);
    assert!(!database.has_role(&database.prepared.names.plugin_schema("evil")).await);
}

async fn a_security_definer_function(place: Place) {
    refused(place, "CREATE FUNCTION drop_it() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'select 1'", "drop_it()")
        .await;
}

async fn a_security_definer_procedure(place: Place) {
    refused(place, "CREATE PROCEDURE drop_it() LANGUAGE sql SECURITY DEFINER AS 'select 1'", "drop_it()").await;
}

async fn a_trigger_on_a_table_that_cascades_from_cards(place: Place) {
    let trigger = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end';
                   CREATE TRIGGER t AFTER DELETE ON items FOR EACH ROW EXECUTE FUNCTION f()";
    refused(place, &format!("{LINKED} {trigger}"), "t on plugin_evil.items").await;
}

async fn a_trigger_further_down_the_cascade(place: Place) {
    let further = "CREATE TABLE more (item bigint REFERENCES items ON DELETE CASCADE);
                   CREATE TABLE most (LIKE more, x bigint UNIQUE);
                   ALTER TABLE more ADD y bigint UNIQUE;
                   ALTER TABLE most ADD FOREIGN KEY (x) REFERENCES more (y) ON DELETE SET NULL;
                   CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end';
                   CREATE TRIGGER t AFTER UPDATE ON most FOR EACH STATEMENT EXECUTE FUNCTION f()";
    refused(place, &format!("{LINKED} {further}"), "t on plugin_evil.most").await;
}

async fn a_trigger_on_a_partition(place: Place) {
    let partitioned = "CREATE TABLE p (card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE) PARTITION BY HASH (card_id);
                       CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 1, REMAINDER 0);
                       CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end';
                       CREATE TRIGGER t AFTER DELETE ON p0 FOR EACH ROW EXECUTE FUNCTION f()";
    refused(place, partitioned, "t on plugin_evil.p0").await;
}

async fn a_deferred_constraint_trigger(place: Place) {
    let deferred = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end';
                    CREATE CONSTRAINT TRIGGER t AFTER DELETE ON items DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f()";
    refused(place, &format!("{LINKED} {deferred}"), "t on plugin_evil.items").await;
}

/// What was put off to the commit happens before the look, not after it.
async fn an_object_made_by_a_deferred_trigger(place: Place) {
    let late = "CREATE TABLE plain (id int);
                CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $f$ begin
                  execute 'create function plugin_evil.late() returns int language sql security definer as ''select 1''';
                  return null; end $f$;
                CREATE CONSTRAINT TRIGGER t AFTER INSERT ON plain DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f();
                INSERT INTO plain VALUES (1)";
    refused(place, late, "late()").await;
}

async fn a_rule(place: Place) {
    refused(
        place,
        &format!("{LINKED} CREATE RULE r AS ON DELETE TO items DO INSTEAD NOTHING"),
        "r on plugin_evil.items",
    )
    .await;
}

async fn a_grant_of_its_role_to_another(place: Place) {
    let database = place.database().await;
    let (own, core) = (database.prepared.names.plugin_schema("evil"), database.prepared.names.core());
    found_in(database.provision("evil", &format!("GRANT {own} TO {core}")).await, "schema-failed");
}

/// However it came about.
async fn a_member_of_its_schema_role(place: Place) {
    let database = place.database().await;
    database.provision("evil", "").await.unwrap();
    let (own, core) = (database.prepared.names.plugin_schema("evil"), database.prepared.names.core());
    database.admin().await.batch_execute(&format!("GRANT {own} TO {core}")).await.unwrap();
    let found = found_in(database.provision("evil", "CREATE TABLE items ()").await, "schema-unsafe");
    assert!(found.contains(&core), "{found}");
}

async fn a_grant_to_the_core(place: Place) {
    let database = place.database().await;
    let core = database.prepared.names.core();
    let grants = [
        format!("{LINKED} GRANT SELECT ON items TO {core}"),
        format!("{LINKED} GRANT SELECT (id) ON items TO {core}"),
        format!("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'; GRANT EXECUTE ON FUNCTION f() TO {core}"),
        format!("CREATE TYPE mood AS ENUM ('ok'); GRANT USAGE ON TYPE mood TO {core}"),
        format!("CREATE SEQUENCE q; GRANT USAGE ON SEQUENCE q TO {core}"),
        format!("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {core}"),
    ];
    for schema_sql in grants {
        let found = found_in(database.provision("evil", &schema_sql).await, "schema-unsafe");
        assert!(found.contains(&core), "{schema_sql}: {found}");
    }
}

async fn more_rights_for_its_own_run_time_role(place: Place) {
    let database = place.database().await;
    let own = database.prepared.names.plugin_runtime("evil");
    for right in ["TRIGGER", "TRUNCATE", "REFERENCES"] {
        let found = found_in(
            database.provision("evil", &format!("{LINKED} GRANT {right} ON items TO {own}")).await,
            "schema-unsafe",
        );
        assert!(found.contains(right), "{found}");
        let to_all = format!("{LINKED} GRANT {right} ON items TO PUBLIC");
        found_in(database.provision("evil", &to_all).await, "schema-unsafe");
    }
    let passing_on = format!("{LINKED} GRANT SELECT ON items TO {own} WITH GRANT OPTION");
    found_in(database.provision("evil", &passing_on).await, "schema-unsafe");
}

/// The session's search_path is schema.sql's to change; the checks must not fall for names put in their way.
async fn catalogs_of_its_own_do_not_deceive_the_checks(place: Place) {
    let disguise = "CREATE TABLE pg_proc (oid oid, prosecdef bool, proowner oid, pronamespace oid);
                    CREATE FUNCTION pg_get_userbyid(oid) RETURNS name LANGUAGE sql AS 'select ''nobody''::name';
                    CREATE FUNCTION eq(bool, bool) RETURNS bool LANGUAGE sql AS 'select false';
                    CREATE FUNCTION hidden() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'select 1';
                    SET search_path = plugin_evil, pg_catalog; SET SESSION search_path = plugin_evil, pg_catalog";
    refused(place, disguise, "hidden()").await;
}

/// A later schema.sql of a plugin that already works is refused without touching what is there.
async fn a_hostile_update_leaves_the_plugin_as_it_was(place: Place) {
    let database = place.database().await;
    let works = "CREATE TABLE IF NOT EXISTS items (id int); CREATE TABLE IF NOT EXISTS more (id int)";
    let evil = database.provision("evil", works).await.unwrap();
    let update = format!(
        "{works}; CREATE TABLE added (); CREATE FUNCTION f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'select 1'"
    );
    found_in(database.provision("evil", &update).await, "schema-unsafe");
    assert_eq!(database.tables("plugin_evil").await, ["items", "more"]);
    cardinal::db::connect::connect(&evil.connect)
        .await
        .unwrap()
        .execute("INSERT INTO items VALUES (1)", &[])
        .await
        .unwrap();
}

/// Triggers as such are fine.
async fn a_trigger_on_a_table_of_its_own_alone_passes(place: Place) {
    let database = place.database().await;
    let harmless = "CREATE TABLE notes (id int, at timestamptz);
                    CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'begin new.at := now(); return new; end';
                    CREATE TRIGGER touch BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION touch();
                    CREATE VIEW seen AS SELECT n.id, m.title FROM notes n, public.master_cards m;
                    CREATE MATERIALIZED VIEW counted AS SELECT count(*) FROM notes;
                    CREATE TYPE mood AS ENUM ('ok'); CREATE DOMAIN short AS text CHECK (length(value) < 9)";
    let made = database.provision("good", harmless).await.unwrap();
    let plugin = cardinal::db::connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO notes (id) VALUES (1)", &[]).await.unwrap();
    assert_eq!(plugin.query("SELECT at FROM notes WHERE at IS NOT NULL", &[]).await.unwrap().len(), 1);
    plugin.query("SELECT * FROM seen", &[]).await.unwrap();
}
