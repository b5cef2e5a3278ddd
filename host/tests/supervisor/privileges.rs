//! What each role may and may not do: asked of PostgreSQL itself, as that role.

use cardinal_database::connect;
use tokio_postgres::Client;

use super::{
    database::{Login, Place, found_in},
    everywhere::everywhere,
};

everywhere! {
    the_core_works_on_cards_and_sees_no_plugin
    a_plugin_works_on_its_tables_and_reads_cards
    a_plugins_session_starts_in_its_schema_and_cannot_move_its_defaults
    a_plugin_that_changed_its_password_gets_it_back_by_the_next_step
    a_plugin_that_stores_a_role_for_everybody_stops_nobody_else
    a_plugin_cannot_make_the_core_a_member_that_gains_by_it
    the_schema_role_is_closed_after_its_step
    schema_sql_stays_in_its_schema
    schema_sql_cannot_let_the_core_in
    the_provisioner_sees_neither_cards_nor_plugins_data
    the_provisioner_makes_no_role_but_a_plugins
    the_provisioner_can_remove_a_plugin_whole
    the_reaper_removes_marked_cards_and_does_nothing_else
    a_trigger_off_a_purge_deletes_no_other_card
    logins_get_into_no_other_database
}

const ITEMS: &str = "CREATE TABLE IF NOT EXISTS items (
    id bigserial PRIMARY KEY,
    card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE,
    v text
)";

/// Each in a transaction of its own that is rolled back.
async fn tried(client: &Client, statements: &str) -> Result<(), String> {
    client.batch_execute("BEGIN").await.unwrap();
    let outcome = client.batch_execute(statements).await.map_err(|error| error.to_string());
    client.batch_execute("ROLLBACK").await.unwrap();
    outcome.map(|_| ())
}

async fn may(client: &Client, statements: &[&str]) {
    for statement in statements {
        tried(client, statement).await.unwrap_or_else(|error| panic!("refused: {statement}: {error}"));
    }
}

async fn may_not(client: &Client, statements: &[&str]) {
    for statement in statements {
        assert!(tried(client, statement).await.is_err(), "allowed: {statement}");
    }
}

/// Only a superuser can close that door; where none was asked the log says so.
async fn no_large_objects(place: Place, client: &Client) {
    if place.login != Login::Owner {
        may_not(client, &["SELECT lo_create(0)"]).await;
    }
}

async fn the_core_works_on_cards_and_sees_no_plugin(place: Place) {
    let database = place.database().await;
    database.card("s1").await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let core = database.core().await;
    may(
        &core,
        &[
            "INSERT INTO public.master_cards (id, title, sku) VALUES (gen_random_uuid(), 't', 's2')",
            "UPDATE public.master_cards SET attributes = jsonb_set(attributes, '{sources}', '{\"alpha:1\": {}}'), version = version + 1",
            "UPDATE public.master_cards SET deleted_at = now()",
            "INSERT INTO public.admin_audit_log (actor, action, outcome) VALUES ('{}', 'x', 'ok')",
            "SELECT count(*) FROM public.admin_audit_log",
            "DELETE FROM public.card_source_index",
            "SELECT schema_sha256 FROM public.plugin_schema_state",
        ],
    )
    .await;
    no_large_objects(place, &core).await;
    let become_plugin = format!("SET ROLE {}", alpha.role);
    may_not(
        &core,
        &[
            "DELETE FROM public.master_cards",
            "TRUNCATE public.master_cards CASCADE",
            "UPDATE public.master_cards SET id = gen_random_uuid()",
            "UPDATE public.master_cards SET attributes = '{}'",
            "ALTER TABLE public.master_cards ADD z int",
            "ALTER TABLE public.master_cards DISABLE TRIGGER master_cards_fence_delete",
            "CREATE TABLE public.z ()",
            "CREATE TEMP TABLE z ()",
            "CREATE SCHEMA z",
            "SELECT * FROM plugin_alpha.items",
            "UPDATE public.admin_audit_log SET action = 'y'",
            "DELETE FROM public.admin_audit_log",
            "TRUNCATE public.admin_audit_log",
            "DELETE FROM public.card_history",
            "DELETE FROM public.admin_users",
            "DELETE FROM public.admin_api_keys",
            "UPDATE public.plugin_schema_state SET schema_sha256 = NULL",
            "INSERT INTO public.core_migrations (version, name, checksum, core) VALUES (9, 'x', '', '1')",
            "COPY (SELECT 1) TO PROGRAM 'id'",
            "SELECT pg_read_file('/etc/passwd')",
            &become_plugin,
        ],
    )
    .await;
}

