//! What a handler is asked: [`Request`], and its body as bytes, JSON, CSV or a form.

mod body;
mod call;
mod csv;
mod multipart;

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cardinal_plugin_abi::{
    self as abi, pairs,
    record::{self, attr},
};
use http::Method;
use serde::de::DeserializeOwned;

pub use self::{
    csv::CsvRows,
    multipart::{Multipart, Part},
};
use crate::{Error, Result, input, stream::bytes_in};

/// One call of a handler: an HTTP request below the plugin's prefix, or the call of a tool.
///
/// **Input.** [`input`](Self::input) reads query, path and body, or a tool's arguments, as one type. It is what most
/// handlers need, and the only one that serves routes and tools alike.
///
/// **Body.** It arrives while the handler runs. [`body`](Self::body), [`json`](Self::json) and [`input`](Self::input)
/// read it whole and may follow each other: they see the same bytes. [`body_stream`](Self::body_stream),
/// [`csv`](Self::csv) and [`multipart`](Self::multipart) take it piece by piece, once. A body has at most 1 MiB, or
/// `max_body_bytes` of the route in the manifest (at most 64 MiB); the host answers 413 to a larger one.
///
/// **Credentials** (`authorization`, `cookie`) never reach a plugin. Who calls is in [`PluginContext::user`].
///
/// The request may be kept as long as you like, also after the call. A body that was not read by then is an error
/// ([`Error::is_cancelled`]).
///
/// [`PluginContext::user`]: crate::PluginContext::user
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Find {
///     text: String,
///     limit: Option<u32>,
/// }
///
/// /// Serves `GET /find?text=lamp&limit=5` and a tool with `{"text": "lamp"}` alike.
/// async fn find(_ctx: PluginContext, req: Request) -> Result<Response> {
///     let find: Find = req.input().await?;
///     Ok(Response::json(&json!({ "text": find.text, "limit": find.limit.unwrap_or(20) })))
/// }
///
/// let manifest = r#"{ "name": "finder", "version": "1.0.0", "backend": {}, "mcp": { "tools": [
///     { "name": "plugin_finder_find", "description": "Finds items.", "handler": "find" }] } }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/find", find));
/// let reply = block_on(host.send(TestRequest::get("/find?text=lamp&limit=5")));
/// assert_eq!(reply.json(), json!({ "text": "lamp", "limit": 5 }));
/// let reply = block_on(host.send(TestRequest::tool("plugin_finder_find", &json!({ "text": "lamp" }))));
/// assert_eq!(reply.json(), json!({ "text": "lamp", "limit": 20 }));
/// ```
pub struct Request {
    /// Records and pairs as they came; `receive` has checked them.
    head: Bytes,
    headers: Bytes,
    params: Bytes,
    method: Method,
    deadline: Option<Instant>,
    body: Mutex<Body>,
}

enum Body {
    Full(Bytes),
    Stream(abi::Stream),
    /// Somebody has the stream, or was stopped while reading it.
    Taken,
}

impl Request {
    /// Takes what the host sent. It is checked here: a host of another version is trusted no
    /// further than any input.
    pub(crate) fn receive(head: Bytes, request: abi::Request) -> Result<Self> {
        let abi::Request { head: _, headers, params, body, stream } = request;
        let method = check_head(&head)?;
        let millis: Option<u64> = text(&head, attr::DEADLINE_MS).parse().ok();
        let body = if stream.is_none() { Body::Full(bytes_in(body)) } else { Body::Stream(stream) };
        Ok(Self {
            method,
            deadline: millis.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))),
            headers: checked_pairs(bytes_in(headers), "headers")?,
            params: checked_pairs(bytes_in(params), "path parameters")?,
            head,
            body: Mutex::new(body),
        })
    }

    /// Returns the HTTP method; POST for a tool. A HEAD request reaches the handler of the GET route as GET: the host
    /// leaves the body of the reply out.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // of `DELETE /prices/L1`, in a handler that answers several methods
    /// let removes = req.method() == cardinal_plugin::Method::DELETE;
    /// # assert!(removes);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::delete("/prices/L1")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path below the plugin's prefix, percent-encoded as it came; `/` for a tool.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // of `GET /prices/oak%20lamp?sort=cents`
    /// assert_eq!(req.path(), "/prices/oak%20lamp");
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::get("/prices/oak%20lamp?sort=cents")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn path(&self) -> &str {
        match text(&self.head, attr::PATH) {
            "" => "/",
            path => path,
        }
    }

    /// Returns the query without `?`, percent-encoded as it came; empty when there is none, and for a tool.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // of `GET /prices?sku=L1&sort=cents`
    /// assert_eq!(req.query(), "sku=L1&sort=cents");
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::get("/prices?sku=L1&sort=cents")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn query(&self) -> &str {
        text(&self.head, attr::QUERY)
    }

    /// Returns the pairs of the query, decoded (`+` is a space), in their order. A name may repeat.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // of `GET /prices?sku=L1&sku=L2&text=oak+lamp`
    /// let skus: Vec<String> = req.query_pairs().filter(|(name, _)| name == "sku").map(|(_, sku)| sku).collect();
    /// assert_eq!(skus, ["L1", "L2"]);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::get("/prices?sku=L1&sku=L2&text=oak+lamp")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn query_pairs(&self) -> impl Iterator<Item = (String, String)> + '_ {
        input::pairs(self.query())
    }

    /// Returns a parameter of the path: `card_id` of `/enrich/{card_id}`, decoded. `None` for a name that the path does
    /// not have, and for a tool.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // of `GET /suppliers/{name}`, asked as `/suppliers/oak%20%26%20co`
    /// assert_eq!(req.param("name"), Some("oak & co"));
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::get("/").param("name", "oak & co")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn param(&self, name: &str) -> Option<&str> {
        texts(&self.params).find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Returns a parameter of the path as the author's type: a number, a `Uuid`, a string, an enum of serde's.
    ///
    /// A handler that a tool calls, too, reads [`input`](Self::input) instead: a tool has no path.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, Uuid, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_card};
    ///
    /// async fn title(ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let card_id: Uuid = req.param_as("card_id")?;
    ///     let card = ctx.read_card(card_id, ctx.user()?.id).await?;
    ///     Ok(Response::text(card.title))
    /// }
    ///
    /// let manifest = r#"{ "name": "titles", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/title/{card_id}", title));
    /// let lamp = host.add_card(test_card("Lamp", json!({})));
    /// assert_eq!(block_on(host.send(TestRequest::get(&format!("/title/{lamp}")))).text(), "Lamp");
    /// assert_eq!(block_on(host.send(TestRequest::get("/title/lamp"))).status(), 404);
    /// ```
    ///
    /// # Errors
    /// 404 when the value is not a `T`, as for an id that does not exist. An internal error when the path has no such
    /// parameter.
    pub fn param_as<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let value = self.param(name).ok_or_else(|| Error::internal(format!("the path has no parameter `{name}`")))?;
        input::param(value)
    }

    /// Returns the parameters of the path, decoded, in the order of the template.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // of `GET /suppliers/{name}/prices/{sku}`
    /// let params: Vec<_> = req.params().collect();
    /// assert_eq!(params, [("name", "oak-and-co"), ("sku", "L1")]);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let request = TestRequest::get("/").param("name", "oak-and-co").param("sku", "L1");
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        texts(&self.params)
    }

    /// Returns the first value of a header; the name in any case. `None` also when the value is not UTF-8.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// let wants_csv = req.header("Accept").is_some_and(|kinds| kinds.contains("text/csv"));
    /// # assert!(wants_csv);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::get("/").header("accept", "text/csv, */*;q=0.1")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns names (lower case) and values of the headers, in their order. Those that are not UTF-8 are left out, as
    /// are the credentials and the headers of the connection, `host` among them.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // What the plugin's own clients say of themselves.
    /// let own: Vec<_> = req.headers().filter(|(name, _)| name.starts_with("x-shop-")).collect();
    /// assert_eq!(own, [("x-shop-till", "7")]);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let request = TestRequest::get("/").header("x-shop-till", "7").header("accept", "text/csv");
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        texts(&self.headers)
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_tool() { "tool" } else { "route" };
        write!(f, "Request({kind} {} {} {})", self.method, self.path(), self.request_id())
    }
}

