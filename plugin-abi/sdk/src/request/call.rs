//! How a handler is called: as a route, a tool or a job, from where, and until when.

use std::{net::IpAddr, time::Instant};

use bytes::Bytes;
use cardinal_plugin_abi::record::{self, attr};
use uuid::Uuid;

use super::{Request, text};

impl Request {
    /// Returns whether this is the call of a tool. Its arguments, a JSON object, are the body.
    ///
    /// ```
    /// use cardinal_plugin::{Request, Response, json};
    ///
    /// /// A page for people, numbers for programs.
    /// fn price(req: &Request, cents: i64) -> Response {
    ///     match req.is_tool() {
    ///         true => Response::json(&json!({ "cents": cents })),
    ///         false => Response::text(format!("It is {cents} cents.")),
    ///     }
    /// }
    /// # use cardinal_plugin::{PluginContext, Router, block_on, testing::{TestHost, TestRequest}};
    /// # async fn handler(_: PluginContext, req: Request) -> cardinal_plugin::Result<Response> {
    /// #     Ok(price(&req, 990))
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(handler, TestRequest::get("/"))).text(), "It is 990 cents.");
    /// ```
    pub fn is_tool(&self) -> bool {
        text(&self.head, attr::CALL_KIND) == "tool"
    }

    /// The job whose handler is called, and the checkpoint of its run before.
    pub(crate) fn job(&self) -> Option<(Uuid, Bytes)> {
        let id = text(&self.head, attr::JOB).parse().ok()?;
        Some((id, self.head.slice_ref(record::field(&self.head, attr::CHECKPOINT))))
    }

    /// Returns the name of the tool that is called, as in the manifest: `plugin_notes_add`. `None` for a route. It
    /// tells two tools with one handler apart.
    ///
    /// ```
    /// # use cardinal_plugin::{Error, Request, Result};
    /// fn is_dry_run(req: &Request) -> bool {
    ///     req.tool() == Some("plugin_notes_try")
    /// }
    /// ```
    pub fn tool(&self) -> Option<&str> {
        Some(text(&self.head, attr::TOOL)).filter(|name| !name.is_empty())
    }

    /// Returns the language that the client prefers most, a tag such as `de-AT`, from its `Accept-Language`. `None`
    /// when it named none.
    ///
    /// ```
    /// # use cardinal_plugin::Request;
    /// fn greeting(req: &Request) -> &'static str {
    ///     if req.locale().is_some_and(|tag| tag.starts_with("de")) { "Hallo" } else { "Hello" }
    /// }
    /// ```
    pub fn locale(&self) -> Option<&str> {
        Some(text(&self.head, attr::LOCALE)).filter(|tag| !tag.is_empty())
    }

    /// Returns the id that is in every log line, error body and reply header (`x-request-id`) of this request.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // To find the call again in the log of another system.
    /// let note = format!("changed by request {}", req.request_id());
    /// assert_eq!(note, "changed by request r1");
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::post("/").request_id("r1")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn request_id(&self) -> &str {
        text(&self.head, attr::REQUEST_ID)
    }

    /// Returns the W3C `traceparent` of the call. [`PluginContext::http`](crate::PluginContext::http) sends it by
    /// itself; send it along with requests that the plugin makes in another way.
    ///
    /// ```
    /// use cardinal_plugin::Request;
    ///
    /// /// For a client of the plugin's own.
    /// fn add_trace(req: &Request, headers: &mut Vec<(&'static str, String)>) {
    ///     headers.extend(req.trace_parent().map(|trace| ("traceparent", trace.to_owned())));
    /// }
    /// ```
    pub fn trace_parent(&self) -> Option<&str> {
        Some(text(&self.head, attr::TRACE_PARENT)).filter(|text| !text.is_empty())
    }

    /// Returns the client's address, when it is known.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// let is_local = req.peer().is_some_and(|address| address.is_loopback());
    /// # assert!(is_local);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::get("/").peer([127, 0, 0, 1].into())));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn peer(&self) -> Option<IpAddr> {
        text(&self.head, attr::PEER).parse().ok()
    }

    /// Returns when the host stops waiting; the handler's future is dropped then. It is 30 seconds after the call
    /// began, or `timeout_ms` of the manifest. `None` when the host does not say.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    ///
    /// // Asks one more supplier only when there is time for it.
    /// let left = req.deadline().map(|end| end.saturating_duration_since(Instant::now()));
    /// let asks_on = left.is_none_or(|left| left > Duration::from_secs(5));
    /// # assert!(!asks_on);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::get("/").deadline(Duration::from_secs(1))));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}
