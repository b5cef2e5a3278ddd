//! One table of routes, and finding a path in it.
//!
//! A row says all of a route: method, path, who may come in, what its handler reads (from the handler's own signature),
//! bounds, the audit log's word for it, and its description. Whoever builds the table hands the rows over; nothing here
//! knows a route.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::Method;

use crate::audit_action::AuditAction;
use crate::call::{Body, Call, CallHead, Params, QueryNames, QueryType, Reads};
use crate::http::{
    error::{ApiError, ApiResult},
    reply::Reply,
};
use crate::openapi::{Describe, Operation};
use cardinal_base::codes;
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
    /// Who may read the plugin that the path has as `{name}`.
    PluginRead,
}

/// Whether a call without a credential counts against the limit of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressLimit {
    /// It is counted, and refused when there were too many.
    Refuses,
    /// It is counted; the handler slows it down by rules of its own.
    Counts,
    /// Never: a host must not look dead because somebody else calls too often.
    Exempt,
}

/// Bytes of a JSON body where the row says nothing else: a login, a key.
pub(crate) const DEFAULT_BODY_LIMIT: usize = 16 * 1024;
/// Bytes of a card's JSON body: more than the largest card, so that the refusal of one over the limit can name its
/// size.
pub(crate) const CARD_BODY_LIMIT: usize = 12 * 1024 * 1024;

/// A handler whose types are forgotten.
type Run<S> = Box<dyn for<'a> Fn(&'a Arc<S>, CallHead) -> BoxFuture<'a, ApiResult<Reply>> + Send + Sync>;

/// A function that answers calls of type `C`. `S` is what all handlers share.
pub trait Handler<'a, S, C>: Send + Sync + 'static {
    type Future: Future<Output = ApiResult<Reply>> + Send + 'a;

    fn run(&self, state: &'a Arc<S>, call: C) -> Self::Future;
}

impl<'a, S: 'static, C, F, R> Handler<'a, S, C> for F
where
    F: Fn(&'a Arc<S>, C) -> R + Send + Sync + 'static,
    R: Future<Output = ApiResult<Reply>> + Send + 'a,
{
    type Future = R;

    fn run(&self, state: &'a Arc<S>, call: C) -> R {
        self(state, call)
    }
}

/// A row of the table.
pub struct Route<S> {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub reads: Reads,
    /// Bytes of a body that is read ahead.
    pub body_limit: usize,
    pub query: QueryNames,
    pub address_limit: AddressLimit,
    /// Machines ask for it every few seconds: answers that went well are no news.
    pub is_polled: bool,
    /// The action by which the audit log knows it.
    pub audits: Option<AuditAction>,
    pub run: Run<S>,
    types: Describe,
    description: Option<Describe>,
}

/// A row that does not say yet who may come in; only then it is a [`Route`].
pub struct NewRoute<S>(Route<S>);

impl<S: 'static> NewRoute<S> {
    /// Everybody may, without a credential.
    pub(crate) fn public(self) -> Route<S> {
        self.with_access(Access::Public)
    }

    /// Everybody with a valid credential may.
    pub(crate) fn authenticated(self) -> Route<S> {
        self.with_access(Access::Authenticated)
    }

    /// Who holds this scope may.
    pub(crate) fn scope(self, scope: &'static str) -> Route<S> {
        self.with_access(Access::Scope(scope))
    }

    /// Who may read the plugin that the path has as `{name}` may.
    pub(crate) fn plugin_read(self) -> Route<S> {
        self.with_access(Access::PluginRead)
    }

    fn with_access(self, access: Access) -> Route<S> {
        Route { access, ..self.0 }
    }
}

impl<S: 'static> NewRoute<S> {
    fn new<Q: QueryType, B: Body>(
        method: Method,
        path: &'static str,
        handler: impl for<'a> Handler<'a, S, Call<Q, B>>,
    ) -> Self {
        Self(Route {
            method,
            path,
            access: Access::Authenticated,
            reads: B::READS,
            body_limit: DEFAULT_BODY_LIMIT,
            query: Q::names(),
            address_limit: AddressLimit::Refuses,
            is_polled: false,
            audits: None,
            run: Box::new(move |state, head| Box::pin(handler.run(state, Call::new(head)))),
            types: |op| {
                Q::describe(op);
                B::describe(op);
            },
            description: None,
        })
    }
}

