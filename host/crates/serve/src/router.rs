//! One table of routes, and finding a path in it.
//!
//! Access is part of the table: no handler can forget it, and a route without it doesn't compile.
//! Plugins' routes live in the registry's snapshot and are found through the one row that ends
//! with the plugin's prefix.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Method, header};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    api,
    app::App,
    http::reply::Reply,
    openapi::{self, Describe},
    request::Call,
};
use cardinal_base::{codes, input};
use cardinal_observe::meter::{Meter, Requests};

/// Who may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without a credential.
    Public,
    /// Everybody with a valid credential.
    Authenticated,
    /// Who holds this scope.
    Scope(&'static str),
    /// What the plugin's route asks for; the registry knows it.
    Plugin,
}

/// What is read of the body before the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Nothing; the handler takes the body as a stream or not at all.
    Nothing,
    /// Nothing; the handler takes the body as a stream that may last for hours, and has bounds of its own.
    Stream,
    /// JSON of at most this many bytes.
    Json(usize),
    /// JSON or JSON Merge Patch of at most this many bytes; the type must be said.
    MergePatch(usize),
}

/// Bytes of a small JSON body: a login, a key.
pub const SMALL: usize = 16 * 1024;
/// Bytes of a card's JSON body: more than the largest card, so that what is over the limit is told its size.
pub const CARD: usize = 12 * 1024 * 1024;

pub type Handler = for<'a> fn(&'a Arc<App>, Call) -> BoxFuture<'a, ApiResult<Reply>>;

/// A row of the table.
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub reads: Reads,
    pub handler: Handler,
    /// What the API's description says of it. The query parameters that it names are the only ones that are taken.
    pub told: Option<Describe>,
    /// The query parameters that are taken.
    pub query: Query,
}

impl Route {
    /// Says what the row is for whoever reads the API's description; a row without it fails a test by name.
    #[must_use]
    pub fn describe(self, told: Describe) -> Self {
        Self { told: Some(told), ..self }
    }

    /// Takes any query and ignores it. For probes alone: elsewhere a typing error must not be ignored.
    #[must_use]
    pub fn ignores_query(self) -> Self {
        Self { query: Query::Any, ..self }
    }

    /// 400 for a query parameter that the row does not name, or that stands there twice.
    pub fn check_query(&self, query: Option<&str>) -> ApiResult<()> {
        match (&self.query, query) {
            (_, None | Some("")) | (Query::Any, _) => Ok(()),
            (Query::Described, Some(query)) => Ok(input::check_query_names(query, &[])?),
            (Query::Only(names), Some(query)) => Ok(input::check_query_names(query, names)?),
        }
    }

    fn gather_query(&mut self) {
        if self.access == Access::Plugin {
            self.query = Query::Any;
        }
        if matches!(self.query, Query::Described) {
            self.query = Query::Only(self.told.map(openapi::query_names).unwrap_or_default());
        }
    }
}

/// A row: `route!(GET "/path", Access, Reads, handler)`.
#[macro_export]
macro_rules! route {
    ($method:ident $path:literal, $access:expr, $reads:expr, $handler:path) => {
        $crate::router::Route {
            method: ::http::Method::$method,
            path: $path,
            access: $access,
            reads: $reads,
            handler: |app, call| Box::pin($handler(app, call)),
            told: None,
            query: $crate::router::Query::Described,
        }
    };
}

/// The compiled table.
pub struct Router {
    routes: Vec<Route>,
    /// Of each row.
    meters: Vec<&'static Meter>,
    /// Path → the rows with that path.
    paths: matchit::Router<Vec<usize>>,
}

/// The query parameters that a row takes.
pub enum Query {
    /// Those of its description, which are not gathered yet.
    Described,
    Only(Vec<String>),
    /// Any: a plugin's route judges its own, a probe has none.
    Any,
}

/// A route that fits a request.
pub struct Found<'r> {
    pub route: &'r Route,
    pub meter: &'static Meter,
    pub params: Params,
}

/// Path parameters, percent-decoded, in the order of the template.
#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// An id; what is no UUID names nothing: 404.
    pub fn id(&self, name: &str, what: &str) -> ApiResult<uuid::Uuid> {
        self.get(name).and_then(|text| uuid::Uuid::try_parse(text).ok()).ok_or_else(|| ApiError::not_found(what))
    }
}

impl Router {
    /// Compiles the core's table.
    pub fn new(requests: &Requests) -> anyhow::Result<Self> {
        let mut routes = api::routes();
        routes.iter_mut().for_each(Route::gather_query);
        let mut by_path: Vec<(&'static str, Vec<usize>)> = Vec::new();
        for (i, route) in routes.iter().enumerate() {
            match by_path.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, rows)) => rows.push(i),
                None => by_path.push((route.path, vec![i])),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, rows) in by_path {
            paths.insert(path, rows)?;
        }
        let meters = routes.iter().map(|route| requests.route(&route.method, route.path)).collect();
        Ok(Self { routes, meters, paths })
    }

    /// The table's rows, for tests and the API description.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The row for `method` and `path`; 404, or 405 with `Allow`. HEAD works where GET does.
    pub fn find(&self, method: &Method, path: &str) -> ApiResult<Found<'_>> {
        let matched = self.paths.at(path).map_err(|_| ApiError::new(&codes::NOT_FOUND))?;
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let mut rows = matched.value.iter().copied();
        let fits = |row: &usize| self.routes[*row].method == *method || self.routes[*row].access == Access::Plugin;
        let Some(row) = rows.find(fits) else {
            return Err(method_not_allowed(matched.value.iter().map(|row| &self.routes[*row].method)));
        };
        let (route, meter) = (&self.routes[row], self.meters[row]);
        // Plugins' calls are the hot path, and what their row leaves open is theirs to read.
        let params = match route.access {
            Access::Plugin => Vec::new(),
            _ => matched.params.iter().map(|(name, value)| (name.to_owned(), decode(value))).collect(),
        };
        Ok(Found { route, meter, params: Params(params) })
    }
}

/// 405 with the methods that work.
pub fn method_not_allowed<'m>(methods: impl Iterator<Item = &'m Method>) -> ApiError {
    let mut allow = Vec::new();
    for method in methods {
        allow.push(method.as_str());
        if method == Method::GET {
            allow.push("HEAD");
        }
    }
    ApiError::new(&codes::METHOD_NOT_ALLOWED).header(header::ALLOW, allow.join(", "))
}

/// The object that a path names by the last parameter of its template, when it looks like an id or a name: what else
/// was typed there may be a credential, and this is for the audit log.
pub fn object_of(template: &str, path: &str) -> Option<String> {
    let named = template.split('/').zip(path.split('/')).filter(|(part, _)| part.starts_with('{'));
    let (_, object) = named.last()?;
    let is_name =
        object.len() <= 64 && object.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    (!object.is_empty() && is_name).then(|| object.to_owned())
}

fn decode(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_act_was_aimed_at_is_an_id_or_a_name() {
        let id = "0190f7a2-1111-7222-8333-444455556666";
        assert_eq!(object_of("/v1/x/{id}/rotate", &format!("/v1/x/{id}/rotate")).as_deref(), Some(id));
        assert_eq!(object_of("/v1/x/{name}", "/v1/x/price-watch").as_deref(), Some("price-watch"));
        for other in ["/v1/x/mpk_abcDEF", "/v1/x/", "/v1/x/a%20b"] {
            assert_eq!(object_of("/v1/x/{id}", other), None, "{other}");
        }
        assert_eq!(object_of("/v1/x", "/v1/x"), None);
    }
}
