//! What answers a request: any `async fn` of the right form.

use std::{future::Future, pin::Pin};

use crate::{PluginContext, Request, Response, Result};

pub(crate) type BoxedFuture = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;
pub(crate) type DynHandler = dyn Fn(PluginContext, Request) -> BoxedFuture + Send + Sync;

/// A handler: `async fn(PluginContext, Request) -> Result<impl Into<Response>>`.
///
/// Every such function and closure implements it; don't implement it by hand. `()` (204), `serde_json::Value` and
/// `String` can stand for a [`Response`].
///
/// **Threads.** Handlers run on the host's threads, many calls at a time, and must not block them: no
/// `std::thread::sleep`, no blocking I/O, no long computation ([`tokio::task::spawn_blocking`] takes those). The thread
/// may change at each await, so nothing may rest on thread-locals.
///
/// **End.** A call has 30 seconds, or `timeout_ms` of the manifest (at most 10 minutes). At that deadline, and when the
/// client goes away, the future is dropped at its next await. A panic ends the call alone, as 500 `plugin-panicked`.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Result, Router, Uuid, block_on, json, serde_json::Value};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn touch(_: PluginContext, _: Request) -> Result<()> {
///     Ok(()) // 204
/// }
///
/// async fn item(_: PluginContext, req: Request) -> Result<Value> {
///     Ok(json!({ "id": req.param_as::<Uuid>("id")? }))
/// }
///
/// let routes = |_: &PluginContext| Router::new().post("/touch", touch).get("/items/{id}", item);
/// let host = TestHost::new(r#"{ "name": "items", "version": "1.0.0", "backend": {} }"#, routes);
/// assert_eq!(block_on(host.send(TestRequest::post("/touch"))).status(), 204);
/// assert_eq!(block_on(host.send(TestRequest::get("/items/7"))).status(), 404);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `async fn(PluginContext, Request) -> cardinal_plugin::Result<Response>`, and its future is `Send`"
)]
pub trait Handler: Send + Sync + 'static {
    /// Calls the handler: runs the function up to its future, which the host polls.
    ///
    /// The SDK calls it. An author may, too, to do something around a handler:
    ///
    /// ```
    /// use cardinal_plugin::{Error, Handler, PluginContext, Request};
    ///
    /// /// Lets nobody but people in.
    /// fn for_people<H: Handler + Clone>(handler: H) -> impl Handler {
    ///     move |ctx: PluginContext, req: Request| {
    ///         let handler = handler.clone();
    ///         async move {
    ///             match ctx.user()?.kind {
    ///                 cardinal_plugin::UserKind::User => handler.call(ctx, req).await,
    ///                 _ => Err(Error::forbidden("Only people may order.")),
    ///             }
    ///         }
    ///     }
    /// }
    /// # use cardinal_plugin::{Response, Result, Router, block_on, testing::{TestHost, TestRequest}};
    /// # async fn order(_: PluginContext, _: Request) -> Result<Response> {
    /// #     Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # assert_eq!(block_on(host.call(for_people(order), TestRequest::post("/"))).status(), 204);
    /// ```
    fn call(&self, ctx: PluginContext, req: Request) -> Pin<Box<dyn Future<Output = Result<Response>> + Send>>;
}

impl<F, Fut> Handler for F
where
    F: Fn(PluginContext, Request) -> Fut + Send + Sync + 'static,
    Fut: Asynchronous + HandlerFuture,
{
    fn call(&self, ctx: PluginContext, req: Request) -> BoxedFuture {
        let future = self(ctx, req);
        Box::pin(future.reply())
    }
}

/// What an `async fn` handler gives when it is called: a future of `Result<impl Into<Response>>` that may move between
/// threads. Don't implement it by hand.
///
/// ```
/// use cardinal_plugin::{HandlerFuture, PluginContext, Request, Result};
///
/// /// Compiles for what a handler may give.
/// fn may_be_given<F: HandlerFuture>(_: fn(PluginContext, Request) -> F) {}
///
/// async fn price(_: PluginContext, _: Request) -> Result<String> {
///     Ok("9.90".to_owned()) // becomes a reply by `Into<Response>`
/// }
/// may_be_given(price);
/// ```
pub trait HandlerFuture: Send + 'static {
    #[doc(hidden)]
    fn reply(self) -> impl Future<Output = Result<Response>> + Send + 'static;
}

/// Every future. Asked for first, for the sake of its message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this handler gives `{Self}`, which is no future",
    note = "a handler is `async`: write `async fn name(ctx: PluginContext, req: Request) -> cardinal_plugin::Result<Response>`"
)]
pub trait Asynchronous {}

#[diagnostic::do_not_recommend]
impl<Fut: Future> Asynchronous for Fut {}

impl<Fut> HandlerFuture for Fut
where
    Fut: Future<Output: HandlerOutput> + Send + 'static,
{
    // An `async fn` would hold the output, too, which lives for no known time.
    #[allow(clippy::manual_async_fn)]
    fn reply(self) -> impl Future<Output = Result<Response>> + Send + 'static {
        async move { self.await.into_reply() }
    }
}

/// What a handler returns. A trait of its own for the sake of its message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "a handler returns `cardinal_plugin::Result<Response>`, to which `?` converts every error",
    note = "in the place of `Response` can be `()`, `String`, `cardinal_plugin::serde_json::Value`, or what has a `From` for it",
    note = "a list, an option or a type of your own becomes JSON: `Ok(Response::json(&value))`"
)]
pub trait HandlerOutput {
    #[doc(hidden)]
    fn into_reply(self) -> Result<Response>;
}

#[diagnostic::do_not_recommend]
impl<R: Into<Response>> HandlerOutput for Result<R> {
    fn into_reply(self) -> Result<Response> {
        self.map(Into::into)
    }
}
