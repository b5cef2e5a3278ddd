//! What a plugin's run-time login can use up or hold: it is short of it itself, and nobody else notices.

use cardinal_control::link::PluginDatabase;
use cardinal_database::connect;
use cardinal_schema::plugin_schema::{SCHEMA_TIMEOUT, Step, StepError};
use tokio_postgres::error::SqlState;

use super::database::{CONNECTIONS, Database, found_in, superuser_databases};

const LINKED: &str = "CREATE TABLE items (card_id uuid REFERENCES public.master_cards (id))";
/// Connections that a plugin's login may have: those of two generations.
const MAX_CONNECTIONS: usize = 2 * CONNECTIONS as usize;

async fn servers() -> Vec<(Database, PluginDatabase)> {
    let mut servers = Vec::new();
    for database in superuser_databases().await {
        let made = database.provision("flood", LINKED).await.unwrap();
        servers.push((database, made));
    }
    servers
}

/// The server has one table of locks, in which every writer and every login needs a place.
#[tokio::test]
async fn no_session_takes_advisory_locks() {
    for (database, made) in servers().await {
        let plugin = connect::connect(&made.connect).await.unwrap();
        let functions =
            "SELECT proname::text, pronargs = 2 FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
                         AND proname LIKE '%advisory%' AND proname NOT LIKE '%unlock%'";
        let functions = database.admin().await.query(functions, &[]).await.unwrap();
        assert_eq!(functions.len(), 16);
        for function in functions {
            let argument = if function.get(1) { "g, 1" } else { "g::bigint" };
            let flood = format!(
                "SELECT count(pg_catalog.{}({argument})) FROM generate_series(1, 10000000) g",
                function.get::<_, &str>(0)
            );
            let refused = plugin.batch_execute(&flood).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{flood}: {refused:?}");
        }
        // What makes a session clean.
        plugin.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
        database.card("written").await;
    }
}

/// It locks what it is asked for, of whoever that is, until the transaction is over.
#[tokio::test]
async fn no_session_locks_objects_of_others_by_looking_them_up() {
    for (_, made) in servers().await {
        let plugin = connect::connect(&made.connect).await.unwrap();
        for object in ["'schema', '{public}', '{}'", "'event trigger', '{cardinal_ddl_fence}', '{}'"] {
            let lock = format!("BEGIN; SELECT pg_catalog.pg_get_object_address({object})");
            let refused = plugin.batch_execute(&lock).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{lock}: {refused:?}");
            plugin.batch_execute("ROLLBACK").await.unwrap();
        }
    }
}

/// A record of a gigabyte in the write-ahead log keeps a server that crashes behind it from starting again.
#[tokio::test]
async fn no_session_writes_messages_into_the_log() {
    for (_, made) in servers().await {
        let plugin = connect::connect(&made.connect).await.unwrap();
        for value in ["'x'::text", "'x'::bytea"] {
            let message = format!("SELECT pg_logical_emit_message(false, 'x', {value})");
            let refused = plugin.batch_execute(&message).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{message}: {refused:?}");
        }
    }
}

/// Each call takes the whole table of locks.
#[tokio::test]
async fn no_session_of_a_plugin_asks_who_blocks_whom() {
    for (database, made) in servers().await {
        let plugin = connect::connect(&made.connect).await.unwrap();
        for call in [
            "pg_blocking_pids(1)",
            "pg_safe_snapshot_blocking_pids(1)",
            "pg_isolation_test_session_is_blocked(1, '{}')",
        ] {
            let refused = plugin.batch_execute(&format!("SELECT {call}")).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{call}: {refused:?}");
        }
        database.provisioner().await.batch_execute("SELECT pg_blocking_pids(1)").await.unwrap();
    }
}

/// Each leaves a file, which a server that stops or starts removes one by one.
#[tokio::test]
async fn no_session_of_a_plugin_exports_snapshots() {
    for (database, made) in servers().await {
        let plugin = connect::connect(&made.connect).await.unwrap();
        let refused = plugin.batch_execute("SELECT pg_export_snapshot()").await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused:?}");
        assert!(!cardinal_schema::isolation::snapshots_are_open(&database.admin().await).await.unwrap());
        // A backup does.
        let owner = connect::connect(&database.login(&database.prepared.names.owner())).await.unwrap();
        owner.batch_execute("SELECT pg_export_snapshot()").await.unwrap();
    }
}

#[tokio::test]
async fn connections_of_one_plugin_leave_room_for_others() {
    for (database, made) in servers().await {
        let other = database.provision("other", LINKED).await.unwrap();
        let mut open = Vec::new();
        let refused = loop {
            match connect::connect(&made.connect).await {
                Ok(session) => open.push(session),
                Err(refused) => break refused,
            }
            assert!(open.len() <= MAX_CONNECTIONS, "there is no limit");
        };
        assert_eq!(refused.code(), Some(&SqlState::TOO_MANY_CONNECTIONS), "{refused:?}");
        assert_eq!(open.len(), MAX_CONNECTIONS);
        connect::connect(&other.connect).await.unwrap();
        database.reaper().await;
        database.card("written").await;
        // A step of the very plugin, too.
        database.provision("flood", "CREATE TABLE IF NOT EXISTS more (id int)").await.unwrap();
    }
}

