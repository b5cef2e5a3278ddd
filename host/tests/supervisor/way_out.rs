//! What a plugin's code can do that got past every check of schema.sql: made here by hand, as the schema role.

use std::time::Duration;

use cardinal_database::{connect, pool::Pools};
use cardinal_schema::{
    isolation::{self, Isolation, Violation},
    prepare,
};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{
    database::{Database, Login, Place, secret},
    everywhere::everywhere,
};

everywhere! {
    a_cast_in_a_foreign_key_runs_as_a_role_that_can_do_nothing
    a_deferred_trigger_of_a_check_changes_nothing_either
    a_referential_action_makes_nothing_after_the_step
    a_closed_schema_role_keeps_what_its_tables_need
    a_session_of_the_schema_role_is_ended_with_its_step
    a_step_ends_what_one_before_it_left
    a_plugin_cannot_keep_its_data_from_being_dropped
    a_schema_role_that_was_left_open_is_closed_at_the_next_start
    cards_of_an_older_version_get_their_role
}

/// As the reader and the look at the catalog refuse it: the key is cast by a function of the plugin's, which runs any
/// SQL.
const DOOR: &str = "CREATE TYPE cmd AS (q text, id uuid);
    CREATE FUNCTION run(c cmd) RETURNS uuid LANGUAGE plpgsql AS 'begin execute c.q; return c.id; end';
    CREATE CAST (cmd AS uuid) WITH FUNCTION run(cmd) AS IMPLICIT;
    CREATE TABLE door (c cmd REFERENCES public.master_cards (id));
    CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end';
    GRANT ALL ON door TO PUBLIC";

/// A plugin whose schema role has run these statements in its step, with no check of the host's.
async fn made_by_hand(database: &Database, statements: &str) -> Client {
    let made = database.provision("evil", "").await.unwrap();
    let provisioner = database.login(&database.prepared.names.provision());
    let step = database.step(&provisioner, "evil", "");
    let (writer, closer) = step.writer().await.unwrap();
    writer.batch_execute("SET search_path = plugin_evil").await.unwrap();
    writer.batch_execute(statements).await.unwrap();
    let grant = format!("GRANT ALL ON ALL TABLES IN SCHEMA plugin_evil TO {}", made.role);
    writer.batch_execute(&grant).await.unwrap();
    step.close_writer(&closer).await.unwrap();
    connect::connect(&made.connect).await.unwrap()
}

fn code(error: &tokio_postgres::Error) -> String {
    let message = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    format!("{} {}", message.code().code(), message.message())
}