async fn a_plugin_works_on_its_tables_and_reads_cards(place: Place) {
    let database = place.database().await;
    database.card("s1").await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    database.provision("beta", ITEMS).await.unwrap();
    let plugin = connect::connect(&alpha.connect).await.unwrap();
    may(
        &plugin,
        &[
            "INSERT INTO items (card_id, v) SELECT id, 'x' FROM public.master_cards",
            "SELECT m.attributes->'sources' FROM items JOIN public.master_cards m ON m.id = card_id",
            "UPDATE items SET v = 'y'",
            "DELETE FROM items",
        ],
    )
    .await;
    no_large_objects(place, &plugin).await;
    let names = &database.prepared.names;
    let become_role = |role: String| format!("SET ROLE {role}");
    let let_in = format!(
        "GRANT USAGE ON SCHEMA plugin_alpha TO {core}; SELECT 1 / has_schema_privilege('{core}', 'plugin_alpha', 'USAGE')::int",
        core = names.core()
    );
    may_not(
        &plugin,
        &[
            "INSERT INTO public.master_cards (id, title, sku) VALUES (gen_random_uuid(), 't', 's2')",
            "UPDATE public.master_cards SET title = 'x'",
            "DELETE FROM public.master_cards",
            "TRUNCATE public.master_cards CASCADE",
            "LOCK TABLE public.master_cards IN ROW EXCLUSIVE MODE",
            "SELECT * FROM public.master_cards FOR UPDATE",
            "SELECT * FROM public.admin_users",
            "SELECT * FROM public.admin_api_keys",
            "SELECT * FROM public.admin_sessions",
            "SELECT * FROM public.admin_audit_log",
            "SELECT * FROM public.card_source_index",
            "SELECT * FROM public.card_history",
            "SELECT * FROM public.plugin_state",
            "SELECT * FROM public.plugin_schema_state",
            "SELECT * FROM plugin_beta.items",
            "DROP TABLE items",
            "ALTER TABLE items ADD z int",
            "CREATE TABLE z ()",
            "CREATE TEMP TABLE z ()",
            "CREATE SCHEMA z",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'",
            "CREATE TRIGGER t AFTER DELETE ON items FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "TRUNCATE items",
            "CREATE EXTENSION dblink",
            "COPY (SELECT 1) TO PROGRAM 'id'",
            "SELECT pg_read_file('/etc/passwd')",
            &become_role(names.core()),
            &become_role(names.owner()),
            &become_role(names.reaper()),
            &become_role(names.provision()),
            &become_role(names.plugin_schema("alpha")),
            &become_role(names.plugin_runtime("beta")),
            &let_in,
        ],
    )
    .await;
}

async fn a_plugins_session_starts_in_its_schema_and_cannot_move_its_defaults(place: Place) {
    let database = place.database().await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let plugin = connect::connect(&alpha.connect).await.unwrap();
    let hijack = "ALTER ROLE CURRENT_USER SET search_path = public; ALTER ROLE CURRENT_USER SET statement_timeout = 0";
    plugin.batch_execute(hijack).await.unwrap();
    let again = connect::connect(&alpha.connect).await.unwrap();
    let settings = "SELECT current_setting('search_path'), current_setting('statement_timeout')";
    let row = again.query_one(settings, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), ("plugin_alpha,pg_temp".to_owned(), "15s".to_owned()));
}

async fn a_plugin_that_changed_its_password_gets_it_back_by_the_next_step(place: Place) {
    let database = place.database().await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let plugin = connect::connect(&alpha.connect).await.unwrap();
    plugin.batch_execute("ALTER ROLE CURRENT_USER PASSWORD 'mine'").await.unwrap();
    assert!(connect::connect(&alpha.connect).await.is_err());
    database.provision("alpha", ITEMS).await.unwrap();
    connect::connect(&alpha.connect).await.unwrap();
}

