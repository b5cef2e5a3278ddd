//! The table `admin_views`: saved list views, each its owner's alone.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tokio_postgres::{Row, types::Json};
use uuid::Uuid;

use super::cards::Precondition;
use crate::error::StoreError;
use cardinal_base::db_error;
use cardinal_database::pool::Pool;

/// A view as its owner sees it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct View {
    pub id: Uuid,
    pub name: String,
    /// Query parameters of the list of cards.
    pub filter: Map<String, Value>,
    /// As the list takes it; null is the list's own order.
    pub sort: Option<String>,
    /// Columns to show, in order; null is the usual ones.
    pub columns: Option<Vec<String>>,
    pub version: i64,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "cardinal_base::schema::DateTime")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "cardinal_base::schema::DateTime")]
    pub updated_at: OffsetDateTime,
}

/// What a view is made of.
#[derive(Clone, Debug)]
pub struct Content {
    pub name: String,
    pub filter: Map<String, Value>,
    pub sort: Option<String>,
    pub columns: Option<Vec<String>>,
}

const COLUMNS: &str = "id, name, filter, sort, columns, version, created_at, updated_at";

fn from_row(row: &Row) -> View {
    View {
        id: row.get("id"),
        name: row.get("name"),
        filter: row.get::<_, Json<_>>("filter").0,
        sort: row.get("sort"),
        columns: row.get::<_, Option<Json<_>>>("columns").map(|columns| columns.0),
        version: row.get("version"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    }
}

fn name_taken(error: tokio_postgres::Error) -> StoreError {
    match db_error::violated(&error) {
        Some("admin_views_name") => StoreError::NameTaken("You have a view of this name already."),
        _ => error.into(),
    }
}

/// All of an owner's, in the order of their names.
pub async fn list(pool: &Pool, owner: Uuid) -> Result<Vec<View>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.admin_views WHERE owner_id = $1 ORDER BY lower(name), id");
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&owner]).await?;
    Ok(rows.iter().map(from_row).collect())
}

pub async fn get(pool: &Pool, owner: Uuid, id: Uuid) -> Result<Option<View>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.admin_views WHERE owner_id = $1 AND id = $2");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&owner, &id]).await?;
    Ok(row.as_ref().map(from_row))
}

/// A new view, unless its owner has `max_views` already. Who makes several at the same moment may end a few above that.
pub async fn insert(pool: &Pool, owner: Uuid, new: &Content, max_views: i64) -> Result<Option<View>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "INSERT INTO public.admin_views (id, owner_id, name, filter, sort, columns) SELECT $1, $2, $3, $4, $5, $6 \
         WHERE (SELECT count(*) FROM public.admin_views WHERE owner_id = $2) < $7 RETURNING {COLUMNS}"
    );
    let statement = client.prepare_cached(&sql).await?;
    let (filter, columns) = (Json(&new.filter), new.columns.as_ref().map(Json));
    let row = client
        .query_opt(&statement, &[&Uuid::now_v7(), &owner, &new.name, &filter, &new.sort, &columns, &max_views])
        .await
        .map_err(name_taken)?;
    Ok(row.as_ref().map(from_row))
}

/// Changes a view. It is locked while `change` looks at what it is now; the inner error is `change`'s.
pub async fn update<E>(
    pool: &Pool,
    owner: Uuid,
    id: Uuid,
    precondition: &Precondition,
    change: impl FnOnce(View) -> Result<Content, E> + Send,
) -> Result<Result<View, E>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let now = lock(&tx, owner, id, precondition).await?;
    let content = match change(now) {
        Ok(content) => content,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let sql = format!(
        "UPDATE public.admin_views SET name = $2, filter = $3, sort = $4, columns = $5, version = version + 1, \
         updated_at = now() WHERE id = $1 RETURNING {COLUMNS}"
    );
    let (filter, columns) = (Json(&content.filter), content.columns.as_ref().map(Json));
    let statement = tx.prepare_cached(&sql).await?;
    let row =
        tx.query_one(&statement, &[&id, &content.name, &filter, &content.sort, &columns]).await.map_err(name_taken)?;
    tx.commit().await?;
    Ok(Ok(from_row(&row)))
}

pub async fn delete(pool: &Pool, owner: Uuid, id: Uuid, precondition: &Precondition) -> Result<(), StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    lock(&tx, owner, id, precondition).await?;
    tx.execute("DELETE FROM public.admin_views WHERE id = $1", &[&id]).await?;
    tx.commit().await?;
    Ok(())
}

async fn lock(
    tx: &deadpool_postgres::Transaction<'_>,
    owner: Uuid,
    id: Uuid,
    precondition: &Precondition,
) -> Result<View, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM public.admin_views WHERE owner_id = $1 AND id = $2 FOR UPDATE");
    let row = tx.query_opt(&tx.prepare_cached(&sql).await?, &[&owner, &id]).await?;
    let view = from_row(&row.ok_or(StoreError::NotFound("view"))?);
    precondition.check(view.version)?;
    Ok(view)
}