async fn a_cast_in_a_foreign_key_runs_as_a_role_that_can_do_nothing(place: Place) {
    let database = place.database().await;
    let card = database.card("s1").await;
    let plugin = made_by_hand(&database, DOOR).await;
    let names = &database.prepared.names;
    let through = async |sql: &str| {
        let insert = "INSERT INTO door VALUES (ROW($1::text, $2::uuid)::cmd)";
        plugin.execute(insert, &[&sql, &card]).await.map_err(|error| code(&error))
    };

    let who = "DO $$ BEGIN RAISE EXCEPTION 'runs as %', current_user; END $$";
    let message = through(who).await.unwrap_err();
    assert!(message.ends_with(&format!("runs as {}", names.cards())), "{message}");
    assert_eq!(through("SELECT id FROM public.master_cards").await, Ok(1), "the door works");

    let runtime = names.plugin_runtime("evil");
    let sealed: Vec<String> = [
        // What the core keeps.
        "SELECT password_hash FROM public.admin_users",
        "SELECT key_hash FROM public.admin_api_keys",
        "SELECT id FROM public.admin_sessions",
        "SELECT actor FROM public.admin_audit_log",
        "SELECT sealed FROM public.plugin_state",
        "SELECT version FROM public.core_migrations",
        "INSERT INTO public.admin_api_keys (id) VALUES (gen_random_uuid())",
        "UPDATE public.admin_users SET password_hash = NULL",
        "DELETE FROM public.admin_audit_log",
        "UPDATE public.plugin_owners SET plugin = plugin",
        // Cards, of which a key's check sees the id.
        "SELECT title FROM public.master_cards",
        "INSERT INTO public.master_cards (id, title, sku) VALUES (gen_random_uuid(), 't', 's2')",
        "UPDATE public.master_cards SET title = 'x'",
        "UPDATE public.master_cards SET id = gen_random_uuid()",
        "UPDATE public.master_cards SET deleted_at = now()",
        "DELETE FROM public.master_cards",
        "TRUNCATE public.master_cards CASCADE",
        "LOCK TABLE public.master_cards IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE public.master_cards IN SHARE ROW EXCLUSIVE MODE",
        "LOCK TABLE public.master_cards IN ROW EXCLUSIVE MODE",
        "SELECT public.number_events(1)",
        // Its own table, which is in use while a key is checked.
        "ALTER TABLE public.master_cards DISABLE TRIGGER ALL",
        "ALTER TABLE public.master_cards ADD COLUMN z int",
        "ALTER TABLE public.master_cards ALTER title SET DEFAULT 'x'",
        "DROP TABLE public.master_cards CASCADE",
        "CREATE INDEX ON public.master_cards (version)",
        // Places of its own.
        "CREATE TABLE public.z ()",
        "CREATE TABLE plugin_evil.z ()",
        "CREATE TEMP TABLE z ()",
        "CREATE SCHEMA z",
        "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'select 1'",
        "CREATE VIEW public.v AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON public.master_cards EXECUTE FUNCTION plugin_evil.fires()",
        "INSERT INTO plugin_evil.door DEFAULT VALUES",
        "CREATE EXTENSION dblink",
        "CREATE PUBLICATION p",
        // Becoming somebody.
        "RESET ROLE",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SELECT set_config('role', 'none', false)",
        "CREATE ROLE z",
        "SELECT cardinal.make_plugin_roles('z', true, 'SCRAM-SHA-256$', 'SCRAM-SHA-256$')",
        // The system.
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE '%superuser'",
        "SELECT pg_reload_conf()",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([names.owner(), names.core(), names.reaper(), names.provision(), names.role_maker()].into_iter().flat_map(
        |role| {
            [
                format!("SET ROLE {role}"),
                format!("ALTER ROLE {role} PASSWORD 'x'"),
                format!("GRANT {role} TO {runtime}"),
                format!("ALTER TABLE public.master_cards OWNER TO {role}"),
            ]
        },
    ))
    .chain([
        format!("GRANT {} TO {runtime}", names.cards()),
        format!("ALTER ROLE {} LOGIN PASSWORD 'x'", names.cards()),
        // Without a right to pass on it is a warning.
        format!("GRANT CREATE ON SCHEMA public TO {runtime}; SELECT 1 / has_schema_privilege('{runtime}', 'public', 'CREATE')::int"),
    ])
    .collect();
    for sql in &sealed {
        let outcome = through(sql).await;
        let refused =
            outcome.as_ref().is_err_and(|message| ["42501", "0A000", "55006", "22012"].contains(&&message[..5]));
        assert!(refused, "{sql}: {outcome:?}");
    }
    // It owns the table, so these take a superuser's fence.
    for sql in [
        format!("GRANT ALL ON public.master_cards TO {runtime}"),
        format!("GRANT TRIGGER ON public.master_cards TO {runtime}"),
        format!("GRANT SELECT ON public.master_cards TO {}", names.cards()),
        "REVOKE ALL ON public.master_cards FROM PUBLIC".to_owned(),
        "CREATE RULE r AS ON INSERT TO public.master_cards DO ALSO SELECT 1".to_owned(),
        "CREATE TRIGGER t BEFORE UPDATE ON public.master_cards FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()".to_owned(),
        "DROP TRIGGER master_cards_fence_delete ON public.master_cards".to_owned(),
        "CREATE POLICY p ON public.master_cards USING (false)".to_owned(),
        "COMMENT ON TABLE public.master_cards IS 'x'".to_owned(),
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC".to_owned(),
    ] {
        if place.login != Login::Owner {
            let outcome = through(&sql).await;
            assert!(outcome.as_ref().is_err_and(|message| message.starts_with("42501")), "{sql}: {outcome:?}");
        }
    }
}

/// From PostgreSQL 18 on a deferred trigger runs as whoever queued it, and by then the table is in use no more.
async fn a_deferred_trigger_of_a_check_changes_nothing_either(place: Place) {
    if place.login == Login::Owner {
        return; // without the fence
    }
    let database = place.database().await;
    let card = database.card("s1").await;
    // A body that is parsed when it is made needs no USAGE on the schema to run.
    let queue = "CREATE TABLE later (q text); GRANT ALL ON later TO PUBLIC;
        CREATE FUNCTION queued() RETURNS trigger LANGUAGE plpgsql AS 'begin execute new.q; return null; end';
        CREATE CONSTRAINT TRIGGER t AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION queued();
        CREATE TYPE cmd AS (q text, id uuid);
        CREATE FUNCTION run(c cmd) RETURNS uuid LANGUAGE sql VOLATILE BEGIN ATOMIC
          INSERT INTO later VALUES ((c).q); SELECT (c).id; END;
        CREATE CAST (cmd AS uuid) WITH FUNCTION run(cmd) AS IMPLICIT;
        CREATE TABLE door (c cmd REFERENCES public.master_cards (id))";
    let plugin = made_by_hand(&database, queue).await;
    for sql in ["ALTER TABLE public.master_cards DISABLE TRIGGER ALL", "DROP TABLE public.master_cards CASCADE"] {
        let insert = "INSERT INTO door VALUES (ROW($1::text, $2::uuid)::cmd)";
        let error = plugin.execute(insert, &[&sql, &card]).await.unwrap_err();
        assert!(code(&error).starts_with("42501"), "{sql}: {error:?}");
    }
}

/// An action runs as the owner of the table that points: what it reaches is the schema role.
async fn a_referential_action_makes_nothing_after_the_step(place: Place) {
    let database = place.database().await;
    let tables = "CREATE TABLE parent (id int PRIMARY KEY);
        CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE);
        CREATE TABLE acts (q text); INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1);
        CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS
          'begin execute (select q from plugin_evil.acts); return old; end';
        CREATE TRIGGER act BEFORE DELETE ON child FOR EACH ROW EXECUTE FUNCTION act()";
    let plugin = made_by_hand(&database, tables).await;
    let act = async |sql: &str| {
        plugin.execute("DELETE FROM acts", &[]).await.unwrap();
        plugin.execute("INSERT INTO acts VALUES ($1)", &[&sql]).await.unwrap();
        plugin.execute("DELETE FROM parent", &[]).await.map_err(|error| code(&error))
    };
    let who = "DO $$ BEGIN RAISE EXCEPTION 'runs as %', current_user; END $$";
    let message = act(who).await.unwrap_err();
    assert!(message.ends_with(&database.prepared.names.plugin_schema("evil")), "{message}");
    let made =
        ["CREATE TABLE plugin_evil.z (id uuid REFERENCES public.master_cards (id))", "CREATE TABLE plugin_evil.z ()"];
    let changed = [
        "ALTER TABLE plugin_evil.acts ADD z int",
        "ALTER TABLE plugin_evil.acts ADD id uuid REFERENCES public.master_cards (id)",
        "DROP TABLE plugin_evil.acts",
        "GRANT ALL ON plugin_evil.acts TO PUBLIC",
    ];
    for sql in made.iter().chain(changed.iter().filter(|_| place.login != Login::Owner)) {
        let outcome = act(sql).await;
        assert!(outcome.as_ref().is_err_and(|message| message.starts_with("42501")), "{sql}: {outcome:?}");
    }
    // Keys to cards are for its step alone, fence or not.
    let linked = act("ALTER TABLE plugin_evil.acts ADD id uuid REFERENCES public.master_cards (id)").await;
    assert!(linked.as_ref().is_err_and(|message| message.starts_with("42501")), "{linked:?}");
}

