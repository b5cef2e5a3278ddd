//! Calls of a plugin: through its router, of one handler, or without any.

use cardinal_plugin_abi::Fut;
use http::Method;

use super::{
    TestCall, TestHost, TestReply, TestRequest,
    fake_host::{FakeHost, lock, number},
};
use crate::{Error, Handler, PluginContext, Result, Router, context::InCall, instance::Instance, router::Entry};

impl TestHost {
    /// Returns the context of a call by this request's user, for tests of functions that a handler would call. The call
    /// lasts as long as the host.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_user};
    /// use cardinal_plugin::{Error, PluginContext, Result, Router};
    ///
    /// fn check(ctx: &PluginContext) -> Result<()> {
    ///     let may_write = ctx.user()?.scopes.iter().any(|scope| scope == "cards:write");
    ///     if may_write { Ok(()) } else { Err(Error::forbidden("You may only read cards.")) }
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "notes", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let of = |scope| host.call_context(TestRequest::get("/").user(test_user("Ada", &[scope])));
    /// assert!(check(&of("cards:write")).is_ok());
    /// assert_eq!(check(&of("cards:read")).unwrap_err().status(), Some(403));
    /// ```
    pub fn call_context(&self, request: TestRequest) -> PluginContext {
        let call = self.enter(&request);
        let head = crate::stream::bytes_in(request.into_abi(None).head);
        PluginContext::from_call(self.running().instance.core.clone(), InCall::new(call, head))
    }

    /// Sends a request through the router and waits for the whole reply, streamed bodies included.
    ///
    /// A path that no route has is 404, a method that its route does not have is 405, as with a host. A HEAD request
    /// goes to the GET route as GET, and its reply keeps the body here. An error, and a panic, become the problem
    /// document that a client gets; [`TestReply::error`] has what the log gets.
    ///
    /// It never ends when the handler waits for something that the test holds or for time that does not pass: use
    /// [`begin`](Self::begin) there.
    ///
    /// ```
    /// use cardinal_plugin::{Error, PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     match req.param("sku") {
    ///         Some("L1") => Ok(Response::text("9.90")),
    ///         _ => Err(Error::not_found("There is no price for this SKU.")),
    ///     }
    /// }
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/prices/{sku}", price));
    /// assert_eq!(block_on(host.send(TestRequest::get("/prices/L1"))).text(), "9.90");
    /// assert_eq!(block_on(host.send(TestRequest::get("/prices/L2"))).json()["code"], "not-found");
    /// assert_eq!(block_on(host.send(TestRequest::delete("/prices/L1"))).status(), 405);
    /// ```
    ///
    /// # Panics
    /// When a streamed body fails, or is larger than 64 MiB.
    pub async fn send(&self, request: TestRequest) -> TestReply {
        self.begin(request).await.collected().await
    }

