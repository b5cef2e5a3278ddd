//! Requests by their method, and the calls of tools.

use bytes::Bytes;
use http::Method;
use serde::Serialize;

use super::{Body, TestRequest, test_user};

impl TestRequest {
    /// Makes a request of any method. `path` is what a client asks below the plugin's prefix, percent-encoded, its
    /// query behind `?` included.
    ///
    /// ```
    /// use cardinal_plugin::Method;
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::text(req.method().as_str()))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/prices", handler));
    /// let reply = block_on(host.send(TestRequest::new(Method::HEAD, "/prices?sort=cents")));
    /// assert_eq!(reply.text(), "GET"); // what the handler of the GET route sees
    /// ```
    pub fn new(method: Method, path: &str) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            params: Vec::new(),
            body: Body::Full(Bytes::new()),
            user: test_user("tester", &["*"]),
            tool: None,
            job: None,
            request_id: "test".to_owned(),
            locale: String::new(),
            deadline: None,
            peer: None,
        }
    }

    /// Makes a `GET` request.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::text(req.method().as_str()))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/prices", handler));
    /// let reply = block_on(host.send(TestRequest::get("/prices?sort=cents")));
    /// assert_eq!(reply.text(), "GET");
    /// ```
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// Makes a `POST` request.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::text(req.method().as_str()))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/prices", handler));
    /// let reply = block_on(host.send(TestRequest::post("/prices")));
    /// assert_eq!(reply.text(), "POST");
    /// ```
    pub fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// Makes a `PUT` request.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::text(req.method().as_str()))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().put("/prices/{sku}", handler));
    /// let reply = block_on(host.send(TestRequest::put("/prices/L1")));
    /// assert_eq!(reply.text(), "PUT");
    /// ```
    pub fn put(path: &str) -> Self {
        Self::new(Method::PUT, path)
    }

    /// Makes a `PATCH` request.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::text(req.method().as_str()))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().patch("/prices/{sku}", handler));
    /// let reply = block_on(host.send(TestRequest::patch("/prices/L1")));
    /// assert_eq!(reply.text(), "PATCH");
    /// ```
    pub fn patch(path: &str) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// Makes a `DELETE` request.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{TestHost, TestRequest}};
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::text(req.method().as_str()))
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().delete("/prices/{sku}", handler));
    /// let reply = block_on(host.send(TestRequest::delete("/prices/L1")));
    /// assert_eq!(reply.text(), "DELETE");
    /// ```
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Makes the call of a tool by its name in the manifest (or by its handler's name), with its arguments. They are
    /// not validated against `input_schema`, which a host does before a handler runs.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     let arguments: cardinal_plugin::serde_json::Value = req.input().await?;
    ///     Ok(Response::text(format!("The price of {} is 9.90.", arguments["sku"])))
    /// }
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "mcp": { "tools": [
    ///     { "name": "plugin_prices_get", "description": "Says a price.", "handler": "price" }] } }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().handler("price", price));
    /// let reply = block_on(host.send(TestRequest::tool("plugin_prices_get", &json!({ "sku": "L1" }))));
    /// assert_eq!(reply.text(), "The price of \"L1\" is 9.90.");
    /// ```
    ///
    /// # Panics
    /// When the arguments cannot be written as JSON.
    pub fn tool(name: &str, arguments: &(impl Serialize + ?Sized)) -> Self {
        Self { tool: Some(name.to_owned()), ..Self::new(Method::POST, "/") }.json(arguments)
    }
}