/// PostgreSQL lets no function that runs with its owner's rights touch a stored `role`, nor reset all settings beside
/// one.
async fn a_plugin_that_stores_a_role_for_everybody_stops_nobody_else(place: Place) {
    let database = place.database().await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let plugin = connect::connect(&alpha.connect).await.unwrap();
    let group = database.prepared.names.plugin();
    for (role, setting) in
        [(group.as_str(), "role"), ("CURRENT_USER", "role"), (group.as_str(), "work_mem"), ("CURRENT_USER", "work_mem")]
    {
        let value = if setting == "role" { group.as_str() } else { "64kB" };
        // Not each server lets a member alter its group.
        let _ = plugin.batch_execute(&format!("SET ROLE {group}; ALTER ROLE {role} SET {setting} = '{value}'")).await;
        plugin.batch_execute(&format!("RESET ROLE; ALTER ROLE CURRENT_USER SET {setting} = '{value}'")).await.unwrap();
    }
    // All the time, while others have their steps.
    let changing = connect::connect(&alpha.connect).await.unwrap();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let change = format!(
        "SET ROLE {group}; BEGIN; ALTER ROLE {group} SET work_mem = '1MB'; SELECT pg_sleep(0.05); COMMIT; RESET ROLE"
    );
    let change =
        tokio::spawn(
            async move { while stopped.try_recv().is_err() && changing.batch_execute(&change).await.is_ok() {} },
        );
    for number in 0..3 {
        let file = format!("{ITEMS}; CREATE TABLE IF NOT EXISTS more_{number} (v int)");
        database.provision("beta", &file).await.unwrap();
    }
    let _ = stop.send(());
    change.await.unwrap();
    match place.login {
        Login::Plain => database.run_script_again().await,
        Login::Superuser | Login::Owner => database.start_again().await,
    }
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let stored =
        "SELECT array_agg(r.rolname || ': ' || c) FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole,
                  unnest(s.setconfig) c WHERE r.rolname = ANY ($1) AND (c LIKE 'role=%' OR c LIKE 'work_mem=64kB')";
    let roles = [alpha.role.clone()];
    let left = database.admin().await.query_one(stored, &[&&roles[..]]).await.unwrap();
    assert_eq!(left.get::<_, Option<Vec<String>>>(0), None);
    let again = connect::connect(&alpha.connect).await.unwrap();
    again.query("SELECT * FROM items", &[]).await.unwrap();
}

async fn a_plugin_cannot_make_the_core_a_member_that_gains_by_it(place: Place) {
    let database = place.database().await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let plugin = connect::connect(&alpha.connect).await.unwrap();
    let core = database.prepared.names.core();
    assert!(plugin.batch_execute(&format!("GRANT {} TO {core}", alpha.role)).await.is_err());
    // Nor if an administrator did.
    database.admin().await.batch_execute(&format!("GRANT {} TO {core}", alpha.role)).await.unwrap();
    may_not(&database.core().await, &["SELECT * FROM plugin_alpha.items"]).await;
}

async fn the_schema_role_is_closed_after_its_step(place: Place) {
    let database = place.database().await;
    database.provision("alpha", ITEMS).await.unwrap();
    let role = database.prepared.names.plugin_schema("alpha");
    assert!(connect::connect(&database.login(&role)).await.is_err());
    found_in(database.provision("alpha", "SELECT 1/0").await, "schema-failed");
    assert!(connect::connect(&database.login(&role)).await.is_err());
}

