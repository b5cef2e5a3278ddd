//! A backup of one server, restored to every version and with every kind of login; with a plugin whose tables are as
//! awkward as tables get.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cardinal_database::connect::{self, ConnectParams};
use cardinal_schema::dump;
use tokio::sync::OnceCell;

use super::{
    database::{CARDINAL, Login, Place, SECRET, scratch},
    everywhere::everywhere,
    url::url,
};

everywhere! {
    a_backup_of_another_server_comes_back_whole
    a_restore_that_fails_leaves_the_database_empty
}

/// Keys in a circle, computed and generated columns, a check that calls a function, partitions, enumerations, a
/// view.
const FIRST: &str = "
    CREATE TYPE mood AS ENUM ('good', 'bad');
    CREATE TABLE items (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent bigint, name text CHECK (length(name) < 9), m mood,
      doubled bigint GENERATED ALWAYS AS (id * 2) STORED, raw bytea, at timestamptz, lost text
    );
    CREATE TABLE heads (id bigint PRIMARY KEY, item bigint NOT NULL REFERENCES items (id));
    ALTER TABLE items ADD FOREIGN KEY (parent) REFERENCES heads (id) DEFERRABLE INITIALLY DEFERRED;
    CREATE TABLE linked (card_id uuid REFERENCES public.master_cards (id) ON DELETE CASCADE, n bigserial);
    CREATE TABLE log (id bigserial, what text);
    CREATE TABLE parts (k int, v text) PARTITION BY LIST (k);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
    CREATE TYPE color AS ENUM ('red', 'green', 'blue', 'white', 'black', 'gray', 'brown', 'pink');
    CREATE TABLE hashed (c color) PARTITION BY HASH (c);
    CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    CREATE TABLE \"Odd \"\"name\"\"\" (\"select\" int);
    CREATE TABLE nothing ();
    CREATE VIEW counted AS SELECT count(*) AS n FROM items;";
/// A loss that was agreed to.
const SECOND: &str =
    "ALTER TABLE items DROP COLUMN lost; ALTER TABLE items ADD COLUMN IF NOT EXISTS later int DEFAULT 7";

const ROWS: &str = "
    BEGIN;
    INSERT INTO items (parent, name, m, raw, at) VALUES (1, E'a\\tb\\\\', 'bad', '\\x00ff', '2026-03-01 00:00:00.123456+03');
    INSERT INTO heads VALUES (1, 1);
    COMMIT;
    INSERT INTO items (name) VALUES (NULL), ('');
    INSERT INTO linked (card_id) SELECT id FROM public.master_cards;
    INSERT INTO parts VALUES (1, 'one');
    INSERT INTO hashed SELECT unnest(enum_range(NULL::color));
    INSERT INTO \"Odd \"\"name\"\"\" VALUES (5);
    INSERT INTO log (what) VALUES ('a'), ('b');
    INSERT INTO nothing DEFAULT VALUES";

const LOOK: &str = "
    SELECT json_build_array(
      (SELECT json_agg(i ORDER BY id) FROM items i), (SELECT json_agg(h) FROM heads h), (SELECT json_agg(l) FROM linked l),
      (SELECT json_agg(l ORDER BY id) FROM log l), (SELECT json_agg(p) FROM parts p),
      (SELECT json_agg(h ORDER BY c) FROM hashed h),
      (SELECT json_agg(o) FROM \"Odd \"\"name\"\"\" o), (SELECT count(*) FROM nothing),
      (SELECT json_agg(m) FROM public.master_cards m))::text";

pub(super) fn cardinal(command: &str, login: &ConnectParams, file: &Path) -> Output {
    cardinal_with(&[command], login, file)
}

fn cardinal_with(arguments: &[&str], login: &ConnectParams, file: &Path) -> Output {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let secret = scratch().join(format!("backup-{number}.secret"));
    std::fs::write(&secret, SECRET).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    Command::new(CARDINAL)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("DATA_DIR", scratch().join(format!("backup-{number}")))
        .env("DATABASE_URL", url(login))
        .env("DATABASE_SECRET_FILE", secret)
        .args(arguments)
        .arg(file)
        .output()
        .unwrap()
}

#[track_caller]
pub(super) fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the plugin sees, and the file.
async fn backup() -> &'static (String, PathBuf) {
    static BACKUP: OnceCell<(String, PathBuf)> = OnceCell::const_new();
    let make = async || {
        let place = Place::new(15, Login::Superuser).unwrap();
        let (admin, login) = place.empty_database().await;
        let database = super::database::Database::prepared(admin, &login).await;
        database.card("kept").await;
        database.replay("awkward", FIRST).await;
        let made = database.replay("awkward", SECOND).await;
        let plugin = connect::connect(&made.connect).await.unwrap();
        plugin.batch_execute(ROWS).await.unwrap();
        // Locks itself out; the backup has a way in all the same.
        plugin.batch_execute("ALTER ROLE CURRENT_USER PASSWORD 'mine'").await.unwrap();
        let seen: String = plugin.query_one(LOOK, &[]).await.unwrap().get(0);
        let file = scratch().join("awkward.tar");
        done(&cardinal("backup", &login, &file));
        (seen, file)
    };
    BACKUP.get_or_init(make).await
}

