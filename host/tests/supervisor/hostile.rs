//! Hostile schemas: the files of `tests/schemas/` held against the reader, and things made by hand held against the
//! look at the catalog. Neither may leave anything behind, and no role may have gained a right.

use cardinal_control::link::{PluginDatabase, ProvisionFault};
use cardinal_database::connect;
use cardinal_schema::plugin_schema::{
    Step,
    catalog::{self, UnlistedObject},
    drop_object::DropOutcome,
};
use tokio_postgres::{Client, GenericClient};

use super::{
    database::{Database, Place, found_in},
    everywhere::everywhere,
};

everywhere! {
    refused_files_leave_nothing
    everything_on_the_list_works
    what_only_the_catalog_shows_is_found
    an_older_schema_with_a_function_is_named_and_not_served
    what_comes_about_after_the_commit_is_not_let_in
    a_hostile_update_leaves_the_plugin_as_it_was
    a_view_reads_with_the_rights_of_who_asks
}

const REFUSED: &str = include_str!("../../../tests/schemas/refused.sql");
const STATEMENTS: &str = include_str!("../../../tests/schemas/statements.sql");
const WORKING: &str = include_str!("../../../tests/schemas/working.sql");
const UNKNOWN: &str = include_str!("../../../tests/schemas/unknown.sql");
const DROP: &str = include_str!("../../../sql/plugin_drop.sql");

const ITEMS: &str =
    "CREATE TABLE items (id int, v text, card_id uuid REFERENCES public.master_cards ON DELETE CASCADE);
                     CREATE TABLE keyed (id int PRIMARY KEY)";

/// Of the hostile files one in so many is tried as an update, too.
const UPDATES_STEP: usize = 20;

/// The cases of a file: what is expected, and the SQL behind it.
fn cases(file: &str) -> Vec<(&str, &str)> {
    file.split("\n-- ").skip(1).map(|case| case.split_once('\n').unwrap()).collect()
}

