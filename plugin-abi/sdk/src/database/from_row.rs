//! Rows as the author's own types.

use postgres_types::{FromSql, ToSql};

use super::{Connection, Row, ToStatement};
use crate::Result;

/// A type that is made of a row. `#[derive(FromRow)]` does it for a struct, by the names of its fields; tuples are made in
/// the order of the columns.
///
/// ```
/// use cardinal_plugin::{FromRow, PluginContext, Result, Uuid};
///
/// #[derive(FromRow)]
/// struct Note {
///     id: i64,
///     card_id: Uuid,
///     #[row(name = "text")]
///     words: String,
///     #[row(json)]
///     tags: Vec<String>, // of a jsonb column
///     by: Option<String>,
/// }
///
/// async fn notes(ctx: &PluginContext, card: Uuid) -> Result<Vec<Note>> {
///     let conn = ctx.get_plugin_conn().await?;
///     conn.query_as("SELECT id, card_id, text, tags, by FROM notes WHERE card_id = $1", &[&card]).await
/// }
///
/// async fn count(ctx: &PluginContext) -> Result<i64> {
///     let (count,) = ctx.get_plugin_conn().await?.query_one_as("SELECT count(*) FROM notes", &[]).await?;
///     Ok(count)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of a row",
    note = "write `#[derive(cardinal_plugin::FromRow)]` above the struct, or ask for a tuple of the columns"
)]
pub trait FromRow: Sized {
    /// Reads a row.
    ///
    /// # Errors
    /// When a column is missing, its type does not fit, or it is NULL and the field is no `Option`.
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

impl Connection {
    /// [`query`](Self::query), with the rows as [`FromRow`] types.
    ///
    /// # Errors
    /// Those of `query`, and of [`FromRow::from_row`].
    pub async fn query_as<R: FromRow>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<R>> {
        self.query(statement, params).await?.iter().map(R::from_row).collect()
    }

    /// [`query_one`](Self::query_one), with the row as a [`FromRow`] type.
    ///
    /// # Errors
    /// Those of `query_one`, and of [`FromRow::from_row`].
    pub async fn query_one_as<R: FromRow>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<R> {
        R::from_row(&self.query_one(statement, params).await?)
    }

    /// [`query_opt`](Self::query_opt), with the row as a [`FromRow`] type.
    ///
    /// # Errors
    /// Those of `query_opt`, and of [`FromRow::from_row`].
    pub async fn query_opt_as<R: FromRow>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<R>> {
        self.query_opt(statement, params).await?.as_ref().map(R::from_row).transpose()
    }

    /// [`query`](Self::query), with the first column of each row as a value.
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
    /// Those of `query`, and of [`Row::try_get`].
    pub async fn query_values<T: for<'a> FromSql<'a>>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<T>> {
        self.query(statement, params).await?.iter().map(|row| row.try_get(0)).collect()
    }
}
