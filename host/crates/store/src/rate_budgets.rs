//! The tables `hosts` and `rate_budgets`: who shares the database, and what of each caller's budget
//! is spent or leased.

use deadpool_postgres::Pool;
use uuid::Uuid;

use crate::error::StoreError;

/// What a host asks for one caller.
#[derive(Clone, Copy, Debug)]
pub struct BudgetRow {
    pub subject: Uuid,
    /// Calls that were made without a portion; negative: a portion that is given back.
    pub debit: f64,
    pub want: f64,
    /// Calls a second.
    pub rate: f64,
    /// Calls that may be spent or leased at one time.
    pub room: f64,
}

/// What it gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    pub subject: Uuid,
    pub granted: f64,
    /// What all hosts together have spent or hold now.
    pub spent: f64,
}

/// Says that a host is there; how many were heard of in the last five seconds.
pub async fn seen(pool: &Pool, host: Uuid) -> Result<u32, StoreError> {
    let client = pool.get().await?;
    let sql = "WITH mine AS (
                 INSERT INTO public.hosts AS h (id, seen_at) VALUES ($1, now())
                 ON CONFLICT (id) DO UPDATE SET seen_at = now())
               SELECT 1 + count(*) FROM public.hosts WHERE id <> $1 AND seen_at > now() - interval '5 seconds'";
    let row = client.query_one(&client.prepare_cached(sql).await?, &[&host]).await?;
    Ok(u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(1))
}

/// A host ends.
pub async fn leave(pool: &Pool, host: Uuid) -> Result<(), StoreError> {
    let client = pool.get().await?;
    client.execute("DELETE FROM public.hosts WHERE id = $1", &[&host]).await?;
    Ok(())
}

/// Settles a host's lines, each in one atomic step: what was spent falls with time, the debit comes
/// on top, and of what is left the host gets what it wants; half of it while another wants it too.
///
/// Lines come in the order of their subjects, so that hosts never block each other for good.
pub async fn exchange(pool: &Pool, host: Uuid, lines: &[BudgetRow]) -> Result<Vec<Portion>, StoreError> {
    const CONTENDED: &str = "greatest(b.contended_at, CASE WHEN b.taker <> excluded.taker THEN b.taken_at END) \
         > excluded.at - interval '3 seconds'";
    const OWED: &str = "greatest(0, greatest(0, b.spent - excluded.rate * greatest(0, extract(epoch FROM excluded.at - b.at)::float8)) \
         + excluded.debit)";
    let granted = format!(
        "least(excluded.want, greatest(0, (excluded.room - {OWED}) * CASE WHEN {CONTENDED} THEN 0.5 ELSE 1 END))"
    );
    let sql = format!(
        "INSERT INTO public.rate_budgets AS b (subject, debit, want, rate, room, granted, spent, at, taker, taken_at)
         SELECT subject, debit, want, rate, room, least(want, greatest(0, room - greatest(0, debit))),
                greatest(0, debit) + least(want, greatest(0, room - greatest(0, debit))), clock_timestamp(), $1,
                clock_timestamp()
         FROM unnest($2::uuid[], $3::float8[], $4::float8[], $5::float8[], $6::float8[])
              AS line (subject, debit, want, rate, room)
         ORDER BY subject
         ON CONFLICT (subject) DO UPDATE SET
           debit = excluded.debit, want = excluded.want, rate = excluded.rate, room = excluded.room,
           granted = {granted}, spent = {OWED} + {granted}, at = greatest(b.at, excluded.at),
           contended_at = CASE WHEN excluded.want > 0 AND b.taker <> excluded.taker THEN b.taken_at ELSE b.contended_at END,
           taker = CASE WHEN excluded.want > 0 THEN excluded.taker ELSE b.taker END,
           taken_at = CASE WHEN excluded.want > 0 THEN excluded.at ELSE b.taken_at END
         RETURNING subject, granted, spent"
    );
    let column = |of: fn(&BudgetRow) -> f64| lines.iter().map(of).collect::<Vec<f64>>();
    let subjects: Vec<Uuid> = lines.iter().map(|line| line.subject).collect();
    let (debits, wants) = (column(|line| line.debit), column(|line| line.want));
    let (rates, rooms) = (column(|line| line.rate), column(|line| line.room));
    let client = pool.get().await?;
    let statement = client.prepare_cached(&sql).await?;
    let rows = client.query(&statement, &[&host, &subjects, &debits, &wants, &rates, &rooms]).await?;
    let portion = |row: &tokio_postgres::Row| {
        Ok(Portion { subject: row.try_get("subject")?, granted: row.try_get("granted")?, spent: row.try_get("spent")? })
    };
    rows.iter().map(portion).collect::<Result<_, tokio_postgres::Error>>().map_err(Into::into)
}

/// Forgets budgets that are whole again, and hosts that have not been heard of for a day.
pub async fn sweep(pool: &Pool) -> Result<(), StoreError> {
    let client = pool.get().await?;
    client
        .execute(
            "DELETE FROM public.rate_budgets WHERE at < now() - interval '1 minute' \
             AND spent <= rate * extract(epoch FROM now() - at)::float8",
            &[],
        )
        .await?;
    client.execute("DELETE FROM public.hosts WHERE seen_at < now() - interval '1 day'", &[]).await?;
    Ok(())
}