async fn schema_sql_stays_in_its_schema(place: Place) {
    let database = place.database().await;
    database.provision("alpha", ITEMS).await.unwrap();
    let core = database.prepared.names.core();
    let provision = database.prepared.names.provision();
    for statement in [
        "CREATE TABLE public.z ()",
        "UPDATE public.master_cards SET title = 'x'",
        "DELETE FROM public.master_cards",
        "SELECT * FROM public.admin_users",
        "CREATE TABLE z (u uuid REFERENCES public.admin_users)",
        "DROP SCHEMA plugin_alpha CASCADE",
        &format!("ALTER SCHEMA plugin_alpha OWNER TO {core}"),
        &format!("SET ROLE {provision}"),
        &format!("SET SESSION AUTHORIZATION {core}"),
        "CREATE SCHEMA z",
        "CREATE TEMP TABLE z ()",
        "CREATE EXTENSION dblink",
        "CREATE ROLE z",
        "CREATE TRIGGER t BEFORE UPDATE ON public.master_cards FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "LOCK TABLE public.master_cards IN SHARE MODE",
        "COPY items FROM PROGRAM 'id'",
    ] {
        found_in(database.provision("alpha", statement).await, "schema-unsafe");
    }
    assert_eq!(database.tables("plugin_alpha").await, ["items"]);
}

async fn schema_sql_cannot_let_the_core_in(place: Place) {
    let database = place.database().await;
    database.provision("alpha", ITEMS).await.unwrap();
    let core = database.prepared.names.core();
    let grant = format!("GRANT USAGE ON SCHEMA plugin_alpha TO {core}");
    found_in(database.provision("alpha", &grant).await, "schema-unsafe");
    may_not(&database.core().await, &["SELECT * FROM plugin_alpha.items"]).await;
}

async fn the_provisioner_sees_neither_cards_nor_plugins_data(place: Place) {
    let database = place.database().await;
    database.provision("alpha", ITEMS).await.unwrap();
    let provisioner = database.provisioner().await;
    may_not(&provisioner, &["SELECT * FROM public.master_cards", "SELECT * FROM plugin_alpha.items"]).await;
}

/// What it may do about roles is a function that makes plugins' roles and nothing else.
async fn the_provisioner_makes_no_role_but_a_plugins(place: Place) {
    let database = place.database().await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let names = &database.prepared.names;
    let provisioner = database.provisioner().await;
    let core = names.core();
    may_not(
        &provisioner,
        &[
            "CREATE ROLE z",
            &format!("ALTER ROLE {core} PASSWORD 'x'"),
            &format!("ALTER ROLE {} SUPERUSER", alpha.role),
            &format!("DROP ROLE {}", alpha.role),
            &format!("GRANT pg_execute_server_program TO {}", names.provision()),
            &format!("GRANT {} TO {}", names.plugin_schema("alpha"), names.provision()),
            &format!("GRANT {} TO {}", names.role_maker(), names.provision()),
            &format!("SET ROLE {}", names.role_maker()),
            &format!("SET ROLE {}", alpha.role),
            "SELECT cardinal.plugin_role('s', 'alpha')",
            "SELECT cardinal.make_plugin_roles('../x', true, 'SCRAM-SHA-256$', 'SCRAM-SHA-256$')",
            "SELECT cardinal.make_plugin_roles('x LOGIN SUPERUSER', true, 'SCRAM-SHA-256$', 'SCRAM-SHA-256$')",
            "SELECT cardinal.make_plugin_roles(NULL, true, 'SCRAM-SHA-256$', 'SCRAM-SHA-256$')",
            "SELECT cardinal.make_plugin_roles('alpha', true, 'plain', 'plain')",
            "SELECT cardinal.make_plugin_roles('alpha', true, NULL, NULL)",
            "CREATE OR REPLACE FUNCTION cardinal.plugin_role(kind text, plugin text) RETURNS name LANGUAGE sql AS 'select ''postgres''::name'",
            "CREATE FUNCTION cardinal.f() RETURNS int LANGUAGE sql AS 'select 1'",
        ],
    )
    .await;
    let plugin = connect::connect(&alpha.connect).await.unwrap();
    for client in [&plugin, &database.core().await, &database.reaper().await] {
        may_not(client, &["SELECT cardinal.close_plugin_login('alpha')", "SELECT cardinal.drop_plugin_roles('alpha')"])
            .await;
    }
}

async fn the_provisioner_can_remove_a_plugin_whole(place: Place) {
    let database = place.database().await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    let schema_role = database.prepared.names.plugin_schema("alpha");
    let provisioner = database.provisioner().await;
    provisioner
        .batch_execute("DROP SCHEMA plugin_alpha CASCADE; SELECT cardinal.drop_plugin_roles('alpha')")
        .await
        .unwrap();
    assert!(!database.has_role(&schema_role).await && !database.has_role(&alpha.role).await);
}

