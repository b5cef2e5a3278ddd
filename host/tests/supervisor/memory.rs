//! What one session may take of the machine: a statement that asks for more fails, and nobody else notices.

use cardinal_control::link::{PluginDatabase, ProvisionFault};
use cardinal_database::connect;
use cardinal_schema::isolation;
use tokio_postgres::Client;

use super::database::{Database, Login, Place, found_in, superuser_databases, superuser_places};

/// Each view doubles what it reads: the text, the rows, or the tables that it joins.
const BOMBS: [(&str, &str); 3] = [
    ("texts", "SELECT v || v AS v FROM {below}"),
    ("rows", "SELECT v FROM {below} UNION ALL SELECT v FROM {below}"),
    ("joins", "SELECT a.v FROM {below} a, {below} b"),
];
const DOUBLINGS: usize = 25;

fn views() -> String {
    let mut schema_sql = "CREATE TABLE seeds (v text); INSERT INTO seeds VALUES ('x');".to_owned();
    for (name, doubling) in BOMBS {
        let mut below = "seeds".to_owned();
        for level in 0..DOUBLINGS {
            schema_sql.push_str(&format!("CREATE VIEW {name}_{level} AS {};", doubling.replace("{below}", &below)));
            below = format!("{name}_{level}");
        }
    }
    schema_sql
}

async fn provisioned(place: Place) -> (Database, PluginDatabase) {
    let database = place.database().await;
    let made = database.provision("bomb", &views()).await.unwrap_or_else(|fault| panic!("{fault:?}"));
    (database, made)
}

async fn servers() -> Vec<(Database, PluginDatabase)> {
    let mut servers = Vec::new();
    for place in superuser_places() {
        servers.push(provisioned(place).await);
    }
    servers
}

