//! The table that `routes` returns: which handler answers which method and path.

mod check;

use std::{any::TypeId, panic::Location, sync::Arc};

use http::Method;

use crate::{Error, Handler, JobHandler, Result, handler::DynHandler, jobs};

/// What the plugin offers: routes below its prefix, handlers that only tools reach, and handlers of jobs.
///
/// Paths begin with `/` and are relative to `/v1/admin/plugins/<prefix>`. `/items/{id}` takes one segment,
/// `/files/{*rest}` all that follows; both are decoded before [`Request::param`] returns them. A fixed segment wins
/// over a parameter. A plugin has at most 256 routes.
///
/// A handler's name, by which `mcp.tools[].handler` and `backend.routes[].handler` of the manifest refer to it, is the
/// name of its function. One function may answer several routes and tools.
///
/// The host holds the router against the manifest before it serves the plugin: with `backend.routes` it must have
/// exactly those routes, without it any, without `backend` none. It must have the handler of each tool and of each job.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// pub fn routes(_ctx: &PluginContext) -> Router {
///     Router::new()
///         .get("/items/{id}", item)
///         .handler("warm", warm) // no route: for a tool of the manifest
/// }
///
/// async fn item(_ctx: PluginContext, req: Request) -> Result<Response> {
///     Ok(Response::json(&json!({ "id": req.param("id") })))
/// }
///
/// async fn warm(_ctx: PluginContext, _req: Request) -> Result<Response> {
///     Ok(Response::text("warm"))
/// }
///
/// let host = TestHost::new(r#"{ "name": "shelf", "version": "1.0.0", "backend": {}, "mcp": { "tools": [
///     { "name": "plugin_shelf_warm", "description": "Warms the shelf.", "handler": "warm" }] } }"#, routes);
/// assert_eq!(block_on(host.send(TestRequest::get("/items/a%20b"))).json(), json!({ "id": "a b" }));
/// assert_eq!(block_on(host.send(TestRequest::put("/items/7"))).status(), 405);
/// assert_eq!(block_on(host.send(TestRequest::tool("plugin_shelf_warm", &json!({})))).text(), "warm");
/// ```
///
/// [`Request::param`]: crate::Request::param
#[derive(Default)]
pub struct Router {
    entries: Vec<Entry>,
}

pub(crate) struct Entry {
    pub(crate) name: String,
    /// The author gave the name, so no other of this name is meant.
    pub(crate) named: bool,
    pub(crate) route: Option<(Method, String)>,
    pub(crate) handler: Arc<DynHandler>,
    identity: TypeId,
    /// Where the author has put it into the router.
    place: &'static Location<'static>,
}

/// What `routes` may return: a [`Router`], or a `Result` of one.
///
/// `routes` is called once for each loaded instance, and once before that in a process of its own, where the host
/// functions answer nothing but the settings. It has 10 seconds, on a thread that may block, and does no I/O: start
/// what needs I/O with [`PluginContext::spawn`]. An error refuses the plugin with its message (`create-failed`), a
/// panic does, too (`create-panicked`); the version before stays in service.
///
/// ```
/// use cardinal_plugin::{Error, PluginContext, Result, Router};
///
/// pub fn routes(ctx: &PluginContext) -> Result<Router> {
///     let settings: cardinal_plugin::serde_json::Value = ctx.settings()?;
///     if settings["address"] == "" {
///         return Err(Error::internal("the setting `address` is empty"));
///     }
///     Ok(Router::new())
/// }
/// ```
///
/// [`PluginContext::spawn`]: crate::PluginContext::spawn
#[diagnostic::on_unimplemented(
    message = "`routes` returns `{Self}`, which is not a router",
    label = "`routes` must return a `Router`, or a `Result<Router>`",
    note = "write `pub fn routes(ctx: &PluginContext) -> Router`, without `async`"
)]
pub trait IntoRouter {
    /// Returns the router.
    ///
    /// ```
    /// use cardinal_plugin::{Error, IntoRouter, Router};
    ///
    /// assert!(Router::new().into_router().is_ok());
    /// let failed: Result<Router, std::num::ParseIntError> = "x".parse::<u16>().map(|_| Router::new());
    /// assert_eq!(failed.into_router().err().unwrap().message(), "invalid digit found in string");
    /// ```
    ///
    /// # Errors
    /// Whatever kept `routes` from making one.
    fn into_router(self) -> Result<Router>;
}

impl IntoRouter for Router {
    fn into_router(self) -> Result<Router> {
        Ok(self)
    }
}

impl<E: Into<Error>> IntoRouter for Result<Router, E> {
    fn into_router(self) -> Result<Router> {
        self.map_err(Into::into)
    }
}