async fn a_closed_schema_role_keeps_what_its_tables_need(place: Place) {
    let database = place.database().await;
    let tables = "CREATE TABLE IF NOT EXISTS gone (id int PRIMARY KEY, card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE);
        CREATE TABLE IF NOT EXISTS further (gone int REFERENCES gone ON DELETE CASCADE ON UPDATE CASCADE);
        CREATE TABLE IF NOT EXISTS stays (card_id uuid REFERENCES public.master_cards (id) ON DELETE SET NULL);
        CREATE OR REPLACE VIEW linked AS SELECT s.card_id FROM stays s WHERE s.card_id IS NOT NULL";
    let made = database.provision("good", tables).await.unwrap();
    let card = database.card("s1").await;
    let plugin = connect::connect(&made.connect).await.unwrap();
    let fill = format!(
        "INSERT INTO gone VALUES (1, '{card}'); INSERT INTO further VALUES (1); INSERT INTO stays VALUES ('{card}');
                        UPDATE gone SET id = 2"
    );
    plugin.batch_execute(&fill).await.unwrap();
    assert_eq!(
        plugin.query("SELECT title FROM linked JOIN public.master_cards m ON m.id = card_id", &[]).await.unwrap().len(),
        1
    );
    assert!(plugin.execute("INSERT INTO stays VALUES (gen_random_uuid())", &[]).await.is_err(), "keys are checked");

    database.core().await.execute("UPDATE public.master_cards SET deleted_at = now()", &[]).await.unwrap();
    let purged = database.reaper().await.execute("DELETE FROM public.master_cards WHERE id = $1", &[&card]).await;
    assert_eq!(purged.unwrap(), 1);
    let left = "SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM further), (SELECT count(*) FROM stays WHERE card_id IS NULL)";
    let row = plugin.query_one(left, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 1));
    for upkeep in [
        "ANALYZE",
        "VACUUM (FULL, ANALYZE) public.master_cards",
        "REINDEX TABLE public.master_cards",
        "VACUUM plugin_good.stays",
    ] {
        database.card(upkeep).await;
        database.admin().await.batch_execute(upkeep).await.unwrap();
    }
    // A later step finds everything as its author left it.
    database.provision("good", &format!("{tables}; CREATE TABLE more ()")).await.unwrap();
}

