//! What failed in a job, in its order.

use std::collections::HashMap;

use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// The first `count` errors of each of these jobs.
pub async fn first_errors(pool: &Pool, jobs: &[Uuid], count: i64) -> Result<HashMap<Uuid, Vec<Value>>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT e.job_id, e.error FROM unnest($1::uuid[]) job (id) CROSS JOIN LATERAL ( \
               SELECT job_id, number, error FROM public.job_errors WHERE job_id = job.id ORDER BY number LIMIT $2) e \
               ORDER BY e.job_id, e.number";
    let mut errors = HashMap::<Uuid, Vec<Value>>::new();
    for row in client.query(&client.prepare_cached(sql).await?, &[&jobs, &count]).await? {
        errors.entry(row.try_get("job_id")?).or_default().push(row.try_get("error")?);
    }
    Ok(errors)
}

/// Errors of a job in their order, behind number `after`, with their numbers.
pub async fn errors(pool: &Pool, id: Uuid, after: i64, limit: i64) -> Result<Vec<(i64, Value)>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT number, error FROM public.job_errors WHERE job_id = $1 AND number > $2 ORDER BY number LIMIT $3";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&id, &after, &limit]).await?;
    let pair = |row: &Row| Ok((row.try_get("number")?, row.try_get("error")?));
    rows.iter().map(pair).collect::<Result<_, tokio_postgres::Error>>().map_err(Into::into)
}