// The compiler shows the lines of the bounds, with their comments, for what is no handler.
impl Router {
    /// Makes an empty table.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router};
    ///
    /// /// Of a plugin that does its work in tasks and answers nothing.
    /// pub fn routes(ctx: &PluginContext) -> Router {
    ///     ctx.spawn(async { /* reads prices */ });
    ///     Router::new()
    /// }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers GET (and HEAD) on `path`. The caller needs the scope `plugin:<name>:read`, unless the manifest says
    /// otherwise.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    ///
    /// pub fn routes(_: &PluginContext) -> Router {
    ///     Router::new().get("/prices/{sku}", price)
    /// }
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::text(format!("{} is 9.90", req.param("sku").unwrap_or_default())))
    /// }
    /// # use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#, routes);
    /// # assert_eq!(block_on(host.send(TestRequest::get("/prices/L1"))).text(), "L1 is 9.90");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn get<H>(self, path: &str, handler: H) -> Self
    where
        H: Handler, // async fn name(ctx: PluginContext, req: Request) -> Result<Response>
    {
        self.route(Method::GET, path, handler)
    }

    /// Answers POST on `path`. The caller needs the scope `plugin:<name>:write`, unless the manifest says otherwise; so
    /// it is for all methods but GET.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    ///
    /// pub fn routes(_: &PluginContext) -> Router {
    ///     Router::new().post("/prices/{sku}", price)
    /// }
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::text(format!("{} is added", req.param("sku").unwrap_or_default())))
    /// }
    /// # use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#, routes);
    /// # assert_eq!(block_on(host.send(TestRequest::post("/prices/L1"))).text(), "L1 is added");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn post<H>(self, path: &str, handler: H) -> Self
    where
        H: Handler, // async fn name(ctx: PluginContext, req: Request) -> Result<Response>
    {
        self.route(Method::POST, path, handler)
    }

    /// Answers PUT on `path`.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    ///
    /// pub fn routes(_: &PluginContext) -> Router {
    ///     Router::new().put("/prices/{sku}", price)
    /// }
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::text(format!("{} is set", req.param("sku").unwrap_or_default())))
    /// }
    /// # use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#, routes);
    /// # assert_eq!(block_on(host.send(TestRequest::put("/prices/L1"))).text(), "L1 is set");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn put<H>(self, path: &str, handler: H) -> Self
    where
        H: Handler, // async fn name(ctx: PluginContext, req: Request) -> Result<Response>
    {
        self.route(Method::PUT, path, handler)
    }

    /// Answers PATCH on `path`.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    ///
    /// pub fn routes(_: &PluginContext) -> Router {
    ///     Router::new().patch("/prices/{sku}", price)
    /// }
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::text(format!("{} is changed", req.param("sku").unwrap_or_default())))
    /// }
    /// # use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#, routes);
    /// # assert_eq!(block_on(host.send(TestRequest::patch("/prices/L1"))).text(), "L1 is changed");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn patch<H>(self, path: &str, handler: H) -> Self
    where
        H: Handler, // async fn name(ctx: PluginContext, req: Request) -> Result<Response>
    {
        self.route(Method::PATCH, path, handler)
    }

    /// Answers DELETE on `path`.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    ///
    /// pub fn routes(_: &PluginContext) -> Router {
    ///     Router::new().delete("/prices/{sku}", price)
    /// }
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::text(format!("{} is deleted", req.param("sku").unwrap_or_default())))
    /// }
    /// # use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#, routes);
    /// # assert_eq!(block_on(host.send(TestRequest::delete("/prices/L1"))).text(), "L1 is deleted");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn delete<H>(self, path: &str, handler: H) -> Self
    where
        H: Handler, // async fn name(ctx: PluginContext, req: Request) -> Result<Response>
    {
        self.route(Method::DELETE, path, handler)
    }

    /// Answers `method` on `path`.
    ///
    /// A closure has no name of its own: its handler is called `"<method> <path>"`, as in `"GET /items"`. A path that
    /// is malformed, or that clashes with another of its method, refuses the plugin when it is loaded; the message
    /// names both handlers and their lines.
    ///
    /// ```
    /// use cardinal_plugin::{Method, PluginContext, Request, Response, Result, Router};
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::text(req.method().as_str()))
    /// }
    ///
    /// /// One handler for several methods.
    /// pub fn routes(_: &PluginContext) -> Router {
    ///     Router::new().route(Method::GET, "/price", price).route(Method::PUT, "/price", price)
    /// }
    /// # use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#, routes);
    /// # assert_eq!(block_on(host.send(TestRequest::put("/price"))).text(), "PUT");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn route<H>(self, method: Method, path: &str, handler: H) -> Self
    where
        H: Handler, // async fn name(ctx: PluginContext, req: Request) -> Result<Response>
    {
        let name = check::function_name::<H>().map_or_else(|| format!("{method} {path}"), str::to_owned);
        self.push(name, false, Some((method, path.to_owned())), handler)
    }

    /// Adds a handler without a route, for tools of the manifest that refer to it as `name`.
    ///
    /// It also tells two functions of the same name apart, for the tool that means one of them. A handler that no tool
    /// refers to is a mistake that refuses the plugin.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn compare(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::text("Oak & Co is cheaper."))
    /// }
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "mcp": { "tools": [
    ///     { "name": "plugin_prices_compare", "description": "Compares prices.", "handler": "compare" }] } }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().handler("compare", compare));
    /// let reply = block_on(host.send(TestRequest::tool("plugin_prices_compare", &json!({}))));
    /// assert_eq!(reply.text(), "Oak & Co is cheaper.");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn handler<H>(self, name: &str, handler: H) -> Self
    where
        H: Handler, // async fn name(ctx: PluginContext, req: Request) -> Result<Response>
    {
        self.push(name.to_owned(), true, None, handler)
    }

    /// Adds the handler of a job that the manifest declares as `name` in `backend.jobs`. See [`Job`](crate::Job).
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router};
    ///
    /// pub fn routes(_: &PluginContext) -> Router {
    ///     Router::new().job("refresh", refresh)
    /// }
    ///
    /// async fn refresh(_ctx: PluginContext, job: Job) -> Result<()> {
    ///     job.progress(1, Some(1), "Nothing to do");
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn job<H>(mut self, name: &str, handler: H) -> Self
    where
        H: JobHandler, // async fn name(ctx: PluginContext, job: Job) -> Result<()>
    {
        self.entries.push(Entry {
            name: format!("{}{name}", jobs::HANDLER_PREFIX),
            named: true,
            route: None,
            handler: Arc::new(jobs::as_handler(handler)),
            identity: TypeId::of::<H>(),
            place: Location::caller(),
        });
        self
    }

    #[track_caller]
    fn push<H: Handler>(mut self, name: String, named: bool, route: Option<(Method, String)>, handler: H) -> Self {
        self.entries.push(Entry {
            name,
            named,
            route,
            handler: Arc::new(move |ctx, req| handler.call(ctx, req)),
            identity: TypeId::of::<H>(),
            place: Location::caller(),
        });
        self
    }

    /// The table in the order of handler numbers: where several have one name, the one that a
    /// reader of names should find comes first.
    ///
    /// Fails, in words for the author, when a path is malformed, a route stands twice, or one of
    /// `wanted` (the names in the manifest) could mean two functions.
    pub(crate) fn finish(mut self, wanted: &[String]) -> Result<Vec<Entry>, String> {
        self.entries.sort_by_key(|entry| !entry.named);
        check::routes(&self.entries)?;
        for name in wanted {
            check::name(&self.entries, name)?;
        }
        Ok(self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PluginContext, Request, Response};

    async fn preview(_: PluginContext, _: Request) -> Result<Response> {
        Ok(Response::empty())
    }

    mod other {
        use crate::{PluginContext, Request, Response, Result};
        pub(super) async fn preview(_: PluginContext, _: Request) -> Result<Response> {
            Ok(Response::empty())
        }
    }

    #[allow(clippy::extra_unused_type_parameters)]
    async fn generic<T: Send + 'static>(_: PluginContext, _: Request) -> Result<Response> {
        Ok(Response::empty())
    }

    fn names(router: Router) -> Vec<String> {
        router.finish(&[]).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn a_handler_is_called_as_its_function() {
        let router = Router::new()
            .get("/a", preview)
            .get("/b", generic::<Vec<std::string::String>>)
            .post("/c", |_: PluginContext, _: Request| async { Ok(Response::empty()) })
            .handler("warm", preview);
        assert_eq!(names(router), ["warm", "preview", "generic", "POST /c"]);
    }

    #[test]
    fn one_function_may_answer_several_routes() {
        let router = Router::new().get("/a", preview).post("/a", preview).get("/a/{id}", preview);
        assert_eq!(router.finish(&["preview".to_owned()]).unwrap().len(), 3);
    }

    #[test]
    fn two_functions_of_one_name_matter_only_when_the_manifest_names_them() {
        let router = || Router::new().get("/a", preview).get("/b", other::preview);
        assert!(router().finish(&[]).is_ok());
        let error = router().finish(&["preview".to_owned()]).err().unwrap();
        assert!(error.contains("`preview`"), "{error}");
        let named = router().handler("preview", other::preview);
        assert!(named.finish(&["preview".to_owned()]).unwrap()[0].named);
    }

    #[test]
    fn routes_that_collide_or_make_no_sense_are_refused() {
        for (path, other_path) in [("/a", "/a"), ("/a/{x}", "/a/{y}"), ("a", "/b"), ("/{", "/b")] {
            let router = Router::new().get(path, preview).get(other_path, preview);
            assert!(router.finish(&[]).is_err(), "{path} {other_path}");
        }
    }

    #[test]
    fn routes_that_clash_are_told_with_both_handlers_and_lines() {
        let first = line!() + 1;
        let router = Router::new().get("/a/{x}/b", preview).post("/a/{y}/b", other::preview);
        let error = router.get("/a/{y}/b", other::preview).finish(&[]).err().unwrap();
        let place = |line: u32| format!("({}:{line}:", file!());
        let parts = ["GET /a/{x}/b of `preview` ", "GET /a/{y}/b of `preview` ", &place(first), &place(first + 1)];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        let error = Router::new().get("a", preview).finish(&[]).err().unwrap();
        assert!(error.contains("`preview`") && error.contains("begins with `/`"), "{error}");
    }
}
