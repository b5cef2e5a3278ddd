//! The table `import_rows`: rows that can't be written yet, and SKUs of those that won't be.

use std::pin::pin;

use deadpool_postgres::Transaction;
use tokio_postgres::{binary_copy::BinaryCopyInWriter, types::Type};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_cards::row::Row;
use cardinal_database::pool::Pool;

/// Keeps rows that are written when all of them are known.
pub async fn stage(tx: &Transaction<'_>, job: Uuid, rows: &[Row]) -> Result<(), StoreError> {
    let texts = rows.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>().map_err(StoreError::internal)?;
    let staged = rows.iter().zip(&texts).map(|(row, text)| (row.line, row.sku.as_str(), Some(text.as_str())));
    put(tx, job, staged).await
}

/// Lines, SKUs and rows.
pub(super) async fn put<'r>(
    tx: &Transaction<'_>,
    job: Uuid,
    rows: impl Iterator<Item = (i64, &'r str, Option<&'r str>)>,
) -> Result<(), StoreError> {
    let sql = "COPY public.import_rows (job_id, line, sku, row) FROM STDIN BINARY";
    let types = [Type::UUID, Type::INT8, Type::TEXT, Type::TEXT];
    let mut out = pin!(BinaryCopyInWriter::new(tx.copy_in(sql).await?, &types));
    for (line, sku, row) in rows {
        out.as_mut().write(&[&job, &line, &sku, &row]).await?;
    }
    out.finish().await?;
    Ok(())
}

/// Rows behind line `after`, in their order.
pub async fn staged(tx: &Transaction<'_>, job: Uuid, after: i64, at_most: i64) -> Result<Vec<Row>, StoreError> {
    let sql = "SELECT row FROM public.import_rows WHERE job_id = $1 AND line > $2 ORDER BY line LIMIT $3";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&job, &after, &at_most]).await?;
    rows.iter().map(|row| serde_json::from_str(row.try_get(0)?).map_err(StoreError::internal)).collect()
}

/// Which of the rows' SKUs earlier rows of the same file had.
pub(super) async fn seen(tx: &Transaction<'_>, job: Uuid, rows: &[&Row]) -> Result<Vec<String>, StoreError> {
    let skus: Vec<&str> = rows.iter().map(|row| row.sku.as_str()).collect();
    let sql = "SELECT sku FROM public.import_rows WHERE job_id = $1 AND sku = ANY($2)";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&job, &skus]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Forgets what was kept for a job.
pub async fn forget(pool: &Pool, job: Uuid) -> Result<(), StoreError> {
    let client = pool.get().await?;
    client.execute("DELETE FROM public.import_rows WHERE job_id = $1", &[&job]).await?;
    Ok(())
}
