//! What a handler reads of the query. A parameter that its type does not name is refused before the handler runs.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    http::error::ApiResult,
    openapi::{self, Operation},
};
use cardinal_base::input;

/// A type of query, in a handler's signature.
pub trait QueryType: 'static {
    type Value;

    fn read(query: Option<&str>) -> ApiResult<Self::Value>;

    /// Which parameters there are.
    fn names() -> QueryNames;

    fn describe(op: &mut Operation<'_>);
}

/// The query parameters that a route takes.
pub enum QueryNames {
    Only(Vec<String>),
    Any,
}

impl QueryNames {
    /// 400 for a parameter that is not one of these, or that stands there twice.
    pub fn check(&self, query: Option<&str>) -> ApiResult<()> {
        match (self, query) {
            (_, None | Some("")) | (Self::Any, _) => Ok(()),
            (Self::Only(names), Some(query)) => Ok(input::check_query_names(query, names)?),
        }
    }
}

/// No parameter.
pub struct NoQuery;

impl QueryType for NoQuery {
    type Value = ();

    fn read(_: Option<&str>) -> ApiResult<()> {
        Ok(())
    }

    fn names() -> QueryNames {
        QueryNames::Only(Vec::new())
    }

    fn describe(_: &mut Operation<'_>) {}
}

/// Any query, which is ignored. For probes alone: elsewhere a typing error must not be ignored.
pub(crate) struct AnyQuery;

impl QueryType for AnyQuery {
    type Value = ();

    fn read(_: Option<&str>) -> ApiResult<()> {
        Ok(())
    }

    fn names() -> QueryNames {
        QueryNames::Any
    }

    fn describe(_: &mut Operation<'_>) {}
}

/// Each field of `T` is a parameter.
pub(crate) struct Query<T>(PhantomData<T>);

impl<T: DeserializeOwned + JsonSchema + 'static> QueryType for Query<T> {
    type Value = T;

    fn read(query: Option<&str>) -> ApiResult<T> {
        Ok(input::query(query)?)
    }

    fn names() -> QueryNames {
        QueryNames::Only(openapi::query_names(Self::describe))
    }

    fn describe(op: &mut Operation<'_>) {
        op.query::<T>();
    }
}