async fn is_closed(database: &Database) -> bool {
    let names = &database.prepared.names;
    let sql = "SELECT r.rolcanlogin OR has_schema_privilege(r.oid, 'plugin_evil', 'CREATE') OR pg_has_role(r.oid, $2, 'MEMBER')
                 OR pg_has_role(r.oid, $3, 'MEMBER') OR EXISTS (SELECT FROM pg_stat_activity WHERE usename = r.rolname)
                 OR (SELECT count(*) > 1 FROM pg_auth_members m WHERE m.roleid = r.oid)
                 FROM pg_roles r WHERE r.rolname = $1";
    let schema_role = names.plugin_schema("evil");
    let row =
        database.admin().await.query_one(sql, &[&schema_role, &names.plugin_ddl(), &names.plugin()]).await.unwrap();
    !row.get::<_, bool>(0)
}

/// Until the statement of another session runs.
async fn until_asleep(database: &Database, role: &str) {
    let asleep = "SELECT FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'";
    let admin = database.admin().await;
    while admin.query_opt(asleep, &[&role]).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn a_session_of_the_schema_role_is_ended_with_its_step(place: Place) {
    let database = place.database().await;
    let made = database.provision("evil", "CREATE TABLE items (id uuid)").await.unwrap();
    let provisioner = database.login(&database.prepared.names.provision());
    let step = database.step(&provisioner, "evil", "");
    let (writer, closer) = step.writer().await.unwrap();
    assert!(!is_closed(&database).await);
    let sleeps = "SET statement_timeout = 0; SET client_connection_check_interval = 0; SET idle_in_transaction_session_timeout = 0;
        BEGIN; ALTER TABLE plugin_evil.items ADD FOREIGN KEY (id) REFERENCES public.master_cards (id); SELECT pg_sleep(600)";
    let asleep = tokio::spawn(async move { writer.batch_execute(sleeps).await.map_err(|error| code(&error)) });
    until_asleep(&database, &database.prepared.names.plugin_schema("evil")).await;
    step.close_writer(&closer).await.unwrap();
    let ended = asleep.await.unwrap();
    assert!(ended.as_ref().is_err_and(|message| message.starts_with("57P01")), "{ended:?}");
    assert!(is_closed(&database).await);
    database.card("written").await;
    // The others of the plugin live on, and nobody else may end anybody.
    let plugin = connect::connect(&made.connect).await.unwrap();
    step.close_writer(&closer).await.unwrap();
    plugin.batch_execute("SELECT 1").await.unwrap();
    let end = "SELECT cardinal.end_plugin_backends('evil')";
    for client in [plugin, database.core().await, database.reaper().await] {
        assert!(code(&client.batch_execute(end).await.unwrap_err()).starts_with("42501"));
    }
}

/// Default privileges of its own would keep its role, and with it its schema.
async fn a_plugin_cannot_keep_its_data_from_being_dropped(place: Place) {
    let database = place.database().await;
    let made = database.provision("evil", "CREATE TABLE items (id int)").await.unwrap();
    let plugin = connect::connect(&made.connect).await.unwrap();
    let defaults = plugin.batch_execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC").await;
    // Where a superuser could make the fence it may not even say so; an older host's database has it all the same.
    assert_eq!(defaults.is_err(), place.login != Login::Owner);
    if defaults.is_err() {
        let admin = database.admin().await;
        let given = format!(
            "ALTER EVENT TRIGGER cardinal_ddl_fence DISABLE; ALTER DEFAULT PRIVILEGES FOR ROLE {} GRANT ALL ON TABLES TO PUBLIC;
             ALTER EVENT TRIGGER cardinal_ddl_fence ENABLE",
            made.role
        );
        admin.batch_execute(&given).await.unwrap();
    }
    drop(plugin);
    let provisioner = database.login(&database.prepared.names.provision());
    database.step(&provisioner, "evil", "").drop_all().await.unwrap();
    assert!(!database.has_role(&made.role).await && database.tables("plugin_evil").await.is_empty());
}

/// A process that was killed in its step leaves a session that may hold locks on cards.
async fn a_step_ends_what_one_before_it_left(place: Place) {
    let database = place.database().await;
    database.provision("evil", "CREATE TABLE items (id uuid)").await.unwrap();
    let provisioner = database.login(&database.prepared.names.provision());
    let (writer, _closer) = database.step(&provisioner, "evil", "").writer().await.unwrap();
    let holds = "SET idle_in_transaction_session_timeout = 0;
        BEGIN; ALTER TABLE plugin_evil.items ADD FOREIGN KEY (id) REFERENCES public.master_cards (id)";
    writer.batch_execute(holds).await.unwrap();
    let linked = "CREATE TABLE IF NOT EXISTS items (id uuid); ALTER TABLE items ADD FOREIGN KEY (id) REFERENCES public.master_cards (id)";
    database.provision("evil", linked).await.unwrap();
    assert!(writer.batch_execute("SELECT 1").await.is_err());
    assert!(is_closed(&database).await);
}

async fn a_schema_role_that_was_left_open_is_closed_at_the_next_start(place: Place) {
    let (admin, login) = place.empty_database().await;
    let database = Database::prepared(admin, &login).await;
    database.provision("evil", "CREATE TABLE items ()").await.unwrap();
    let provisioner = database.login(&database.prepared.names.provision());
    let step = database.step(&provisioner, "evil", "");
    let (writer, closer) = step.writer().await.unwrap();
    // A step that is under way is left alone.
    closer.batch_execute("BEGIN; SELECT FROM public.plugin_schema_state FOR UPDATE").await.unwrap();
    prepare::prepare(&login, secret()).await.unwrap();
    writer.batch_execute("CREATE TABLE plugin_evil.more ()").await.unwrap();
    closer.batch_execute("ROLLBACK").await.unwrap();
    prepare::prepare(&login, secret()).await.unwrap();
    assert!(is_closed(&database).await);
    assert!(writer.batch_execute("SELECT 1").await.is_err());
}

async fn cards_of_an_older_version_get_their_role(place: Place) {
    let (admin, login) = place.empty_database().await;
    let database = Database::prepared(admin.clone(), &login).await;
    let card = database.card("s1").await;
    let linked = "CREATE TABLE items (id uuid REFERENCES public.master_cards (id))";
    let made = database.provision("alpha", linked).await.unwrap();
    let names = &database.prepared.names;
    // As version 1.0.0 left it.
    let (owner, cards) = (names.owner(), names.cards());
    let older = format!(
        "ALTER TABLE public.master_cards OWNER TO {owner}; REVOKE ALL ON public.master_cards FROM {cards};
         DROP OWNED BY {cards}; DROP ROLE {cards};
         REVOKE GRANT OPTION FOR ALL ON SCHEMA public FROM {owner};
         DROP EVENT TRIGGER IF EXISTS cardinal_ddl_fence"
    );
    database.admin().await.batch_execute(&older).await.unwrap();
    if place.login == Login::Plain {
        let refused = format!("{:#}", prepare::prepare(&login, secret()).await.unwrap_err());
        assert!(refused.contains("lack rights") && refused.contains("bootstrap-sql"), "{refused}");
        let script =
            prepare::bootstrap_sql(&admin.dbname, &cardinal_base::config::Secret::new(super::database::SECRET));
        database.admin().await.batch_execute(&script.unwrap()).await.unwrap();
    } else {
        database.admin().await.batch_execute(&format!("ALTER ROLE {owner} NOLOGIN PASSWORD NULL")).await.unwrap();
    }
    prepare::prepare(&login, secret()).await.unwrap();
    let sql = "SELECT relowner::regrole::text, has_schema_privilege(relowner, 'public', 'CREATE') FROM pg_class WHERE oid = 'public.master_cards'::regclass";
    let row = database.admin().await.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, String>(0), row.get::<_, bool>(1)), (cards, false));
    // A start closes the logins of plugins that no host has in service.
    connect::connect(&made.connect).await.unwrap_err();
    let made = database.provision("alpha", linked).await.unwrap();
    let plugin = connect::connect(&made.connect).await.unwrap();
    plugin.execute("INSERT INTO items VALUES ($1)", &[&card]).await.unwrap();
    database.card("s2").await;
}