/// Attributes that are read as text.
const TEXTS: [u32; 8] = [
    attr::PATH,
    attr::QUERY,
    attr::REQUEST_ID,
    attr::TRACE_PARENT,
    attr::CALL_KIND,
    attr::PEER,
    attr::TOOL,
    attr::LOCALE,
];

/// Checks the head once, so that its texts can be read without errors; gives the method.
fn check_head(head: &[u8]) -> Result<Method> {
    for number in TEXTS {
        let is_text = std::str::from_utf8(record::field(head, number)).is_ok();
        if !is_text {
            return Err(Error::internal(format!("attribute {number} of the call is not UTF-8")));
        }
    }
    match record::field(head, attr::METHOD) {
        b"" => Ok(Method::POST),
        method => Ok(Method::from_bytes(method)?),
    }
}

fn text(head: &[u8], number: u32) -> &str {
    std::str::from_utf8(record::field(head, number)).unwrap_or_default()
}

fn checked_pairs(buffer: Bytes, what: &str) -> Result<Bytes> {
    match pairs::read(&buffer) {
        Some(_) => Ok(buffer),
        None => Err(Error::internal(format!("the {what} of the call are malformed"))),
    }
}

fn texts(buffer: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    pairs::read(buffer).into_iter().flatten().filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
}