async fn shown(session: &Client, sql: &str) -> String {
    session.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_bomb_ends_its_own_statement_alone() {
    for (database, made) in servers().await {
        // Sessions of others: a crash of any process of the server would end them.
        let (card, core) = (database.card("a").await, database.core().await);
        let plugin = connect::connect(&made.connect).await.unwrap();
        let other = connect::connect(&made.connect).await.unwrap();
        for (name, _) in BOMBS {
            let bomb = format!("SELECT count(v) FROM {name}_{}", DOUBLINGS - 1);
            let (one, two) = tokio::join!(plugin.simple_query(&bomb), other.simple_query(&bomb));
            for refused in [one.unwrap_err(), two.unwrap_err()] {
                let db_error = refused.as_db_error().unwrap_or_else(|| panic!("{name}: {refused}"));
                assert_eq!((db_error.code().code(), db_error.message()), ("53200", "out of memory"), "{name}");
            }
            core.execute("UPDATE public.master_cards SET title = 'b' WHERE id = $1", &[&card]).await.unwrap();
        }
        // The same session goes on, too.
        assert_eq!(shown(&plugin, "SELECT v FROM texts_3").await.len(), 16);
    }
}

#[tokio::test]
async fn a_bomb_in_schema_sql_is_refused_with_its_place() {
    for (database, _) in servers().await {
        let bomb = format!("CREATE TABLE big (v text);\n INSERT INTO big SELECT v FROM texts_{}", DOUBLINGS - 1);
        let refused = database.provision("bomb", &bomb).await;
        let Err(ProvisionFault::Refused { fix, .. }) = &refused else { panic!("{refused:?}") };
        assert!(fix.contains("views"), "{fix}");
        let found = found_in(refused, "schema-failed");
        assert!(found.starts_with("53200 out of memory") && found.contains("line 2, column 2"), "{found}");
    }
}

/// On a server without a bound a step gives the plugin's login one, as far as a superuser has allowed it.
#[tokio::test]
async fn temporary_files_have_a_bound_on_every_server() {
    for (major, login, bound) in [
        (15, Login::Superuser, "4GB"),
        (18, Login::Superuser, "4GB"),
        (18, Login::Plain, "4GB"),
        (15, Login::Owner, "-1"),
    ] {
        let Some(place) = Place::new(major, login) else { continue };
        let (admin, login) = place.empty_database().await;
        let name = admin.dbname.clone();
        let unbound = format!("ALTER DATABASE {name} SET temp_file_limit = -1");
        connect::connect(&admin).await.unwrap().batch_execute(&unbound).await.unwrap();
        let database = Database::prepared(admin, &login).await;
        let made = database.provision("sorts", "CREATE TABLE items (v text)").await.unwrap();
        let admin = database.admin().await;
        let unbounded = isolation::temporary_files_are_unbounded(&admin, &database.prepared.names).await.unwrap();
        assert_eq!(unbounded, bound == "-1", "{place:?}");
        let plugin = connect::connect(&made.connect).await.unwrap();
        assert_eq!(shown(&plugin, "SHOW temp_file_limit").await, bound, "{place:?}");
        for lift in ["SET temp_file_limit = -1", "RESET temp_file_limit"] {
            let session = connect::connect(&made.connect).await.unwrap();
            let _ = session.batch_execute(lift).await;
            assert_eq!(shown(&session, "SHOW temp_file_limit").await, bound, "{lift}");
        }
        for lift in ["SET temp_file_limit = -1", "RESET temp_file_limit", "RESET ALL"] {
            for place in ["", &format!("IN DATABASE {name}")] {
                let _ = plugin.batch_execute(&format!("ALTER ROLE CURRENT_USER {place} {lift}")).await;
                let session = connect::connect(&made.connect).await.unwrap();
                assert_eq!(shown(&session, "SHOW temp_file_limit").await, bound, "{lift} {place}");
            }
        }
    }
}

/// The leave to give a bound stands in one row of the server's, which all databases write.
#[tokio::test]
async fn databases_of_one_server_start_side_by_side_without_a_bound() {
    let Some(place) = Place::new(15, Login::Superuser) else { return };
    let starts = (0..8).map(async |_| {
        let (admin, login) = place.empty_database().await;
        let unbound = format!("ALTER DATABASE {} SET temp_file_limit = -1", admin.dbname);
        connect::connect(&admin).await.unwrap().batch_execute(&unbound).await.unwrap();
        let database = Database::prepared(admin, &login).await;
        let admin = database.admin().await;
        isolation::temporary_files_are_unbounded(&admin, &database.prepared.names).await.unwrap()
    });
    assert_eq!(futures_util::future::join_all(starts).await, [false; 8]);
}

/// What a cursor keeps behind its transaction counts, too.
#[tokio::test]
async fn sorts_and_cursors_stay_within_the_bound() {
    for database in superuser_databases().await {
        let made = database.provision("sorts", "CREATE TABLE items (v text)").await.unwrap();
        let less =
            format!("ALTER ROLE {} IN DATABASE {} SET temp_file_limit = '1MB'", made.role, database.admin.dbname);
        database.admin().await.batch_execute(&less).await.unwrap();
        let plugin = connect::connect(&made.connect).await.unwrap();
        plugin.batch_execute("SET work_mem = '64kB'").await.unwrap();
        let rows = "SELECT md5(n::text) AS v FROM generate_series(1, 100000) n";
        for statement in [
            format!("BEGIN; DECLARE kept CURSOR WITH HOLD FOR {rows}; COMMIT"),
            format!("SELECT count(*) FROM ({rows} ORDER BY v) AS sorted (v) WHERE v > ''"),
        ] {
            let refused = plugin.batch_execute(&statement).await.unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "53400", "{statement}: {refused}");
            plugin.batch_execute("ROLLBACK").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_session_cannot_lift_its_bounds() {
    for (_database, made) in servers().await {
        let plugin = connect::connect(&made.connect).await.unwrap();
        assert_eq!(shown(&plugin, "SHOW temp_file_limit").await, "4GB");
        for setting in ["SET temp_file_limit = -1", "ALTER ROLE CURRENT_USER SET temp_file_limit = -1"] {
            let refused = plugin.batch_execute(setting).await.unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "42501", "{setting}");
        }
        // What compiles queries has bounds of its own making, which end the process.
        plugin.batch_execute("SET jit = on").await.unwrap();
        assert!(!plugin.query_one("SELECT pg_jit_available()", &[]).await.unwrap().get::<_, bool>(0));
        let pid: i32 = plugin.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let data: Vec<&str> =
            limits.lines().find(|line| line.starts_with("Max data size")).unwrap().split_whitespace().collect();
        assert!(data[3] == data[4] && data[3].parse::<u64>().unwrap() <= 2 << 30, "{data:?}");
    }
}