async fn the_reaper_removes_marked_cards_and_does_nothing_else(place: Place) {
    let database = place.database().await;
    let (kept, deleted) = (database.card("kept").await, database.card("marked").await);
    let index = "INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes) VALUES ($1, 'a:1', 'a', 'k', 1)";
    let core = database.core().await;
    core.execute(index, &[&deleted]).await.unwrap();
    core.execute("UPDATE public.master_cards SET deleted_at = now() WHERE id = $1", &[&deleted]).await.unwrap();
    let reaper = database.reaper().await;
    may_not(
        &reaper,
        &[
            "SELECT title FROM public.master_cards",
            "UPDATE public.master_cards SET deleted_at = now()",
            "DELETE FROM public.master_cards WHERE deleted_at IS NULL",
            "DELETE FROM public.master_cards",
            "SELECT * FROM public.admin_users",
            "SELECT * FROM public.card_source_index",
            "CREATE TABLE public.z ()",
        ],
    )
    .await;
    let purged = reaper.execute("DELETE FROM public.master_cards WHERE id = $1", &[&deleted]).await.unwrap();
    assert_eq!(purged, 1);
    let left = core.query("SELECT id FROM public.master_cards", &[]).await.unwrap();
    assert_eq!(left.iter().map(|row| row.get::<_, uuid::Uuid>(0)).collect::<Vec<_>>(), [kept]);
    // What belongs to the card went with it.
    assert_eq!(core.query("SELECT 1 FROM public.card_source_index", &[]).await.unwrap().len(), 0);
}

/// A trigger that got past the refusals (put there by the administrator) runs as the reaper before PostgreSQL 18.
async fn a_trigger_off_a_purge_deletes_no_other_card(place: Place) {
    for deferred in ["", "DEFERRABLE INITIALLY DEFERRED"] {
        let database = place.database().await;
        let alpha = database.provision("alpha", ITEMS).await.unwrap();
        let (purged, _other) = (database.card("one").await, database.card("two").await);
        let plugin = connect::connect(&alpha.connect).await.unwrap();
        plugin.execute("INSERT INTO items (card_id) VALUES ($1)", &[&purged]).await.unwrap();
        database.core().await.execute("UPDATE public.master_cards SET deleted_at = now()", &[]).await.unwrap();
        let admin = database.admin().await;
        let kind = if deferred.is_empty() { "TRIGGER" } else { "CONSTRAINT TRIGGER" };
        admin
            .batch_execute(&format!(
                "CREATE FUNCTION plugin_alpha.wipe() RETURNS trigger LANGUAGE plpgsql AS
                   'begin execute ''reset role''; delete from public.master_cards; return null; end';
                 CREATE {kind} wipe AFTER DELETE ON plugin_alpha.items {deferred} FOR EACH ROW EXECUTE FUNCTION plugin_alpha.wipe()"
            ))
            .await
            .unwrap();
        let reaper = database.reaper().await;
        assert!(reaper.execute("DELETE FROM public.master_cards WHERE id = $1", &[&purged]).await.is_err());
        assert_eq!(admin.query("SELECT 1 FROM public.master_cards", &[]).await.unwrap().len(), 2);
        admin.batch_execute("DROP TRIGGER wipe ON plugin_alpha.items").await.unwrap();
        reaper.execute("DELETE FROM public.master_cards WHERE id = $1", &[&purged]).await.unwrap();
    }
}

async fn logins_get_into_no_other_database(place: Place) {
    let database = place.database().await;
    let alpha = database.provision("alpha", ITEMS).await.unwrap();
    for dbname in ["postgres", "template1"] {
        for login in [alpha.connect.clone(), database.login(&database.prepared.names.core())] {
            let elsewhere = connect::ConnectParams { dbname: dbname.to_owned(), ..login };
            assert!(connect::connect(&elsewhere).await.is_err(), "{} got into {dbname}", elsewhere.user);
        }
    }
}
