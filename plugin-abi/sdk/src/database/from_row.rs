//! Rows as the author's own types: [`FromRow`], and the methods of [`Connection`] that return them.

use postgres_types::{FromSql, Json, ToSql};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Connection, Row, ToStatement};
use crate::{Error, Result, error::place};

/// A type that is made of a row.
///
/// `#[derive(FromRow)]` implements it for a struct, by the names of its fields: each reads the column of its name,
/// `#[row(name = "...")]` another one, and `#[row(json)]` a `json` or `jsonb` column by serde. Columns without a field
/// are ignored. Tuples of up to eight members are made in the order of the columns.
///
/// ```
/// use cardinal_plugin::testing::{TestHost, lacks_database};
/// use cardinal_plugin::{FromRow, PluginContext, Result, Router, Uuid, block_on};
///
/// #[derive(FromRow)]
/// struct Note {
///     id: i64,
///     card_id: Uuid,
///     #[row(name = "text")]
///     words: String,
///     #[row(json)]
///     tags: Vec<String>, // of a jsonb column
///     #[row(json)]
///     size: Option<(u32, u32)>,
///     by: Option<String>,
/// }
///
/// async fn notes(ctx: &PluginContext, card: Uuid) -> Result<Vec<Note>> {
///     let conn = ctx.get_plugin_conn().await?;
///     conn.query_as("SELECT id, card_id, text, tags, size, by FROM notes WHERE card_id = $1", &[&card]).await
/// }
///
/// async fn count(ctx: &PluginContext) -> Result<i64> {
///     let (count,) = ctx.get_plugin_conn().await?.query_one_as("SELECT count(*) FROM notes", &[]).await?;
///     Ok(count)
/// }
///
/// if lacks_database() {
///     return;
/// }
/// let schema = "CREATE TABLE notes (id bigint, card_id uuid, text text, tags jsonb, size jsonb, by text);
///     INSERT INTO notes VALUES (1, '00000000-0000-0000-0000-000000000000', 'check the legs', '[\"oak\"]', NULL, NULL)";
/// let host = TestHost::builder(r#"{ "name": "notes", "version": "1.0.0" }"#);
/// let host = host.database(schema).start(|_: &PluginContext| Router::new());
/// let notes = block_on(notes(&host.context(), Uuid::nil())).unwrap();
/// assert_eq!((notes[0].words.as_str(), notes[0].tags[0].as_str()), ("check the legs", "oak"));
/// assert_eq!((notes[0].size, &notes[0].by), (None, &None));
/// assert_eq!(block_on(count(&host.context())).unwrap(), 1);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of a row",
    note = "write `#[derive(cardinal_plugin::FromRow)]` above the struct, or ask for a tuple of the columns"
)]
pub trait FromRow: Sized {
    /// Reads a row.
    ///
    /// By hand it is for what the derive cannot say:
    ///
    /// ```
    /// use cardinal_plugin::{FromRow, Result, Row};
    ///
    /// struct Price {
    ///     euros: f64,
    /// }
    ///
    /// impl FromRow for Price {
    ///     fn from_row(row: &Row) -> Result<Self> {
    ///         Ok(Self { euros: row.try_get::<_, i64>("cents")? as f64 / 100.0 })
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// An internal error, with the column's name, when a column is missing, its type does not fit, or it is NULL and
    /// the field is not an `Option`.
    fn from_row(row: &Row) -> Result<Self>;
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+))*) => {$(
        impl<$($name: for<'a> FromSql<'a>),+> FromRow for ($($name,)+) {
            fn from_row(row: &Row) -> Result<Self> {
                Ok(($(row.try_get::<_, $name>($at)?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

/// A `json` or `jsonb` column by serde, for `#[row(json)]`. NULL is read like the `null` of JSON.
///
/// # Errors
/// Those of [`Row::try_get`], and NULL where `T` takes no `null`.
#[doc(hidden)]
pub fn json_column<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T> {
    match row.try_get::<_, Option<Json<T>>>(column)? {
        Some(Json(value)) => Ok(value),
        None => T::deserialize(Value::Null).map_err(|_| Error::internal(format!("column `{column}` is NULL"))),
    }
}

impl Connection {
    /// Runs a statement like [`query`](Self::query) and returns the rows as [`FromRow`] types.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, FromRow, Result};
    ///
    /// #[derive(FromRow)]
    /// struct Price {
    ///     sku: String,
    ///     cents: i64,
    /// }
    ///
    /// async fn prices(conn: &Connection, supplier: &str) -> Result<Vec<Price>> {
    ///     conn.query_as("SELECT sku, cents FROM prices WHERE supplier = $1", &[&supplier]).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query`](Self::query), and of [`FromRow::from_row`].
    #[track_caller]
    pub fn query_as<R: FromRow>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<R>>> {
        place::asked(async move { self.query(statement, params).await?.iter().map(R::from_row).collect() })
    }

    /// Runs a statement like [`query_one`](Self::query_one) and returns the row as a [`FromRow`] type.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// async fn count_and_sum(conn: &Connection) -> Result<(i64, Option<i64>)> {
    ///     conn.query_one_as("SELECT count(*), sum(cents)::bigint FROM prices", &[]).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query_one`](Self::query_one), and of [`FromRow::from_row`].
    #[track_caller]
    pub fn query_one_as<R: FromRow>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<R>> {
        place::asked(async move { R::from_row(&self.query_one(statement, params).await?) })
    }

    /// Runs a statement like [`query_opt`](Self::query_opt) and returns the row, if there is one, as a [`FromRow`]
    /// type.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, FromRow, Result};
    ///
    /// #[derive(FromRow)]
    /// struct Rating {
    ///     stars: i16,
    ///     text: Option<String>,
    /// }
    ///
    /// async fn rating(conn: &Connection, id: i64) -> Result<Option<Rating>> {
    ///     conn.query_opt_as("SELECT stars, text FROM ratings WHERE id = $1", &[&id]).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query_opt`](Self::query_opt), and of [`FromRow::from_row`].
    #[track_caller]
    pub fn query_opt_as<R: FromRow>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Option<R>>> {
        place::asked(async move { self.query_opt(statement, params).await?.as_ref().map(R::from_row).transpose() })
    }

    /// Runs a statement like [`query`](Self::query) and returns the first column of each row.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Uuid};
    ///
    /// async fn texts(ctx: &PluginContext, card: Uuid) -> Result<Vec<String>> {
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     conn.query_values("SELECT text FROM notes WHERE card_id = $1 ORDER BY id", &[&card]).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query`](Self::query), and of [`Row::try_get`].
    #[track_caller]
    pub fn query_values<T: for<'a> FromSql<'a>>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<T>>> {
        place::asked(async move { self.query(statement, params).await?.iter().map(|row| row.try_get(0)).collect() })
    }
}