/// Made by a superuser once, the fence stays where the login of the host may not make it.
#[tokio::test]
async fn the_fence_of_a_superuser_outlives_the_starts_of_a_lesser_login() {
    for major in [15, 18] {
        let Some(place) = Place::new(major, Login::Owner) else { continue };
        let (admin, login) = place.empty_database().await;
        let database = Database::prepared(admin.clone(), &login).await;
        let superuser = database.admin().await;
        assert!(isolation::ddl_is_unfenced(&superuser).await.unwrap());
        let script =
            prepare::bootstrap_sql(&admin.dbname, &cardinal_base::config::Secret::new(super::database::SECRET));
        superuser.batch_execute(&script.unwrap()).await.unwrap();
        for _start in 0..2 {
            prepare::prepare(&login, secret()).await.unwrap();
        }
        assert!(!isolation::ddl_is_unfenced(&superuser).await.unwrap());
        let owner = "SELECT rolsuper FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid JOIN pg_roles r ON r.oid = p.proowner";
        assert!(superuser.query_one(owner, &[]).await.unwrap().get::<_, bool>(0));
    }
}

/// What a plugin's code sets in a session that removes cards is gone with that session.
#[tokio::test]
async fn a_session_of_the_reaper_is_used_once() {
    let database = Database::new().await;
    let login = |role: String| database.login(&role).pg_config();
    let names = &database.prepared.names;
    let pools = Pools::new(login(names.core()), login(names.reaper())).unwrap();
    for _use in 0..3 {
        let session = pools.reaper.get().await.unwrap();
        let row = session.query_one("SHOW default_transaction_read_only", &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), "off");
        session.batch_execute("SET default_transaction_read_only = on; PREPARE s0 AS SELECT 1").await.unwrap();
    }
    let pid = async |pool: &cardinal_database::pool::Pool| -> i32 {
        pool.get().await.unwrap().query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
    };
    assert_ne!(pid(&pools.reaper).await, pid(&pools.reaper).await);
    assert_eq!(pid(&pools.core).await, pid(&pools.core).await);
}