async fn a_backup_of_another_server_comes_back_whole(place: Place) {
    let (seen, file) = backup().await;
    let (admin, login) = place.empty_database().await;
    done(&cardinal("restore", &login, file));
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.replay("awkward", SECOND).await;
    let plugin = connect::connect(&made.connect).await.unwrap();
    assert_eq!(&plugin.query_one(LOOK, &[]).await.unwrap().get::<_, String>(0), seen);
    assert_eq!(plugin.query_one("SELECT n FROM counted", &[]).await.unwrap().get::<_, i64>(0), 3);
    // Numbers go on, keys and checks are at work again, and the run-time role has what it needs.
    plugin.batch_execute("INSERT INTO items (name) VALUES ('next')").await.unwrap();
    let row = plugin.query_one("SELECT max(id), (SELECT count(*) FROM log) FROM items", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (4, 2));
    assert!(plugin.execute("INSERT INTO heads VALUES (9, 999)", &[]).await.is_err());
    assert!(plugin.execute("INSERT INTO items (name) VALUES ('much too long')", &[]).await.is_err());
    let core = database.core().await;
    assert!(core.execute("DELETE FROM public.master_cards", &[]).await.is_err());
    let fence = "SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'master_cards_fence_delete'";
    assert_eq!(core.query_one(fence, &[]).await.unwrap().get::<_, String>(0), "A");
    let keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace";
    assert!(core.query_one(keys, &[]).await.unwrap().get::<_, i64>(0) >= 5);
    // A backup of the backup is the same again.
    let again = scratch().join(format!("{}.tar", database.admin.dbname));
    done(&cardinal("backup", &login, &again));
}

/// Steps of an older version, with code in them: a later step may make the same tables; else the plugin's are left out,
/// and nobody else's.
#[tokio::test]
async fn steps_that_are_refused_now_do_not_keep_the_rest_from_coming_back() {
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    let tables = "CREATE TABLE IF NOT EXISTS items (v text)";
    for plugin in ["mended", "coded", "plain"] {
        let made = database.provision(plugin, tables).await.unwrap();
        let session = connect::connect(&made.connect).await.unwrap();
        session.execute("INSERT INTO items VALUES ('kept')", &[]).await.unwrap();
    }
    let older = "INSERT INTO public.plugin_schema_steps (plugin, number, sha256, plugin_version, schema_sql, losses)
                 VALUES ('mended', 0, '\\x00', '0.9.0', 'CREATE FUNCTION f() RETURNS int LANGUAGE sql AS ''select 1''', '{}');
                 UPDATE public.plugin_schema_steps SET schema_sql = 'DO $$ BEGIN END $$; ' || schema_sql WHERE plugin = 'coded'";
    database.admin().await.batch_execute(older).await.unwrap();
    let file = scratch().join("older.tar");
    done(&cardinal("backup", &login, &file));
    let (admin, login) = place.empty_database().await;
    let restored = cardinal("restore", &login, &file);
    let message = left_out(&restored);
    assert!(message.contains("Not restored: the tables of coded") && message.contains("DO at line 1"), "{message}");
    let database = super::database::Database::prepared(admin, &login).await;
    for plugin in ["mended", "plain"] {
        let made = database.provision(plugin, tables).await.unwrap();
        let session = connect::connect(&made.connect).await.unwrap();
        assert_eq!(session.query("SELECT v FROM items", &[]).await.unwrap().len(), 1, "{plugin}");
    }
    assert!(database.tables("plugin_coded").await.is_empty());
}