/// Every right, membership, owner, attribute and setting of roles that the database knows, by name.
pub(crate) async fn rights(admin: &impl GenericClient) -> Vec<String> {
    let rows = admin
        .query(
            "SELECT 'relation ' || oid::regclass || ' ' || relowner::regrole || ' ' || coalesce(relacl::text, '') FROM pg_class
               WHERE relnamespace::regnamespace::text NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
             UNION ALL SELECT 'column ' || attrelid::regclass || attname || attacl::text FROM pg_attribute WHERE attacl IS NOT NULL
             UNION ALL SELECT 'function ' || oid::regprocedure || ' ' || proowner::regrole || ' ' || prosecdef || coalesce(proacl::text, '')
               FROM pg_proc WHERE oid >= 16384 OR proacl IS NOT NULL
             UNION ALL SELECT 'type ' || oid::regtype || ' ' || typowner::regrole || coalesce(typacl::text, '') FROM pg_type WHERE oid >= 16384
             UNION ALL SELECT 'schema ' || nspname || ' ' || nspowner::regrole || ' ' || coalesce(nspacl::text, '') FROM pg_namespace
             UNION ALL SELECT 'database ' || datname || ' ' || datdba::regrole || ' ' || coalesce(datacl::text, '') FROM pg_database
               WHERE datname = current_database()
             UNION ALL SELECT 'default ' || defaclrole::regrole || defaclobjtype::text || defaclacl::text FROM pg_default_acl
             UNION ALL SELECT 'cast ' || castsource::regtype || ' ' || casttarget::regtype FROM pg_cast WHERE oid >= 16384
             UNION ALL SELECT 'trigger ' || tgrelid::regclass || ' ' || tgname FROM pg_trigger WHERE NOT tgisinternal
             UNION ALL SELECT 'member ' || roleid::regrole || ' ' || member::regrole || ' ' || admin_option FROM pg_auth_members
             UNION ALL SELECT 'role ' || rolname || ' ' || concat_ws(',', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin,
               rolreplication, rolbypassrls, rolconnlimit, rolvaliduntil) FROM pg_roles
             UNION ALL SELECT 'setting of ' || coalesce(setrole::regrole::text, '') || ' ' || setconfig::text
               FROM pg_db_role_setting WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
             UNION ALL SELECT 'event trigger ' || evtname || ' ' || evtowner::regrole || evtenabled::text FROM pg_event_trigger
             UNION ALL SELECT 'parameter ' || parname || ' ' || acl::text FROM pg_parameter_acl, unnest(paracl) AS acl
             UNION ALL SELECT 'publication ' || pubname FROM pg_publication
             UNION ALL SELECT 'policy ' || polrelid::regclass || ' ' || polname FROM pg_policy
             UNION ALL SELECT 'rule ' || ev_class::regclass || ' ' || rulename FROM pg_rewrite WHERE oid >= 16384
             UNION ALL SELECT 'extension ' || extname FROM pg_extension
             UNION ALL SELECT 'large object ' || oid FROM pg_largeobject_metadata
             ORDER BY 1",
            &[],
        )
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Rights of this database's own roles: other tests work beside this one on the same server.
pub(crate) fn own(database: &Database, rights: Vec<String>) -> Vec<String> {
    let prefix = database.prepared.names.core();
    let prefix = prefix.trim_end_matches("core").to_owned();
    let is_shared =
        |line: &str| ["member ", "role ", "setting of ", "parameter "].iter().any(|kind| line.starts_with(kind));
    rights.into_iter().filter(|line| !is_shared(line) || line.contains(&prefix)).collect()
}

async fn refused_files_leave_nothing(place: Place) {
    let database = place.database().await;
    let admin = database.admin().await;
    database.provision("good", ITEMS).await.unwrap();
    let before = own(&database, rights(&admin).await);
    // After each file on one server; the query of all rights takes too long for all of them.
    let each = place.is_newest();
    let files = cases(REFUSED).into_iter().map(|(_, sql)| sql).chain(STATEMENTS.lines());
    for sql in files {
        // Behind something that would show.
        let sql = format!("CREATE TABLE shown (a int); {sql}");
        match database.provision("x", &sql).await {
            Err(ProvisionFault::Refused { code, found, fix, .. }) => {
                assert!(code == "schema-unsafe" || code == "schema-failed", "{sql}: {code}");
                assert!(found.contains("line ") && !fix.is_empty(), "{sql}: {found}");
            }
            other => panic!("{sql}: {other:?}"),
        }
        if each {
            assert_eq!(own(&database, rights(&admin).await), before, "{sql}");
        }
    }
    assert_eq!(own(&database, rights(&admin).await), before);
    assert!(!database.has_role(&database.prepared.names.plugin_runtime("x")).await);
    assert!(!database.has_role(&database.prepared.names.plugin_schema("x")).await);
    assert!(database.tables("plugin_x").await.is_empty());
}

async fn everything_on_the_list_works(place: Place) {
    let database = place.database().await;
    let made = database.provision_patiently("x", WORKING).await.unwrap_or_else(|fault| panic!("{fault:?}"));
    let (card, other) = (database.card("a").await, database.card("b").await);
    let plugin = connect::connect(&made.connect).await.unwrap();
    let insert = "INSERT INTO items (card_id, price, mark) VALUES ($1, 2, 'Mark') RETURNING weekday, number, name";
    let row = plugin.query_one(insert, &[&card]).await.unwrap();
    assert_eq!((row.get::<_, String>(0), row.get::<_, i32>(1)), ("MARK".to_owned(), 105));
    plugin.execute("INSERT INTO spare (other_id) VALUES ($1)", &[&other]).await.unwrap();
    plugin.execute("INSERT INTO parents (id, v, card_id) VALUES (7, 'seven', $1)", &[&other]).await.unwrap();
    plugin.query("SELECT * FROM seen", &[]).await.unwrap();
    plugin.query("SELECT * FROM odd", &[]).await.unwrap();
    plugin
        .batch_execute("INSERT INTO parts VALUES (1, 'a'), (1000, 'z'); INSERT INTO plainer VALUES (8, 'x')")
        .await
        .unwrap();
    // The one card is gone with its row, the other leaves a row without it.
    let reaper = database.reaper().await;
    for id in [other, card] {
        let gone = "UPDATE public.master_cards SET deleted_at = now() WHERE id = $1";
        database.core().await.execute(gone, &[&id]).await.unwrap();
        reaper.execute("DELETE FROM public.master_cards WHERE id = $1", &[&id]).await.unwrap();
        let left: i64 =
            plugin.query_one("SELECT count(*) FROM spare WHERE other_id IS NULL", &[]).await.unwrap().get(0);
        assert_eq!(left, 1);
        let items: i64 = plugin.query_one("SELECT count(*) FROM items", &[]).await.unwrap().get(0);
        assert_eq!(items, i64::from(id == other));
    }
    let validated = "SELECT bool_and(convalidated) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'plugin_x'::regnamespace";
    assert!(database.admin().await.query_one(validated, &[]).await.unwrap().get::<_, bool>(0));
    // A later file, over what is there.
    let more = "ALTER TABLE items ADD COLUMN IF NOT EXISTS later size; CREATE INDEX ON items (later); CREATE TABLE IF NOT EXISTS more (m mood)";
    database.provision_patiently("x", more).await.unwrap_or_else(|fault| panic!("{fault:?}"));
}

async fn look(database: &Database, session: &impl GenericClient, plugin: &str) -> Vec<UnlistedObject> {
    let names = &database.prepared.names;
    session.batch_execute("SET LOCAL search_path = pg_catalog, pg_temp").await.unwrap();
    let schema = format!("plugin_{plugin}");
    let roles = [names.plugin_schema(plugin), names.plugin_runtime(plugin)];
    let questions = catalog::Questions::prepare(session).await.unwrap();
    catalog::unknown(session, &questions, &schema, &roles).await.unwrap()
}

async fn what_only_the_catalog_shows_is_found(place: Place) {
    let database = place.database().await;
    database.provision("evil", ITEMS).await.unwrap();
    let names = &database.prepared.names;
    let mut admin = database.admin().await;
    let tx = admin.transaction().await.unwrap();
    assert_eq!(look(&database, &tx, "evil").await, []);
    tx.rollback().await.unwrap();
    let mut droppable = 0;
    for (expected, sql) in cases(UNKNOWN) {
        let fill = |text: &str| {
            text.replace("{core}", &names.core())
                .replace("{runtime}", &names.plugin_runtime("evil"))
                .replace("{schema}", &names.plugin_schema("evil"))
        };
        let (expected, by_superuser) = match expected.strip_suffix(" as superuser") {
            Some(expected) => (fill(expected), true),
            None => (fill(expected), false),
        };
        let tx = admin.transaction().await.unwrap();
        database.open_fence(&tx).await;
        let as_role = format!(
            "GRANT USAGE, CREATE ON SCHEMA plugin_evil TO {role}; GRANT USAGE ON SCHEMA public TO {role};
             GRANT SELECT, REFERENCES (id) ON public.master_cards TO {role};
             SET LOCAL ROLE {role}; SET LOCAL search_path = plugin_evil, pg_temp",
            role = names.plugin_schema("evil")
        );
        if !by_superuser {
            tx.batch_execute(&as_role).await.unwrap();
        }
        tx.batch_execute(&fill(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        tx.batch_execute("RESET ROLE").await.unwrap();
        let found = look(&database, &tx, "evil").await;
        let named: Vec<String> = found.iter().map(ToString::to_string).collect();
        let is_found = |line: &String| line.starts_with(&expected) || line.contains(&format!(": {expected}"));
        assert!(named.iter().any(is_found), "{expected} is not among {named:#?}\n{sql}");
        if let Some(object) = found.iter().find_map(|it| it.object.filter(|_| is_found(&it.to_string()))) {
            let drop = tx.query_one(DROP, &[&object.class, &object.object]).await.unwrap().get::<_, String>(0);
            tx.batch_execute(&format!("{drop} CASCADE")).await.unwrap_or_else(|error| panic!("{drop}: {error:?}"));
            droppable += 1;
        }
        tx.rollback().await.unwrap();
    }
    assert!(cases(UNKNOWN).len() > 60 && droppable > 25, "{droppable}");
}

/// What a host before this one let through: the plugin is not served, its rows stay, and it is served again once an
/// administrator has taken the thing away.
async fn an_older_schema_with_a_function_is_named_and_not_served(place: Place) {
    let database = place.database().await;
    let made = database.provision("old", ITEMS).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    session.execute("INSERT INTO items VALUES (1)", &[]).await.unwrap();
    let admin = database.admin().await;
    let owner = database.prepared.names.plugin_schema("old");
    let function = format!(
        "CREATE FUNCTION plugin_old.touch() RETURNS trigger LANGUAGE plpgsql AS 'begin return new; end';
         ALTER FUNCTION plugin_old.touch() OWNER TO {owner};
         CREATE TRIGGER touch BEFORE INSERT ON plugin_old.items FOR EACH ROW EXECUTE FUNCTION plugin_old.touch()"
    );
    admin.batch_execute(&function).await.unwrap();
    for schema_sql in [ITEMS, "CREATE TABLE IF NOT EXISTS more (a int)"] {
        let refused = database.provision("old", schema_sql).await;
        let Err(ProvisionFault::Refused { code, found, fix, .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!(code, "schema-unsafe");
        assert!(found.contains("a function: plugin_old.touch()") && found.contains("a trigger: touch on"), "{found}");
        assert!(fix.contains("Rust") && fix.contains("cardinal database drop-object old"), "{fix}");
        assert!(is_shut_out(&database, "old").await, "{schema_sql}");
        let_in_again(&database, "old").await;
    }
    database.provision("old", ITEMS).await.unwrap_err();
    assert!(session.batch_execute("SELECT 1").await.is_err(), "its sessions are ended");
    assert_eq!(database.tables("plugin_old").await, ["items", "keyed"]);
    let provisioner = database.login(&database.prepared.names.provision());
    drop_what_is_refused(&database.step(&provisioner, "old", "")).await;
    let made = database.provision("old", ITEMS).await.unwrap();
    let plugin = connect::connect(&made.connect).await.unwrap();
    assert_eq!(plugin.query("SELECT * FROM items", &[]).await.unwrap().len(), 1);
}

/// Object by object, as `cardinal database drop-object` does it.
async fn drop_what_is_refused(step: &Step<'_>) {
    let needed = step.drop_object("plugin_old.touch()", false).await.unwrap();
    let DropOutcome::HasDependents(dependents) = needed else { panic!("{needed:?}") };
    assert!(
        dependents.len() == 1 && dependents[0].starts_with("trigger touch on table plugin_old.items"),
        "{dependents:?}"
    );
    for known in ["plugin_old.items", "items", "plugin_old.items; DROP SCHEMA public", "a function: plugin_old.other()"]
    {
        step.drop_object(known, true).await.unwrap_err();
    }
    let refused = step.unknown_objects().await.unwrap();
    let named: Vec<String> = refused.iter().map(ToString::to_string).collect();
    assert!(named[0].starts_with("a trigger: ") && named.iter().any(|it| it.starts_with("a function: ")), "{named:?}");
    for unknown in refused.iter().filter(|it| it.object.is_some()) {
        let dropped = step.drop_object(&unknown.to_string(), false).await.unwrap();
        assert!(matches!(&dropped, DropOutcome::Dropped { dependents, .. } if dependents.is_empty()), "{dropped:?}");
    }
    assert_eq!(step.unknown_objects().await.unwrap(), []);
    let nobody = Step { plugin: "nobody", ..*step };
    assert!(format!("{:#}", nobody.unknown_objects().await.unwrap_err()).contains("no schema of a plugin nobody"));
    nobody.drop_object("a function: f()", true).await.unwrap_err();
}

/// Whether the run-time role neither logs in nor gets into its schema.
async fn is_shut_out(database: &Database, plugin: &str) -> bool {
    let sql = "SELECT NOT rolcanlogin AND NOT has_schema_privilege(oid, $2, 'USAGE') FROM pg_roles WHERE rolname = $1";
    let (role, schema) = (database.prepared.names.plugin_runtime(plugin), format!("plugin_{plugin}"));
    database.admin().await.query_one(sql, &[&role, &schema]).await.unwrap().get(0)
}

/// As a host that did not look left it.
async fn let_in_again(database: &Database, plugin: &str) {
    let role = database.prepared.names.plugin_runtime(plugin);
    let open = format!("ALTER ROLE {role} LOGIN; GRANT USAGE ON SCHEMA plugin_{plugin} TO {role}");
    database.admin().await.batch_execute(&open).await.unwrap();
}

/// The look within the transaction has found nothing, and the one at the committed state does.
async fn what_comes_about_after_the_commit_is_not_let_in(place: Place) {
    let database = place.database().await;
    database.provision("old", ITEMS).await.unwrap();
    for plugin in ["new", "old"] {
        let linked = "CREATE TABLE linked (card_id uuid REFERENCES public.master_cards (id))";
        let (refused, ()) =
            tokio::join!(database.provision(plugin, linked), make_function_behind_commit(&database, plugin));
        let found = found_in(refused, "schema-unsafe");
        assert!(found.contains(&format!("a function: plugin_{plugin}.late()")), "{found}");
    }
    // A first step is undone; what had data before keeps it, and is closed.
    assert!(database.tables("plugin_new").await.is_empty());
    assert!(!database.has_role(&database.prepared.names.plugin_runtime("new")).await);
    assert_eq!(database.tables("plugin_old").await, ["items", "keyed", "linked"]);
    assert!(is_shut_out(&database, "old").await);
    database.admin().await.batch_execute("DROP FUNCTION plugin_old.late()").await.unwrap();
    serves(&database.provision("old", ITEMS).await.unwrap()).await;
}

/// Holds the step before its keys, then between its commit and its look at what was committed.
async fn make_function_behind_commit(database: &Database, plugin: &str) {
    let (holder, role, admin) = (database.provisioner().await, database.admin().await, database.admin().await);
    holder.batch_execute("BEGIN; LOCK TABLE public.plugin_schema_state IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
    until_somebody_waits_for(&admin, &holder).await;
    let schema_role = database.prepared.names.plugin_schema(plugin);
    role.batch_execute(&format!("BEGIN; ALTER ROLE {schema_role} CONNECTION LIMIT 4")).await.unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
    until_somebody_waits_for(&admin, &role).await;
    let function = format!("CREATE FUNCTION plugin_{plugin}.late() RETURNS int LANGUAGE sql AS 'select 1'");
    admin.batch_execute(&function).await.unwrap();
    role.batch_execute("ROLLBACK").await.unwrap();
}

async fn until_somebody_waits_for(admin: &Client, blocker: &Client) {
    let backend = connect::backend_pid(blocker).await.unwrap();
    let waiting = "SELECT FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid))";
    while admin.query(waiting, &[&backend]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// A later schema.sql of a plugin that already works is refused without touching what is there.
async fn a_hostile_update_leaves_the_plugin_as_it_was(place: Place) {
    let database = place.database().await;
    let works = "CREATE TABLE IF NOT EXISTS items (id int); CREATE TABLE IF NOT EXISTS more (id int)";
    let evil = database.provision("evil", works).await.unwrap();
    let admin = database.admin().await;
    let before = own(&database, rights(&admin).await);
    let update = format!("{works}; CREATE TABLE added (); CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'");
    found_in(database.provision("evil", &update).await, "schema-unsafe");
    assert_eq!(database.tables("plugin_evil").await, ["items", "more"]);
    // What PostgreSQL itself refuses, and what is refused before anything runs.
    let hostile = cases(REFUSED).into_iter().map(|(_, sql)| sql).step_by(UPDATES_STEP);
    for sql in hostile.chain(["SELECT 1/0", "CREATE TABLE items (id int)"]) {
        database.provision("evil", &format!("{works}; {sql}")).await.unwrap_err();
        assert_eq!(own(&database, rights(&admin).await), before, "{sql}");
    }
    serves(&evil).await;
}

async fn serves(plugin: &PluginDatabase) {
    let session = connect::connect(&plugin.connect).await.unwrap();
    session.execute("INSERT INTO items (id) VALUES (1)", &[]).await.unwrap();
}

async fn a_view_reads_with_the_rights_of_who_asks(place: Place) {
    let database = place.database().await;
    database.provision("x", "CREATE TABLE items (id int); CREATE VIEW v AS SELECT * FROM items").await.unwrap();
    let admin = database.admin().await;
    let options = "SELECT reloptions::text FROM pg_class WHERE oid = 'plugin_x.v'::regclass";
    assert_eq!(admin.query_one(options, &[]).await.unwrap().get::<_, String>(0), "{security_invoker=true}");
}