impl<S: 'static> Route<S> {
    pub fn get<Q: QueryType, B: Body>(
        path: &'static str,
        handler: impl for<'a> Handler<'a, S, Call<Q, B>>,
    ) -> NewRoute<S> {
        NewRoute::new(Method::GET, path, handler)
    }

    pub fn post<Q: QueryType, B: Body>(
        path: &'static str,
        handler: impl for<'a> Handler<'a, S, Call<Q, B>>,
    ) -> NewRoute<S> {
        NewRoute::new(Method::POST, path, handler)
    }

    pub fn put<Q: QueryType, B: Body>(
        path: &'static str,
        handler: impl for<'a> Handler<'a, S, Call<Q, B>>,
    ) -> NewRoute<S> {
        NewRoute::new(Method::PUT, path, handler)
    }

    pub fn patch<Q: QueryType, B: Body>(
        path: &'static str,
        handler: impl for<'a> Handler<'a, S, Call<Q, B>>,
    ) -> NewRoute<S> {
        NewRoute::new(Method::PATCH, path, handler)
    }

    pub fn delete<Q: QueryType, B: Body>(
        path: &'static str,
        handler: impl for<'a> Handler<'a, S, Call<Q, B>>,
    ) -> NewRoute<S> {
        NewRoute::new(Method::DELETE, path, handler)
    }

    /// Bytes of the JSON body; without this, [`DEFAULT_BODY_LIMIT`].
    #[must_use]
    pub(crate) fn body_limit(self, bytes: usize) -> Self {
        Self { body_limit: bytes, ..self }
    }

    #[must_use]
    pub fn audits(self, action: AuditAction) -> Self {
        Self { audits: Some(action), ..self }
    }

    #[must_use]
    pub(crate) fn address_limit(self, limit: AddressLimit) -> Self {
        Self { address_limit: limit, ..self }
    }

    #[must_use]
    pub fn polled(self) -> Self {
        Self { is_polled: true, ..self }
    }

    /// Says what the row is for whoever reads the API's description; a row without it fails a test by name.
    #[must_use]
    pub fn describe(self, description: Describe) -> Self {
        Self { description: Some(description), ..self }
    }

    pub fn is_described(&self) -> bool {
        self.description.is_some()
    }

    /// Writes into `op` what the handler reads and what the row says of it.
    pub(crate) fn write_description(&self, op: &mut Operation<'_>) {
        (self.types)(op);
        if let Some(description) = self.description {
            description(op);
        }
    }
}

/// The compiled table.
pub struct Router<S> {
    routes: Vec<Route<S>>,
    /// Of each row.
    meters: Vec<&'static Meter>,
    paths: matchit::Router<Rows>,
}

/// What stands at a path.
enum Rows {
    /// Rows of the table, by their places in it.
    Core(Vec<usize>),
    /// A plugin's own table is looked into. The template is what the log calls these paths.
    Plugin(&'static str),
}

/// What the table has at a path.
pub enum Place<'r, S> {
    Core(Core<'r, S>),
    /// A plugin serves below this template.
    Plugin(&'static str),
}

/// The core's routes at a path.
pub struct Core<'r, S> {
    router: &'r Router<S>,
    rows: &'r [usize],
    pub params: Params,
}

/// A row that fits a request, and what it is counted by.
pub type Row<'r, S> = (&'r Route<S>, &'static Meter);

impl<'r, S> Core<'r, S> {
    /// The row for a method.
    pub fn row(&self, method: &Method) -> Option<Row<'r, S>> {
        let routes = &self.router.routes;
        let row = *pick(self.rows, method, |row| &routes[*row].method)?;
        Some((&self.router.routes[row], self.router.meters[row]))
    }

    /// The methods that work here.
    pub fn methods(&self) -> impl Iterator<Item = &'r Method> {
        let routes = &self.router.routes;
        self.rows.iter().map(|row| &routes[*row].method)
    }
}

/// The row for a method among those of one path, the core's or a plugin's. HEAD works where GET does.
pub fn pick<'r, R>(rows: &'r [R], method: &Method, method_of: impl Fn(&'r R) -> &'r Method) -> Option<&'r R> {
    let with = |wanted: &Method| rows.iter().find(|row| method_of(row) == wanted);
    with(method).or_else(|| if method == Method::HEAD { with(&Method::GET) } else { None })
}

impl<S> Router<S> {
    /// Compiles a table. Paths of `plugin_paths` lead to plugins' own tables.
    pub fn new(routes: Vec<Route<S>>, plugin_paths: &[&'static str], requests: &Requests) -> anyhow::Result<Self> {
        let mut by_path: Vec<(&'static str, Vec<usize>)> = Vec::new();
        for (i, route) in routes.iter().enumerate() {
            match by_path.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, rows)) => rows.push(i),
                None => by_path.push((route.path, vec![i])),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, rows) in by_path {
            paths.insert(path, Rows::Core(rows))?;
        }
        for path in plugin_paths {
            paths.insert(*path, Rows::Plugin(path))?;
            requests.route(&Method::GET, path);
        }
        let meters = routes.iter().map(|route| requests.route(&route.method, route.path)).collect();
        Ok(Self { routes, meters, paths })
    }