/// What a command says that had to leave a plugin out.
#[track_caller]
pub(super) fn left_out(output: &Output) -> String {
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(65), "{message}{}", String::from_utf8_lossy(&output.stderr));
    message
}

/// Rows that are older than a rule for them, or fit one for a while, come back, and the rule holds for new ones.
#[tokio::test]
async fn rows_that_break_their_own_rules_come_back() {
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    let table = "CREATE TABLE IF NOT EXISTS items (v int CONSTRAINT positive CHECK (v > 0), at timestamptz CONSTRAINT soon CHECK (at > now()), w short);
                 CREATE TABLE IF NOT EXISTS below (CONSTRAINT positive CHECK (v > 0)) INHERITS (items);";
    let domain = "CREATE DOMAIN short AS timestamptz CONSTRAINT later CHECK (VALUE > now());";
    let made = database.provision("ruled", &format!("{domain}{table}")).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    let rows = "INSERT INTO items VALUES (1, now() + interval '1 s', now() + interval '1 s'); INSERT INTO below (v) VALUES (2)";
    session.batch_execute(rows).await.unwrap();
    let rule = "ALTER TABLE items DROP CONSTRAINT IF EXISTS rule; ALTER TABLE items ADD CONSTRAINT rule CHECK (v > 100) NOT VALID;";
    database.provision("ruled", &format!("{table} {rule}")).await.unwrap();
    // Until the row breaks its rules.
    session.batch_execute("SELECT pg_sleep_until(max(at)) FROM items").await.unwrap();
    let file = scratch().join("ruled.tar");
    done(&cardinal("backup", &login, &file));
    let (admin, login) = place.empty_database().await;
    let restored = cardinal("restore", &login, &file);
    done(&restored);
    let message = String::from_utf8_lossy(&restored.stderr).into_owned();
    for open in ["check soon of table items", "check later of domain short"] {
        assert!(message.contains(open), "{message}");
    }
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.provision("ruled", table).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    assert_eq!(session.query("SELECT v FROM items ORDER BY v", &[]).await.unwrap().len(), 2);
    let checks = "SELECT string_agg(concat_ws(' ', coalesce(conrelid::regclass::text, ''), conname, convalidated), ', ' ORDER BY conname, conrelid::regclass::text)
                  FROM pg_constraint WHERE contype = 'c' AND connamespace = 'plugin_ruled'::regnamespace AND (conrelid <> 0 OR contypid <> 0)";
    let seen: String = session.query_one(checks, &[]).await.unwrap().get(0);
    assert_eq!(
        seen,
        "- later f, below positive t, items positive t, below rule f, items rule f, below soon f, items soon f"
    );
    for broken in ["(0, NULL)", "(101, '2020-01-01')", "(99, NULL)"] {
        assert!(session.execute(&format!("INSERT INTO items VALUES {broken}"), &[]).await.is_err(), "{broken}");
    }
    session.execute("INSERT INTO items VALUES (101, NULL)", &[]).await.unwrap();
}

