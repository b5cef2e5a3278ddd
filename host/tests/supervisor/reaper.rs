//! The removal of cards beside a plugin whose rows take long: only its own cards wait.

use std::time::{Duration, Instant};

use cardinal_database::{connect, pool::Pools};
use cardinal_store::{
    cards,
    cards::expiry::{Expiry, ExpiryReport},
    error::StoreError,
    reaper,
};

use super::database::{Database, Login, Place, superuser_databases, superuser_places};

const BATCH_TIMEOUT: Duration = Duration::from_millis(1500);
const CARD_TIMEOUT: Duration = Duration::from_millis(500);

/// Letters of a text in which a search that PostgreSQL does not interrupt takes some seconds.
const LONG: usize = 10_000_000;

async fn slow_card(database: &Database) -> uuid::Uuid {
    slow_cards(database, 1, LONG).await[0]
}

/// Cards whose removal searches through so many letters.
async fn slow_cards(database: &Database, count: usize, letters: usize) -> Vec<uuid::Uuid> {
    let mut slow = Vec::new();
    for number in 0..count {
        slow.push(database.card(&format!("slow-{number}")).await);
    }
    let admin = database.admin().await;
    // As an older host let it through: a check that PostgreSQL does not interrupt, at work as soon as the card goes.
    let made = format!(
        "SET check_function_bodies = off;
         ALTER TABLE plugin_old.items ADD CONSTRAINT endless CHECK (card_id IS NOT NULL OR strpos(v, 'b' || repeat('a', 1000)) = 0);
         INSERT INTO plugin_old.items SELECT id, repeat('a', {letters}) FROM public.master_cards"
    );
    database.open_fence(&admin).await;
    admin.batch_execute(&made).await.unwrap();
    slow
}

fn pools(database: &Database) -> Pools {
    let names = &database.prepared.names;
    let login = |role: &str| database.login(role).pg_config();
    Pools::new(login(&names.core()), login(&names.reaper())).unwrap()
}

async fn until_its_sessions_end(database: &Database) {
    let admin = database.admin().await;
    let active = "SELECT FROM pg_stat_activity WHERE usename = $1 AND state = 'active'";
    while !admin.query(active, &[&database.prepared.names.reaper()]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_card_that_takes_long_to_remove_stops_no_other() {
    for database in superuser_databases().await {
        let table = "CREATE TABLE items (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL, v text)";
        database.provision("old", table).await.unwrap();
        let slow = slow_card(&database).await;
        database.card("other").await;
        let core = database.core().await;
        core.execute("UPDATE public.master_cards SET deleted_at = now() - interval '1 day'", &[]).await.unwrap();
        let pools = pools(&database);
        let mut expiry = Expiry::new(BATCH_TIMEOUT, CARD_TIMEOUT);
        let started = Instant::now();
        let removed = expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap();
        // The session that was given up still has the other card, which was in the same batch.
        assert_eq!(removed, ExpiryReport { slow: 2, ..ExpiryReport::default() });
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert!(pools.reaper.status().size <= 1);
        until_its_sessions_end(&database).await;
        let removed = expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap();
        assert_eq!(removed, ExpiryReport { cards: 1, slow: 1, ..ExpiryReport::default() });
        let there = core.query("SELECT id FROM public.master_cards", &[]).await.unwrap();
        assert_eq!((there.len(), there[0].get::<_, uuid::Uuid>(0)), (1, slow));
        // The next round leaves it alone; by hand it is told.
        assert_eq!(
            expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap(),
            ExpiryReport::default()
        );
        let refused = reaper::remove_cards(&pools.reaper, &[slow], CARD_TIMEOUT).await;
        assert!(matches!(refused, Err(reaper::RemoveError::Slow(_))), "{refused:?}");
        let later = database.card("later").await;
        core.execute("UPDATE public.master_cards SET deleted_at = now() WHERE id = $1", &[&later]).await.unwrap();
        cards::purge(&pools.reaper, later).await.unwrap();
    }
}

async fn reaper_sessions(database: &Database) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
    database.admin().await.query_one(sql, &[&database.prepared.names.reaper()]).await.unwrap().get(0)
}

/// A session that does not end is given up. A card has one at most, however often its removal is tried, and others'
/// cards go meanwhile.
#[tokio::test]
async fn removals_by_hand_that_do_not_end_keep_one_session_each() {
    const SLOW: usize = 5;
    for database in superuser_databases().await {
        let table = "CREATE TABLE items (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL, v text)";
        database.provision("old", table).await.unwrap();
        let slow = slow_cards(&database, SLOW, LONG / 2).await;
        let other = database.card("other").await;
        let delete = "UPDATE public.master_cards SET deleted_at = now()";
        database.core().await.execute(delete, &[]).await.unwrap();
        let pools = pools(&database);
        let started = Instant::now();
        for _try in 0..2 {
            let removals = slow.chunks(1).map(|card| reaper::remove_cards(&pools.reaper, card, CARD_TIMEOUT));
            for refused in futures_util::future::join_all(removals).await {
                assert!(matches!(refused, Err(reaper::RemoveError::Slow(_))), "{refused:?}");
            }
        }
        // Those of the second try wait for the first, and end when they are asked to.
        while reaper_sessions(&database).await > SLOW as i64 {
            assert!(started.elapsed() < Duration::from_secs(20), "more sessions than slow cards");
            tokio::task::yield_now().await;
        }
        cards::purge(&pools.reaper, other).await.unwrap();
        until_its_sessions_end(&database).await;
    }
}

/// PostgreSQL says the same of a server that has no memory for anybody, and then nothing would be removed at all.
#[tokio::test]
async fn a_card_whose_removal_runs_out_of_memory_stops_no_other() {
    let Some(place) = Place::new(15, Login::Superuser) else { return };
    for code in ["53200", "53100", "53400"] {
        let database = place.database().await;
        let table = "CREATE TABLE items (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL)";
        database.provision("old", table).await.unwrap();
        let bomb = database.card("bomb").await;
        let made = format!(
            "CREATE FUNCTION plugin_old.run_out() RETURNS bool LANGUAGE plpgsql AS
               $$ BEGIN RAISE 'there is no more' USING ERRCODE = '{code}'; END $$;
             ALTER TABLE plugin_old.items ADD CHECK (card_id IS NOT NULL OR plugin_old.run_out());
             INSERT INTO plugin_old.items VALUES ('{bomb}')"
        );
        let admin = database.admin().await;
        database.open_fence(&admin).await;
        admin.batch_execute(&made).await.unwrap();
        database.card("other").await;
        let core = database.core().await;
        core.execute("UPDATE public.master_cards SET deleted_at = now() - interval '1 day'", &[]).await.unwrap();
        let pools = pools(&database);
        let mut expiry = Expiry::new(BATCH_TIMEOUT, CARD_TIMEOUT);
        let removed = expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap();
        assert_eq!(removed, ExpiryReport { cards: 1, slow: 1, ..ExpiryReport::default() }, "{code}");
        let refused = reaper::remove_cards(&pools.reaper, &[bomb], CARD_TIMEOUT).await;
        assert!(matches!(refused, Err(reaper::RemoveError::Slow(_))), "{refused:?}");
    }
}

/// Cards that a plugin's open transaction keeps: those of the same batch go while they wait.
#[tokio::test]
async fn a_card_that_waits_does_not_keep_those_of_its_batch_waiting() {
    for database in superuser_databases().await {
        let made = database.provision("open", "CREATE TABLE items (card_id uuid REFERENCES public.master_cards)").await;
        let kept = database.card("kept").await;
        let other = database.card("other").await;
        let core = database.core().await;
        for (card, days) in [(kept, 2.0), (other, 1.0)] {
            let hide = "UPDATE public.master_cards SET deleted_at = now() - interval '1 day' * $2 WHERE id = $1";
            core.execute(hide, &[&card, &days]).await.unwrap();
        }
        let plugin = connect::connect(&made.unwrap().connect).await.unwrap();
        // However long this takes on a busy machine.
        plugin.batch_execute("SET idle_in_transaction_session_timeout = 0").await.unwrap();
        plugin.batch_execute(&format!("BEGIN; INSERT INTO items VALUES ('{kept}')")).await.unwrap();
        let pools = pools(&database);
        let mut expiry = Expiry::new(BATCH_TIMEOUT, reaper::CARD_TIMEOUT);
        let mut round = std::pin::pin!(expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()));
        let is_there = "SELECT FROM public.master_cards WHERE id = $1";
        loop {
            let args: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&other];
            tokio::select! {
                removed = &mut round => panic!("the other card waited for the first: {removed:?}"),
                found = core.query_opt(is_there, &args) => if found.unwrap().is_none() { break },
            }
        }
        assert_eq!(round.await.unwrap(), ExpiryReport { cards: 1, slow: 1, ..ExpiryReport::default() });
    }
}

