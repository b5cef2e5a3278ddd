//! The removal of cards beside a plugin whose rows take long: only its own cards wait.

use std::time::{Duration, Instant};

use cardinal::db::card_expiry::{Expiry, Removed};
use cardinal::db::pool::Pools;
use cardinal::db::{cards, reaper};

use super::database::{Database, Login, Place};

const BATCH_TIMEOUT: Duration = Duration::from_millis(1500);
const CARD_TIMEOUT: Duration = Duration::from_millis(500);

async fn slow_card(database: &Database) -> uuid::Uuid {
    let slow = database.card("slow").await;
    let admin = database.admin().await;
    // As an older host let it through: a check that PostgreSQL does not interrupt, at work as soon as the card goes.
    let made = format!(
        "SET check_function_bodies = off;
         ALTER TABLE plugin_old.items ADD CONSTRAINT endless CHECK (card_id IS NOT NULL OR strpos(v, 'b' || repeat('a', 1000)) = 0);
         INSERT INTO plugin_old.items SELECT '{slow}', repeat('a', 10000000)"
    );
    database.open_fence(&admin).await;
    admin.batch_execute(&made).await.unwrap();
    slow
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
    for major in [15, 18] {
        let Some(place) = Place::new(major, Login::Superuser) else { continue };
        let database = place.database().await;
        let table = "CREATE TABLE items (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL, v text)";
        database.provision("old", table).await.unwrap();
        let slow = slow_card(&database).await;
        database.card("other").await;
        let core = database.core().await;
        core.execute("UPDATE public.master_cards SET deleted_at = now() - interval '1 day'", &[]).await.unwrap();
        let names = &database.prepared.names;
        let login = |role: &str| database.login(role).pg_config();
        let pools = Pools::new(login(&names.core()), login(&names.reaper())).unwrap();
        let mut expiry = Expiry::new(BATCH_TIMEOUT, CARD_TIMEOUT);
        let begun = Instant::now();
        let removed = expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap();
        // The session that was given up still has the other card, which was in the same batch.
        assert_eq!(removed, Removed { slow: 2, ..Removed::default() });
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(pools.reaper.status().size <= 1);
        until_its_sessions_end(&database).await;
        let removed = expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap();
        assert_eq!(removed, Removed { cards: 1, slow: 1, ..Removed::default() });
        let there = core.query("SELECT id FROM public.master_cards", &[]).await.unwrap();
        assert_eq!((there.len(), there[0].get::<_, uuid::Uuid>(0)), (1, slow));
        // The next round leaves it alone; by hand it is told.
        assert_eq!(expiry.remove(&pools.reaper, time::OffsetDateTime::now_utc()).await.unwrap(), Removed::default());
        let refused = reaper::remove_cards(&pools.reaper, &[slow], CARD_TIMEOUT).await;
        assert!(matches!(refused, Err(reaper::RemoveError::Slow(_))), "{refused:?}");
        let later = database.card("later").await;
        core.execute("UPDATE public.master_cards SET deleted_at = now() WHERE id = $1", &[&later]).await.unwrap();
        cards::purge(&pools.reaper, later).await.unwrap();
    }
}
