//! The table `login_failures`: what all hosts of the database count of failed logins.

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// What is counted for a try, and how it slows further tries down.
#[derive(Clone, Debug)]
pub struct Subject {
    pub key: Vec<u8>,
    /// Failures without a delay.
    pub free: i32,
    /// The delay after these in milliseconds, doubled by each further failure.
    pub first_ms: f64,
    pub longest_ms: f64,
}

/// Failures are forgotten when no other has come for this long.
const IS_FORGOTTEN: &str = "f.last_at < clock_timestamp() - interval '15 minutes'";
/// The end of the delay.
const NEXT: &str = "f.last_at + make_interval(secs => \
     least(f.longest_ms, f.first_ms * 2 ^ least(30, greatest(0, f.failures - f.free))) / 1000.0)";

/// Counts a try before its verdict, on all of its subjects or on none; else gives of each the milliseconds to wait.
pub async fn begin(pool: &Pool, subjects: &[Subject]) -> Result<Result<(), Vec<u64>>, StoreError> {
    let keys: Vec<&[u8]> = subjects.iter().map(|subject| subject.key.as_slice()).collect();
    let free: Vec<i32> = subjects.iter().map(|subject| subject.free).collect();
    let first: Vec<f64> = subjects.iter().map(|subject| subject.first_ms).collect();
    let max_delays: Vec<f64> = subjects.iter().map(|subject| subject.longest_ms).collect();
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    // In one order, so that tries never wait for each other in a circle.
    let sql = format!(
        "INSERT INTO public.login_failures AS f (subject, failures, free, first_ms, longest_ms, last_at)
         SELECT t.subject, 1, t.free, t.first_ms, t.longest_ms, clock_timestamp()
         FROM unnest($1::bytea[], $2::integer[], $3::float8[], $4::float8[]) AS t (subject, free, first_ms, longest_ms)
         ORDER BY t.subject
         ON CONFLICT (subject) DO UPDATE SET
           failures = CASE WHEN {IS_FORGOTTEN} THEN 1 ELSE least(f.failures, 1000000) + 1 END,
           free = excluded.free, first_ms = excluded.first_ms, longest_ms = excluded.longest_ms,
           last_at = clock_timestamp()
         WHERE f.failures < f.free OR {IS_FORGOTTEN} OR {NEXT} <= clock_timestamp()"
    );
    let counted = tx.execute(&tx.prepare_cached(&sql).await?, &[&keys, &free, &first, &max_delays]).await?;
    if counted == subjects.len() as u64 {
        tx.commit().await?;
        return Ok(Ok(()));
    }
    tx.rollback().await?;
    let sql = format!(
        "SELECT CASE WHEN f.failures < f.free OR {IS_FORGOTTEN} THEN 0
                ELSE greatest(0, ceil(extract(epoch FROM {NEXT} - clock_timestamp()) * 1000))::bigint END
         FROM unnest($1::bytea[]) WITH ORDINALITY AS t (subject, place)
         LEFT JOIN public.login_failures f USING (subject) ORDER BY t.place"
    );
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&keys]).await?;
    let wait = |row: &tokio_postgres::Row| u64::try_from(row.get::<_, Option<i64>>(0).unwrap_or(0)).unwrap_or(0);
    let mut waits: Vec<u64> = rows.iter().map(wait).collect();
    if waits.iter().all(|ms| *ms == 0)
        && let Some(first) = waits.first_mut()
    {
        *first = 1; // the delay ended between the two statements
    }
    Ok(Err(waits))
}

/// Takes a try back: its password was right, or nothing was looked at. A right one clears the first of its subjects,
/// which is its place.
pub async fn give_back(pool: &Pool, subjects: &[Subject], clears_place: bool) -> Result<(), StoreError> {
    let keys: Vec<&[u8]> = subjects.iter().map(|subject| subject.key.as_slice()).collect();
    let client = pool.get().await?;
    let place: &[u8] = if clears_place { keys.first().copied().unwrap_or_default() } else { &[] };
    // The next try may begin at once, as this one could.
    let sql =
        "WITH turn AS (SELECT subject FROM public.login_failures WHERE subject = ANY($1) ORDER BY subject FOR UPDATE)
               UPDATE public.login_failures f
               SET failures = CASE WHEN f.subject = $2 THEN 0 ELSE greatest(0, f.failures - 1) END,
                   last_at = clock_timestamp() - make_interval(secs => f.longest_ms / 1000.0)
               FROM turn WHERE f.subject = turn.subject";
    client.execute(&client.prepare_cached(sql).await?, &[&keys, &place]).await?;
    Ok(())
}

/// Removes what is forgotten.
pub async fn sweep(pool: &Pool) -> Result<(), StoreError> {
    let client = pool.get().await?;
    client.execute(&format!("DELETE FROM public.login_failures f WHERE {IS_FORGOTTEN}"), &[]).await?;
    Ok(())
}