    /// The table's rows, for tests and the API description.
    pub fn routes(&self) -> &[Route<S>] {
        &self.routes
    }

    /// Whether a path is that of probes alone, which are answered whatever else is under way.
    pub(crate) fn is_exempt(&self, path: &str) -> bool {
        let Ok(Place::Core(core)) = self.find(path) else { return false };
        core.rows.iter().all(|row| self.routes[*row].address_limit == AddressLimit::Exempt)
    }

    /// What stands at a path; 404.
    pub fn find(&self, path: &str) -> ApiResult<Place<'_, S>> {
        let matched = self.paths.at(path).map_err(|_| ApiError::new(&codes::NOT_FOUND))?;
        Ok(match matched.value {
            Rows::Core(rows) => Place::Core(Core { router: self, rows, params: Params::new(matched.params.iter()) }),
            // Plugins' calls are the hot path, and what their row leaves open is theirs to read.
            Rows::Plugin(template) => Place::Plugin(template),
        })
    }
}

/// The object that a path names by the last parameter of its template, when it looks like an id or a name: what else
/// was typed there may be a credential, and this is for the audit log.
pub(crate) fn find_object(template: &str, path: &str) -> Option<String> {
    let named = template.split('/').zip(path.split('/')).filter(|(part, _)| part.starts_with('{'));
    let (_, object) = named.last()?;
    let is_name =
        object.len() <= 64 && object.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    (!object.is_empty() && is_name).then(|| object.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{MergePatch, Query};
    use crate::http::reply;

    #[test]
    fn what_an_act_was_aimed_at_is_an_id_or_a_name() {
        let id = "0190f7a2-1111-7222-8333-444455556666";
        assert_eq!(find_object("/v1/x/{id}/rotate", &format!("/v1/x/{id}/rotate")).as_deref(), Some(id));
        assert_eq!(find_object("/v1/x/{name}", "/v1/x/price-watch").as_deref(), Some("price-watch"));
        for other in ["/v1/x/mpk_abcDEF", "/v1/x/", "/v1/x/a%20b"] {
            assert_eq!(find_object("/v1/x/{id}", other), None, "{other}");
        }
        assert_eq!(find_object("/v1/x", "/v1/x"), None);
    }

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "a description")]
    struct Page {
        limit: Option<i64>,
    }

    async fn change(_: &Arc<()>, _: Call<Query<Page>, MergePatch<Page>>) -> ApiResult<Reply> {
        Ok(reply::no_content())
    }

    #[test]
    fn a_row_takes_what_its_handler_reads_from_the_handlers_signature() {
        let row = Route::<()>::patch("/v1/x", change).scope("x:write");
        assert_eq!(
            (row.access, row.reads, row.body_limit),
            (Access::Scope("x:write"), Reads::MergePatch, DEFAULT_BODY_LIMIT)
        );
        assert!(row.query.check(Some("limit=1")).is_ok());
        for wrong in ["limt=1", "limit=1&limit=2"] {
            assert_eq!(row.query.check(Some(wrong)).unwrap_err().status(), 400, "{wrong}");
        }
    }

    #[test]
    fn a_method_that_no_row_has_is_told_from_a_path_that_none_has() {
        let rows = vec![Route::<()>::patch("/v1/x/{id}", change).public()];
        let router = Router::new(rows, &["/v1/plugins/{prefix}"], &Requests::default()).unwrap();
        let Ok(Place::Core(core)) = router.find("/v1/x/7%2F8") else { panic!("no row") };
        assert_eq!(core.params.get("id"), Some("7/8"));
        assert!(core.row(&Method::PATCH).is_some() && core.row(&Method::GET).is_none());
        assert_eq!(core.methods().collect::<Vec<_>>(), [&Method::PATCH]);
        assert!(matches!(router.find("/v1/plugins/a"), Ok(Place::Plugin("/v1/plugins/{prefix}"))));
        assert_eq!(router.find("/v1/y").err().unwrap().status(), 404);
    }

    #[test]
    fn head_has_its_own_row_or_that_of_get() {
        let both = [Method::GET, Method::HEAD];
        assert_eq!(pick(&both, &Method::HEAD, |method| method), Some(&Method::HEAD));
        assert_eq!(pick(&both[..1], &Method::HEAD, |method| method), Some(&Method::GET));
        assert_eq!(pick(&both[1..], &Method::GET, |method| method), None);
        assert_eq!(pick(&[Method::POST], &Method::HEAD, |method| method), None);
    }
}