/// A plugin whose rows do not fit the tables that are made for them.
#[tokio::test]
async fn a_plugin_that_cannot_be_restored_is_left_out() {
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    let table = "CREATE TABLE IF NOT EXISTS items (v int);";
    for plugin in ["broken", "plain"] {
        let made = database.provision(plugin, table).await.unwrap();
        let session = connect::connect(&made.connect).await.unwrap();
        session.execute("INSERT INTO items VALUES (1), (1)", &[]).await.unwrap();
    }
    // A step that no host would have recorded so: its rows do not fit its table.
    let other = "UPDATE public.plugin_schema_steps SET schema_sql = 'CREATE TABLE items (v int PRIMARY KEY)' WHERE plugin = 'broken'";
    database.admin().await.batch_execute(other).await.unwrap();
    let file = scratch().join("broken.tar");
    done(&cardinal("backup", &login, &file));
    let source = login;
    let (admin, login) = place.empty_database().await;
    let unknown = cardinal_with(&["restore", "--without-plugin", "other"], &login, &file);
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && message.contains("--without-plugin other"), "{message}");
    let message = left_out(&cardinal("restore", &login, &file));
    assert!(message.contains("Not restored: the tables of broken") && message.contains("items_pkey"), "{message}");
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.provision("plain", table).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    assert_eq!(session.query("SELECT v FROM items", &[]).await.unwrap().len(), 2);
    assert!(database.tables("plugin_broken").await.is_empty());
    // Its roles are the server's, and the database that is replaced still has its tables.
    let limits = async || -> Vec<i32> {
        let sql = "SELECT rolconnlimit FROM pg_roles WHERE rolname ~ '_p_(plain|broken)$' ORDER BY 1";
        connect::connect(&source).await.unwrap().query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    let before = limits().await;
    let replaced = left_out(&cardinal_with(&["restore", "--replace"], &source, &file));
    assert!(replaced.contains("Not restored: the tables of broken"), "{replaced}");
    assert_eq!(limits().await, before, "hosts serve on meanwhile");
    let (admin, login) = place.empty_database().await;
    let output = cardinal_with(&["restore", "--without-plugin", "broken"], &login, &file);
    done(&output);
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(message.contains("Not restored: the tables of broken"), "{message}");
    let database = super::database::Database::prepared(admin, &login).await;
    assert!(database.tables("plugin_broken").await.is_empty());
}

/// PostgreSQL writes no line of more than a gigabyte: bytes are twice as long there.
#[tokio::test]
async fn a_plugin_with_a_row_that_is_too_large_is_left_out() {
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    let table = "CREATE TABLE IF NOT EXISTS items (v bytea, w bytea, x bytea, y bytea); CREATE TABLE IF NOT EXISTS before (v int);
                 CREATE SEQUENCE IF NOT EXISTS numbers";
    for plugin in ["huge", "zero"] {
        let made = database.provision(plugin, table).await.unwrap();
        let session = connect::connect(&made.connect).await.unwrap();
        session.batch_execute("INSERT INTO items VALUES ('\\x01'); INSERT INTO before VALUES (1)").await.unwrap();
        if plugin == "huge" {
            let large = "SET statement_timeout = 0; UPDATE items SET v = convert_to(repeat('a', 140000000), 'UTF8');
                         UPDATE items SET w = v; UPDATE items SET x = v; UPDATE items SET y = v";
            session.batch_execute(large).await.unwrap();
        }
    }
    let file = scratch().join("huge.tar");
    let message = left_out(&cardinal("backup", &login, &file));
    assert!(message.contains("Not in the backup: the tables of huge") && message.contains("items"), "{message}");
    let (admin, login) = place.empty_database().await;
    let message = left_out(&cardinal("restore", &login, &file));
    assert!(
        message.contains("Not restored: the tables of huge") && message.contains("the backup has none of them"),
        "{message}"
    );
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.provision("zero", table).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    let row =
        session.query_one("SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM before)", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 1));
    assert!(database.tables("plugin_huge").await.is_empty());
    let (_, login) = place.empty_database().await;
    done(&cardinal_with(&["restore", "--without-plugin", "huge"], &login, &file));
}

#[tokio::test]
async fn rows_that_schema_sql_puts_in_come_back_once() {
    const SEEDED: &str = "CREATE TABLE IF NOT EXISTS seed (id int PRIMARY KEY, v text);
        INSERT INTO seed VALUES (1, 'as made'), (2, 'as made') ON CONFLICT DO NOTHING";
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.provision("seeded", SEEDED).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    session.batch_execute("UPDATE seed SET v = 'changed' WHERE id = 1; DELETE FROM seed WHERE id = 2").await.unwrap();
    let file = scratch().join("seeded.tar");
    done(&cardinal("backup", &login, &file));
    let (admin, login) = place.empty_database().await;
    done(&cardinal("restore", &login, &file));
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.provision("seeded", SEEDED).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    let rows = session.query("SELECT id, v FROM seed", &[]).await.unwrap();
    let rows: Vec<(i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [(1, "changed".to_owned())]);
}

