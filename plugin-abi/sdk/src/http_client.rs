//! Requests to other servers, over the host's connections: [`PluginContext::http`], [`HttpRequest`], [`HttpResponse`].

mod failure;
mod request;
mod response;

use http::Method;

pub use self::{failure::HttpFailure, request::HttpRequest, response::HttpResponse};
use crate::PluginContext;

impl PluginContext {
    /// Returns the host's HTTP client: TLS, kept connections, time-outs, and no way into networks that the operator has
    /// not opened.
    ///
    /// The host resolves the name, checks every address, and connects to one that it has checked: the internet, and the
    /// private networks that the operator opened to this plugin. It adds `user-agent`, and the call's `traceparent`,
    /// where the request has none. It follows no redirects: the plugin looks at `location` and decides. Cookies and
    /// compression are left to the plugin.
    ///
    /// In a call, request and answer end with the call. [`as_plugin`](Self::as_plugin) makes those that go on, until
    /// the plugin stops. 32 requests of a plugin are under way at a time, unread bodies among them; 256 more wait,
    /// which spends their own time.
    ///
    /// A manifest with `"requires": ["http-client"]` keeps the plugin out of hosts without a client.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{PluginContext, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{ServerAnswer, TestHost};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Rates {
    ///     eur: f64,
    /// }
    ///
    /// async fn rates(ctx: &PluginContext) -> Result<Rates> {
    ///     let request = ctx.http().get("https://rates.example/latest.json").header("accept", "application/json");
    ///     request.timeout(Duration::from_secs(5)).max_bytes(64 << 10).send().await?.error_for_status()?.json().await
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "rates", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// host.answer_http(|_| ServerAnswer::new(200).json(&json!({ "eur": 1.17 })));
    /// assert_eq!(block_on(rates(&host.context())).unwrap().eur, 1.17);
    /// host.answer_http(|_| ServerAnswer::new(503));
    /// assert_eq!(block_on(rates(&host.context())).err().unwrap().code(), Some("upstream-error"));
    /// ```
    pub fn http(&self) -> HttpClient<'_> {
        HttpClient(self)
    }
}

/// The host's HTTP client, from [`PluginContext::http`]. It makes requests and holds nothing: the connections are the
/// host's.
///
/// ```
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(200).body("9.90"));
/// # cardinal_plugin::block_on(async {
/// let http = ctx.http();
/// let price = http.get("https://shop.example/lamp/price").send().await?.text().await?;
/// assert_eq!(price, "9.90");
/// # Ok::<(), cardinal_plugin::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HttpClient<'a>(&'a PluginContext);

impl HttpClient<'_> {
    /// Begins a request with any method but CONNECT and TRACE.
    ///
    /// `url` is `http` or `https`, at most 8 KiB, without a user name or a password in it (send these in a header). It
    /// is checked when the request is sent: [`HttpFailure::InvalidUrl`].
    ///
    /// ```
    /// use cardinal_plugin::Method;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(204));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().request(Method::PATCH, "https://shop.example/lamp").body("{}").send().await?;
    /// assert_eq!(response.status(), 204);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use = "nothing is asked until it is sent"]
    pub fn request(&self, method: Method, url: impl AsRef<str>) -> HttpRequest {
        HttpRequest::new(self.0.clone(), method, url.as_ref().to_owned())
    }

    /// Begins a GET request.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(200));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/lamp").send().await?;
    /// assert_eq!(response.status(), 200);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn get(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::GET, url)
    }

    /// Begins a POST request.
    ///
    /// ```
    /// use cardinal_plugin::json;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(201));
    /// # cardinal_plugin::block_on(async {
    /// let order = json!({ "sku": "L1", "count": 2 });
    /// let response = ctx.http().post("https://shop.example/orders").json(&order)?.send().await?;
    /// assert_eq!(response.status(), 201);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn post(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::POST, url)
    }

    /// Begins a PUT request.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(204));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().put("https://shop.example/stock/L1").body("7").send().await?;
    /// assert!(response.status().is_success());
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn put(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::PUT, url)
    }

    /// Begins a DELETE request.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(404));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().delete("https://shop.example/orders/7").send().await?;
    /// assert!(response.status() == 404 || response.status().is_success(), "gone, one way or the other");
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn delete(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::DELETE, url)
    }
}