/// Each by itself may have many, and all together no more than the server has beside what the host needs.
#[tokio::test]
async fn the_logins_of_all_plugins_share_what_the_host_does_not_need() {
    for (database, _) in servers().await {
        let provisioner = database.login(&database.prepared.names.provision());
        let mut refused = None;
        for number in 0..20 {
            let name = format!("greedy-{number}");
            let step = Step { connections: 64, ..database.step(&provisioner, &name, LINKED) };
            match step.make().await {
                Ok(_) => {}
                Err(StepError::Refused(fault)) => {
                    refused = Some(fault.to_string());
                    break;
                }
                Err(StepError::Failed(error)) => panic!("{error:?}"),
            }
        }
        let refused = refused.expect("there is no bound");
        assert!(
            refused.contains("no room for 64 more connections") && refused.contains("max_connections"),
            "{refused}"
        );
        let limits =
            "SELECT sum(rolconnlimit), min(rolconnlimit), current_setting('max_connections')::bigint FROM pg_roles
                      WHERE starts_with(rolname, $1)";
        let prefix = database.prepared.names.runtime_prefix();
        let row = database.admin().await.query_one(limits, &[&prefix]).await.unwrap();
        let (all, least, server): (i64, i32, i64) = (row.get(0), row.get(1), row.get(2));
        assert!(least > 0 && all <= server - 100, "{all} of {server}");
        // Nobody gives a login more by itself.
        let plugin = connect::connect(
            &database
                .provision("flood", LINKED.replace("TABLE", "TABLE IF NOT EXISTS").as_str())
                .await
                .unwrap()
                .connect,
        )
        .await
        .unwrap();
        let role = database.prepared.names.plugin_runtime("flood");
        for more in [
            format!("ALTER ROLE {role} CONNECTION LIMIT -1"),
            "SELECT cardinal.limit_plugin_connections('flood', 64)".to_owned(),
        ] {
            let refused = plugin.batch_execute(&more).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{more}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn nothing_of_a_plugin_outlives_its_sessions_or_ends_those_of_others() {
    for (database, made) in servers().await {
        let card = database.card("a").await;
        let core = database.core().await;
        let core_pid: i32 = core.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let plugin = connect::connect(&made.connect).await.unwrap();
        plugin.batch_execute("BEGIN; INSERT INTO items SELECT id FROM public.master_cards").await.unwrap();
        let prepared = plugin.batch_execute("PREPARE TRANSACTION 'for good'").await.unwrap_err();
        assert_eq!(prepared.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{prepared:?}");
        for end in ["pg_cancel_backend", "pg_terminate_backend"] {
            let refused = plugin.batch_execute(&format!("SELECT {end}({core_pid})")).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused:?}");
        }
        for lock in ["FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE"] {
            let refused =
                plugin.batch_execute(&format!("SELECT id FROM public.master_cards {lock}")).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{lock}: {refused:?}");
        }
        // The most that it can lock, and what it can keep others from.
        plugin
            .batch_execute(
                "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE public.master_cards IN ACCESS SHARE MODE;
                 INSERT INTO items SELECT id FROM public.master_cards; LISTEN events; NOTIFY events, 'forged'",
            )
            .await
            .unwrap();
        core.batch_execute("SET lock_timeout = '1s'").await.unwrap();
        for write in [
            "UPDATE public.master_cards SET title = 'b', sku = 'b', deleted_at = now() WHERE id = $1",
            "SELECT FROM public.master_cards WHERE id = $1 FOR NO KEY UPDATE",
        ] {
            core.execute(write, &[&card]).await.unwrap();
        }
        database.card("c").await;
        database.provision("other", LINKED).await.unwrap();
    }
}

/// A small file makes many relations: their locks leave room for those of others, and they do not stay.
#[tokio::test]
async fn a_schema_with_too_many_relations_is_refused_and_others_go_on() {
    let partitions: String =
        (0..250).map(|number| format!("CREATE TABLE p_{number} PARTITION OF p FOR VALUES IN ({number});")).collect();
    let uniques = vec!["ADD UNIQUE (k, a)"; 100].join(", ");
    let bomb = format!("CREATE TABLE p (k int, a int) PARTITION BY LIST (k); {partitions} ALTER TABLE p {uniques}");
    let many: String = (0..501).map(|number| format!("CREATE TABLE t_{number} (a int UNIQUE);")).collect();
    for (database, _) in servers().await {
        for (sql, found) in [(bomb.as_str(), "it took more"), (many.as_str(), "1002 in schema plugin_many")] {
            let mut step = std::pin::pin!(database.provision_within(SCHEMA_TIMEOUT * 4, "many", sql));
            let refused = loop {
                let sku = uuid::Uuid::now_v7().to_string();
                tokio::select! {
                    done = &mut step => break done,
                    _ = database.card(&sku) => {}
                }
            };
            assert_eq!(found_in(refused, "schema-failed"), found);
            assert!(database.tables("plugin_many").await.is_empty());
        }
    }
}