/// A later step ran on tables without what an earlier one had put in.
#[tokio::test]
async fn rows_that_were_gone_before_a_later_step_do_not_keep_it_from_being_made() {
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    let first =
        "CREATE TABLE IF NOT EXISTS kept (id int PRIMARY KEY); INSERT INTO kept VALUES (1) ON CONFLICT DO NOTHING";
    let second = "CREATE TABLE IF NOT EXISTS kept (id int PRIMARY KEY); ALTER TABLE kept ADD COLUMN IF NOT EXISTS n int NOT NULL";
    let made = database.provision("sown", first).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    session.batch_execute("DELETE FROM kept").await.unwrap();
    database.provision("sown", second).await.unwrap();
    session.batch_execute("INSERT INTO kept VALUES (2, 3)").await.unwrap();
    let file = scratch().join("sown.tar");
    done(&cardinal("backup", &login, &file));
    let (admin, login) = place.empty_database().await;
    done(&cardinal("restore", &login, &file));
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.provision("sown", second).await.unwrap();
    let session = connect::connect(&made.connect).await.unwrap();
    let rows = session.query("SELECT id, n FROM kept", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i32, i32)>>(), [(2, 3)]);
}

/// An archive that is whole and says more than it holds.
async fn a_restore_that_fails_leaves_the_database_empty(place: Place) {
    let (_, file) = backup().await;
    let (admin, login) = place.empty_database().await;
    let bad = scratch().join(format!("bad-{}.tar", admin.dbname));
    let mut out = tar::Builder::new(std::fs::File::create(&bad).unwrap());
    for entry in tar::Archive::new(std::fs::File::open(file).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        if name == "manifest.json" {
            let mut manifest: serde_json::Value = serde_json::from_slice(&content).unwrap();
            let last = manifest["tables"].as_array_mut().unwrap().last_mut().unwrap();
            last["rows"] = serde_json::json!(99);
            content = manifest.to_string().into_bytes();
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        out.append_data(&mut header, &name, content.as_slice()).unwrap();
    }
    out.finish().unwrap();
    let output = cardinal("restore", &login, &bad);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("rows of 99"), "{message}");
    // So the good one goes in now.
    done(&cardinal("restore", &login, file));
}

#[tokio::test]
async fn a_database_that_takes_the_place_of_another_sorts_as_that() {
    let locales = [
        (15, "LOCALE_PROVIDER icu ICU_LOCALE 'de'"),
        (15, "LC_COLLATE 'POSIX' LC_CTYPE 'POSIX'"),
        (18, "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'"),
        (18, "LOCALE_PROVIDER icu ICU_LOCALE 'sv'"),
    ];
    for (major, locale) in locales {
        let Some(place) = Place::new(major, Login::Superuser) else { continue };
        let database = place.database().await;
        let admin = database.admin().await;
        let name = |end: &str| format!("{}_{end}", database.admin.dbname);
        let (old, new) = (name("sorted"), name("anew"));
        admin
            .batch_execute(&format!("CREATE DATABASE {old} {locale} ENCODING 'UTF8' TEMPLATE template0"))
            .await
            .unwrap();
        dump::create_database(&admin, &new, &old).await.unwrap();
        let of = async |name: &str| -> String {
            let sql = "SELECT (to_jsonb(d) - '{oid,datname,dattablespace,datfrozenxid,datminmxid,datacl}'::text[])::text FROM pg_database d WHERE datname = $1";
            admin.query_one(sql, &[&name]).await.unwrap().get(0)
        };
        assert_eq!(of(&new).await, of(&old).await);
        for name in [&old, &new] {
            dump::drop_database(&admin, name).await.unwrap();
        }
    }
}
