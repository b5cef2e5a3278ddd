//! Prepared statements, and what a connection takes for a statement.
//!
//! Parameters are encoded here, by the types that PostgreSQL has found for them, and checked before anything is sent.

use std::{fmt, sync::Arc};

use bytes::BytesMut;
use cardinal_plugin_abi::{host::ConnId, values};
use postgres_types::{IsNull, ToSql, Type};

use super::{row::Column, shape::Shape};
use crate::{Error, Result};

/// A prepared statement of one connection, from [`Connection::prepare`](super::Connection::prepare). Cloning is cheap.
///
/// It says which types PostgreSQL has found for the parameters and the columns. It is good for as long as its
/// connection is held.
///
/// ```
/// use cardinal_plugin::testing::{TestHost, lacks_database};
/// use cardinal_plugin::{PluginContext, Result, Router, block_on, postgres::Type};
///
/// async fn types(ctx: PluginContext) -> Result<()> {
///     let conn = ctx.get_plugin_conn().await?;
///     let doubled = conn.prepare("SELECT $1::bigint * 2 AS doubled").await?;
///     assert_eq!((doubled.params(), doubled.columns()[0].name()), (&[Type::INT8][..], "doubled"));
///     assert_eq!(conn.query_one(&doubled, &[&21_i64]).await?.get::<_, i64>("doubled"), 42);
///     Ok(())
/// }
///
/// if lacks_database() {
///     return;
/// }
/// let host = TestHost::builder(r#"{ "name": "types", "version": "1.0.0" }"#);
/// let host = host.database("").start(|_: &PluginContext| Router::new());
/// block_on(types(host.context())).unwrap();
/// ```
#[derive(Clone)]
pub struct Statement {
    pub(super) inner: Arc<StatementInner>,
}

pub(super) struct StatementInner {
    pub conn: ConnId,
    pub shape: Arc<Shape>,
}

impl Statement {
    /// Returns the types of the parameters, `$1` first.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result, postgres::Type};
    ///
    /// async fn takes_a_number(conn: &Connection) -> Result<bool> {
    ///     let delete = conn.prepare("DELETE FROM ratings WHERE id = $1").await?;
    ///     Ok(delete.params() == [Type::INT8])
    /// }
    /// ```
    pub fn params(&self) -> &[Type] {
        &self.inner.shape.params
    }

    /// Returns the columns of the result, in their order; none when the statement gives no rows.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// /// Whether the statement gives rows at all.
    /// async fn gives_rows(conn: &Connection, sql: &str) -> Result<bool> {
    ///     Ok(!conn.prepare(sql).await?.columns().is_empty())
    /// }
    /// ```
    pub fn columns(&self) -> &[Column] {
        &self.inner.shape.columns
    }

    /// The parameters on their way to the host; checks number and types.
    pub(super) fn encode(&self, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<u8>> {
        let types = self.params();
        if types.len() != params.len() {
            let text = format!("the statement takes {} parameters, {} were given", types.len(), params.len());
            return Err(Error::internal(text));
        }
        let (mut out, mut value) = (Vec::new(), BytesMut::new());
        for (i, (param, of)) in params.iter().zip(types).enumerate() {
            value.clear();
            let fault = |error| Error::internal(format!("parameter ${} of type {of}: {error}", i + 1));
            let written = match param.to_sql_checked(of, &mut value).map_err(fault)? {
                IsNull::Yes => values::push(&mut out, None),
                IsNull::No => values::push(&mut out, Some(&value)),
            };
            if !written {
                return Err(Error::internal(format!("parameter ${} is larger than PostgreSQL takes", i + 1)));
            }
        }
        Ok(out)
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement").field("params", &self.inner.shape.params).finish_non_exhaustive()
    }
}

/// What a connection takes for a statement: SQL text, or a [`Statement`] that
/// [`Connection::prepare`](super::Connection::prepare) made. Other types can't implement it.
///
/// ```
/// use cardinal_plugin::{Connection, Result, ToStatement};
///
/// /// Takes SQL or what was prepared from it, as the methods of [`Connection`] do.
/// async fn count(conn: &Connection, statement: &(impl ToStatement + ?Sized)) -> Result<usize> {
///     Ok(conn.query(statement, &[]).await?.len())
/// }
///
/// async fn count_twice(conn: &Connection) -> Result<usize> {
///     let prices = conn.prepare("SELECT FROM prices").await?;
///     Ok(count(conn, &prices).await? + count(conn, "SELECT FROM ratings").await?)
/// }
/// ```
pub trait ToStatement: sealed::Sealed + Sync {
    #[doc(hidden)]
    fn source(&self) -> Source<'_>;
}

#[doc(hidden)]
#[derive(Debug)]
pub enum Source<'a> {
    Sql(&'a str),
    Prepared(&'a Statement),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for str {}
    impl Sealed for String {}
    impl Sealed for super::Statement {}
}

impl ToStatement for str {
    fn source(&self) -> Source<'_> {
        Source::Sql(self)
    }
}

impl ToStatement for String {
    fn source(&self) -> Source<'_> {
        Source::Sql(self)
    }
}

impl ToStatement for Statement {
    fn source(&self) -> Source<'_> {
        Source::Prepared(self)
    }
}
