//! Schema steps of several plugins that lock the cards: they take turns, and a writer of cards waits for a moment.

use std::time::{Duration, Instant};

use cardinal_control::link::{PluginDatabase, ProvisionFault};
use futures_util::future::join_all;

use super::database::{Database, found_in, superuser_databases};

/// As promised to operators, and what a busy machine adds.
const PROMISED: Duration = Duration::from_millis(2_500);
/// A wait that is none.
const MAX_WAIT: Duration = Duration::from_millis(100);
const KEYED: &str =
    "CREATE TABLE keyed (a int, card_id uuid CONSTRAINT k REFERENCES public.master_cards (id) ON DELETE CASCADE)";

/// How long a writer of cards waited in all beside this.
async fn beside_a_writer<T>(database: &Database, work: impl Future<Output = T>) -> (T, Duration) {
    let card = database.card(&uuid::Uuid::now_v7().to_string()).await;
    let core = database.core().await;
    core.batch_execute("SET lock_timeout = '60s'; SET statement_timeout = '60s'").await.unwrap();
    let update = "UPDATE public.master_cards SET version = version + 1 WHERE id = $1";
    let (mut work, mut waited) = (std::pin::pin!(work), Duration::ZERO);
    loop {
        let started = Instant::now();
        let args: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&card];
        let mut write = std::pin::pin!(core.execute(update, &args));
        let done = tokio::select! {
            done = &mut work => {
                write.await.unwrap();
                Some(done)
            }
            written = &mut write => {
                written.unwrap();
                None
            }
        };
        if started.elapsed() > MAX_WAIT {
            waited += started.elapsed();
        }
        if let Some(done) = done {
            return (done, waited);
        }
    }
}

/// A busy machine may take longer over a step than one may lock the cards.
async fn made_in_the_end(database: &Database, plugin: &str, file: &str, made: Result<PluginDatabase, ProvisionFault>) {
    match made {
        Ok(_) => {}
        Err(ProvisionFault::Refused { found, .. }) if found.contains("still held its lock") => {
            database.provision_patiently(plugin, file).await.unwrap_or_else(|fault| panic!("{fault}"));
        }
        Err(fault) => panic!("{fault}"),
    }
}

fn comments(count: usize) -> String {
    "COMMENT ON COLUMN keyed.a IS 'one of many';".repeat(count)
}

#[tokio::test]
async fn few_statements_run_behind_a_dropped_key() {
    for database in superuser_databases().await {
        database.provision("slow", KEYED).await.unwrap();
        let many = format!("ALTER TABLE keyed DROP CONSTRAINT k; {}", comments(3_000));
        let (refused, waited) = beside_a_writer(&database, database.provision("slow", &many)).await;
        assert!(waited < PROMISED, "{waited:?}");
        let refused = refused.unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("cards") && matches!(refused, ProvisionFault::Refused { .. }), "{text}");
        // In front of it there may be as many as one likes.
        let first = format!("{} ALTER TABLE keyed DROP CONSTRAINT k", comments(3_000));
        let (made, waited) = beside_a_writer(&database, database.provision("slow", &first)).await;
        assert!(waited < PROMISED, "{waited:?}");
        made_in_the_end(&database, "slow", &first, made).await;
    }
}

#[tokio::test]
async fn steps_that_lock_the_cards_take_turns() {
    const PLUGINS: usize = 6;
    for database in superuser_databases().await {
        let names: Vec<String> = (0..PLUGINS).map(|number| format!("turn-{number}")).collect();
        for name in &names {
            database.provision(name, KEYED).await.unwrap();
        }
        let file = format!(
            "ALTER TABLE keyed DROP CONSTRAINT k; {} CREATE TABLE more (card_id uuid REFERENCES public.master_cards)",
            comments(20)
        );
        let steps = join_all(names.iter().map(|name| database.provision(name, &file)));
        let (made, waited) = beside_a_writer(&database, steps).await;
        assert!(waited < PROMISED * 6, "{waited:?}");
        for (name, made) in names.iter().zip(made) {
            made_in_the_end(&database, name, &file, made).await;
        }
    }
}

#[tokio::test]
async fn a_step_that_waits_in_vain_says_for_whom_and_keeps_no_writer_waiting() {
    for database in superuser_databases().await {
        let card = database.card("busy").await;
        let mut core = database.core().await;
        let busy = core.transaction().await.unwrap();
        busy.execute("UPDATE public.master_cards SET title = 'b' WHERE id = $1", &[&card]).await.unwrap();
        let (refused, waited) = beside_a_writer(&database, database.provision("waits", KEYED)).await;
        assert!(waited < PROMISED, "{waited:?}");
        let Err(ProvisionFault::Unavailable(text)) = refused else { panic!("{refused:?}") };
        assert!(
            text.contains("waited for the host's own work on cards") && text.contains("scan the plugins again"),
            "{text}"
        );
        busy.rollback().await.unwrap();
        database.provision("waits", KEYED).await.unwrap();
        // A session of its own, with a table of its own.
        let made = database.provision("waits", KEYED.replace("TABLE", "TABLE IF NOT EXISTS").as_str()).await.unwrap();
        let plugin = cardinal_database::connect::connect(&made.connect).await.unwrap();
        let lock = "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE keyed";
        plugin.batch_execute(lock).await.unwrap();
        let refused = database.provision("waits", "ALTER TABLE keyed ADD COLUMN b int").await;
        let Err(ProvisionFault::Unavailable(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("waited for a session of plugin waits") && text.contains("line 1, column 1"), "{text}");
    }
}

#[tokio::test]
async fn a_file_that_is_too_long_behind_a_lock_names_the_place() {
    for database in superuser_databases().await {
        database.provision("slow", KEYED).await.unwrap();
        // So quick that the clock does not end it first.
        let many = format!("ALTER TABLE keyed DROP CONSTRAINT k;\n{}", "COMMENT ON TABLE keyed IS '';\n".repeat(201));
        let found = match database.provision("slow", &many).await {
            Err(ProvisionFault::Refused { found, .. }) if found.contains("still held its lock") => continue,
            refused => found_in(refused, "schema-failed"),
        };
        assert!(found.contains("line 202, column 1") && found.contains("since line 1, column 1"), "{found}");
    }
}