/// The check finds a role that somebody opened or gave more.
#[tokio::test]
async fn what_somebody_gave_these_roles_is_found() {
    let database = Database::new().await;
    database.provision("evil", "CREATE TABLE items ()").await.unwrap();
    let (names, passwords) = (&database.prepared.names, &database.prepared.passwords);
    let owner = connect::connect(&database.login(&names.owner())).await.unwrap();
    let plugins = isolation::plugins(&owner).await.unwrap();
    let core_tables = isolation::core_tables(&owner).await.unwrap();
    let isolation = Isolation {
        owner: &owner,
        login: &database.admin,
        names,
        passwords,
        plugins: &plugins,
        core_tables: &core_tables,
    };
    let allowed = async || -> Vec<Violation> {
        let tried = isolation.try_all().await;
        assert!(tried.iter().all(|it| it.untried.is_empty()), "{tried:?}");
        tried.iter().flat_map(|it| it.allowed.iter().map(|it| it.0)).collect()
    };
    assert_eq!(allowed().await, []);
    let given = format!(
        "GRANT SELECT ON public.admin_users TO {}; GRANT CREATE ON SCHEMA plugin_evil TO {schema}; ALTER ROLE {schema} LOGIN",
        names.cards(),
        schema = names.plugin_schema("evil")
    );
    database.admin().await.batch_execute(&given).await.unwrap();
    use Violation::{CardsRoleDoesMore, SchemaRoleIsOpen};
    assert_eq!(allowed().await, [CardsRoleDoesMore, SchemaRoleIsOpen, SchemaRoleIsOpen]);
    assert!(!isolation::ddl_is_unfenced(&owner).await.unwrap());
    let code = owner.batch_execute("DROP EVENT TRIGGER cardinal_ddl_fence").await.unwrap_err();
    assert_eq!(code.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
}