    /// Begins a call without waiting for it, for tests of time, cancellation and streams.
    ///
    /// The handler function runs up to its future; the future runs when the [`TestCall`] is awaited or asked. Dropping
    /// the call is what a client does that goes away:
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, tokio};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// static GAVE_UP: AtomicBool = AtomicBool::new(false);
    ///
    /// struct OnDrop;
    ///
    /// impl Drop for OnDrop {
    ///     fn drop(&mut self) {
    ///         GAVE_UP.store(true, Ordering::SeqCst);
    ///     }
    /// }
    ///
    /// async fn wait(_: PluginContext, _: Request) -> Result<Response> {
    ///     let _guard = OnDrop;
    ///     tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    ///     Ok(Response::empty())
    /// }
    ///
    /// let manifest = r#"{ "name": "waiter", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/wait", wait));
    /// let mut call = host.begin(TestRequest::get("/wait"));
    /// assert!(call.is_waiting() && !GAVE_UP.load(Ordering::SeqCst));
    /// drop(call);
    /// assert!(GAVE_UP.load(Ordering::SeqCst));
    /// ```
    pub fn begin(&self, mut request: TestRequest) -> TestCall {
        let instance = self.running().instance;
        match self.find(&instance.entries, &request) {
            Ok((handler, params)) => {
                if request.method == Method::HEAD {
                    request.method = Method::GET; // the host leaves the body out
                }
                let with = |request: TestRequest, (name, value): &(String, String)| request.param(name, value);
                self.call_number(&instance, handler, params.iter().fold(request, with))
            }
            Err(error) => TestCall::new(Fut::ready(Err(error.into())), self.fake.clone(), 0),
        }
    }

    /// Calls one handler, whether it has a route or not, and waits for the whole reply. The parameters of a path come
    /// from [`TestRequest::param`].
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    ///
    /// async fn square(_: PluginContext, req: Request) -> Result<Response> {
    ///     let n: u32 = req.param_as("n")?;
    ///     Ok(Response::text((n * n).to_string()))
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "maths", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// assert_eq!(block_on(host.call(square, TestRequest::get("/").param("n", "12"))).text(), "144");
    /// ```
    ///
    /// # Panics
    /// Those of [`send`](Self::send).
    pub async fn call<H: Handler>(&self, handler: H, request: TestRequest) -> TestReply {
        let router = Router::new().handler("handler", handler);
        let entries = router.finish(&[]).unwrap_or_default();
        let instance = Instance { core: self.running().instance.core.clone(), entries };
        self.call_number(&instance, 0, request).await.collected().await
    }

    fn call_number(&self, instance: &Instance, handler: u32, request: TestRequest) -> TestCall {
        self.call_number_with(instance, handler, request, |_, _| {})
    }

    /// The same, with something that the host is to know of the call.
    pub(super) fn call_number_with(
        &self,
        instance: &Instance,
        handler: u32,
        request: TestRequest,
        prepare: impl FnOnce(&FakeHost, u64),
    ) -> TestCall {
        let call = self.enter(&request);
        prepare(&self.fake, call);
        let tool = request.tool.clone();
        let sent = request.into_abi(tool.as_deref());
        TestCall::new(Fut::guarded(|| instance.call(handler, call, sent)), self.fake.clone(), call)
    }

    /// Lets the host know who makes a call; gives the call's number.
    fn enter(&self, request: &TestRequest) -> u64 {
        let call = number();
        lock(&self.fake.callers).insert(call, request.user.clone());
        call
    }

    /// The handler's number and the path's parameters.
    fn find(&self, entries: &[Entry], request: &TestRequest) -> Result<(u32, Vec<(String, String)>)> {
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        if let Some(tool) = &request.tool {
            let declared = self.fake.rules.iter().flat_map(|rules| &rules.mcp.tools).find(|known| known.name == *tool);
            let handler = declared.map_or(tool, |known| &known.handler);
            let found = entries.iter().position(|entry| entry.name == *handler);
            let at = found.ok_or_else(|| Error::not_found(format!("There is no tool {tool}.")))?;
            return Ok((position(at), Vec::new()));
        }
        let mut is_known = false;
        for (at, entry) in entries.iter().enumerate() {
            let Some((method, template)) = &entry.route else { continue };
            let Some(params) = params_of(template, &request.path) else { continue };
            if *method == request.method || (request.method == Method::HEAD && *method == Method::GET) {
                return Ok((position(at), params));
            }
            is_known = true;
        }
        if is_known {
            return Err(Error::with_code(405, "method-not-allowed", "The route takes other methods."));
        }
        Err(Error::not_found(format!("There is no route {}.", request.path)))
    }
}

/// The parameters of a path that a template takes, decoded.
fn params_of(template: &str, path: &str) -> Option<Vec<(String, String)>> {
    let mut table = matchit::Router::new();
    table.insert(template, ()).ok()?;
    let matched = table.at(path).ok()?;
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(matched.params.iter().map(|(name, value)| (name.to_owned(), decoded(value))).collect())
}