/// A key's action changes the plugin's row, and what is computed of that fails.
#[tokio::test]
async fn a_card_whose_plugin_cannot_compute_its_row_is_in_use() {
    let computed = [
        "n int CHECK (card_id IS NOT NULL OR 1 / n > 0)",
        "n int, g int GENERATED ALWAYS AS (CASE WHEN card_id IS NULL THEN 1 / n END) STORED",
        "n int, m int CHECK (card_id IS NOT NULL OR (n + 2147483647) > 0)",
    ];
    for place in superuser_places() {
        for (columns, value) in computed.iter().zip(["0", "0", "1"]) {
            let database = place.database().await;
            let table = format!(
                "CREATE TABLE items (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL, {columns})"
            );
            let made = database.provision("arith-metic", &table).await.unwrap();
            let (broken, other) = (database.card("broken").await, database.card("other").await);
            let plugin = connect::connect(&made.connect).await.unwrap();
            plugin
                .batch_execute(&format!("INSERT INTO items (card_id, n) VALUES ('{broken}', {value})"))
                .await
                .unwrap();
            let hide = "UPDATE public.master_cards SET deleted_at = now() - interval '1 day'";
            database.core().await.execute(hide, &[]).await.unwrap();
            let pools = pools(&database);
            let refused = cards::purge(&pools.reaper, broken).await;
            let by_plugin = matches!(&refused, Err(StoreError::CardInUse { plugin }) if plugin == "arith-metic");
            assert!(by_plugin, "{columns}: {refused:?}");
            let mut expiry = Expiry::new(BATCH_TIMEOUT, reaper::CARD_TIMEOUT);
            let removed = expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap();
            assert_eq!((removed.cards, removed.in_use.get("arith-metic")), (1, Some(&1)), "{columns}");
            assert_eq!(
                database
                    .core()
                    .await
                    .query("SELECT FROM public.master_cards WHERE id = $1", &[&other])
                    .await
                    .unwrap()
                    .len(),
                0
            );
        }
    }
}
