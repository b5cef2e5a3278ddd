//! What a handler is asked: [`Request`], and its body as bytes, JSON, CSV or a form.

mod csv;
mod multipart;

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use cardinal_plugin_abi::{
    self as abi, pairs,
    record::{self, attr},
};
use http::Method;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use self::{
    csv::CsvRows,
    multipart::{Multipart, Part},
};
use crate::{
    ByteStream, Error, Result,
    input::{self, Fields},
    stream::bytes_in,
};

/// One call of a handler: an HTTP request below the plugin's prefix, or the call of a tool.
///
/// **Input.** [`input`](Self::input) reads query, path and body, or a tool's arguments, as one type. It is what most
/// handlers need, and the only one that serves routes and tools alike.
///
/// **Body.** It arrives while the handler runs. [`body`](Self::body), [`json`](Self::json) and [`input`](Self::input) read
/// it whole and may follow each other: they see the same bytes. [`body_stream`](Self::body_stream), [`csv`](Self::csv) and
/// [`multipart`](Self::multipart) take it piece by piece, once. A body has at most 1 MiB, or `max_body_bytes` of the route
/// in the manifest (at most 64 MiB); the host answers 413 to a larger one.
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

    /// Returns a parameter of the path: `card_id` of `/enrich/{card_id}`, decoded. `None` for a name that the path does not
    /// have, and for a tool.
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

    /// Returns names (lower case) and values of the headers, in their order. Those that are not UTF-8 are left out, as are
    /// the credentials and the headers of the connection, `host` among them.
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

    /// Returns the name of the tool that is called, as in the manifest: `plugin_notes_add`. `None` for a route. It tells
    /// two tools with one handler apart.
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

    /// Returns the language that the client prefers most, a tag such as `de-AT`, from its `Accept-Language`. `None` when it
    /// named none.
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

    /// Returns the W3C `traceparent` of the call. [`PluginContext::http`](crate::PluginContext::http) sends it by itself;
    /// send it along with requests that the plugin makes in another way.
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

    /// Returns when the host stops waiting; the handler's future is dropped then. It is 30 seconds after the call began, or
    /// `timeout_ms` of the manifest. `None` when the host does not say.
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

    /// Reads the whole body; a tool's arguments as JSON text. It can be asked for again.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// let body = req.body().await?;
    /// assert_eq!(&body[..], b"sku,cents\nL1,990\n");
    /// assert_eq!(req.body().await?, body); // the same bytes again
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::post("/").body("text/csv", "sku,cents\nL1,990\n")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    ///
    /// # Errors
    /// * 400 or 413 when the client breaks off, or sends more than the route allows
    /// * an internal error when the body was taken as a stream, or an earlier read of it was dropped half-way
    pub async fn body(&self) -> Result<Bytes> {
        let taken = std::mem::replace(&mut *self.lock(), Body::Taken);
        let bytes = match taken {
            Body::Full(bytes) => bytes,
            Body::Stream(stream) => collect(ByteStream::new(stream)).await?,
            Body::Taken => return Err(Error::internal("the request's body has already been taken")),
        };
        *self.lock() = Body::Full(bytes.clone());
        Ok(bytes)
    }

    /// Reads the whole body as JSON of any kind, whatever its `content-type`. [`input`](Self::input) reads an object and
    /// names the fields at fault.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// let skus: Vec<String> = req.json().await?; // any JSON, here a list
    /// assert_eq!(skus, ["L1", "L2"]);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::post("/").json(&["L1", "L2"])));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    ///
    /// # Errors
    /// 400 `invalid-json` when it is not JSON, 422 when it does not fit `T`, and the errors of [`body`](Self::body).
    pub async fn json<T: DeserializeOwned>(&self) -> Result<T> {
        input::from_json(&self.body().await?)
    }

    /// Reads the input from everywhere at once: the query, the JSON object in the body, the parameters of the path. A later
    /// one wins over an earlier one of the same name. In a tool call it reads the arguments.
    ///
    /// Text from query and path becomes what `T` asks for: numbers, booleans (`true` and `false`), enums, and lists of a
    /// name that repeats. JSON values stay as strict as JSON is: `"10"` is not a number. Fields that `T` does not have are
    /// ignored, unless it says `#[serde(deny_unknown_fields)]`. An empty body counts as an empty object.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, Uuid, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Find {
    ///     card_id: Uuid,       // of the path
    ///     limit: Option<u32>,  // of the query
    ///     #[serde(default)]
    ///     tags: Vec<String>,   // of the body; of a tool's arguments like the other two
    /// }
    ///
    /// async fn find(_ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let Find { card_id, limit, tags } = req.input().await?;
    ///     Ok(Response::json(&json!({ "card": card_id, "limit": limit.unwrap_or(20), "tags": tags })))
    /// }
    ///
    /// let manifest = r#"{ "name": "finder", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/find/{card_id}", find));
    /// let id = "0190d3a0-0000-7000-8000-000000000001";
    /// let ask = |limit| TestRequest::post(&format!("/find/{id}?limit={limit}")).json(&json!({ "tags": ["oak"] }));
    /// assert_eq!(block_on(host.send(ask("5"))).json(), json!({ "card": id, "limit": 5, "tags": ["oak"] }));
    /// assert_eq!(block_on(host.send(ask("five"))).json()["errors"][0]["pointer"], "/limit");
    /// ```
    ///
    /// # Errors
    /// * 400 `invalid-json` for a body that is not JSON
    /// * 422 for a body that is not an object, and for a field that does not fit, with its pointer
    /// * 404 when that field is a parameter of the path
    /// * the errors of [`body`](Self::body)
    pub async fn input<T: DeserializeOwned>(&self) -> Result<T> {
        let body = self.body().await?;
        let mut fields = Fields::default();
        fields.add_query(self.query());
        fields.set_json(input::object(&body)?);
        self.params().for_each(|(name, value)| fields.set_param(name, value));
        fields.read()
    }

    /// Takes the body as a stream of pieces, as they arrive. Nothing is read before it is asked for.
    ///
    /// A route that allows more than 1 MiB streams from the client; the body of any other is there already, as one piece.
    /// The stream belongs to the call and ends with it. [`ByteStream`] has an example.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result};
    ///
    /// /// Looks at a file of any size, a piece at a time.
    /// async fn count_lines(_: PluginContext, req: Request) -> Result<Response> {
    ///     let (mut file, mut lines) = (req.body_stream()?, 0);
    ///     while let Some(piece) = file.next().await {
    ///         lines += piece?.iter().filter(|byte| **byte == b'\n').count();
    ///     }
    ///     Ok(Response::text(format!("{lines} lines")))
    /// }
    /// # use cardinal_plugin::{Router, block_on, testing::{TestHost, TestRequest}};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(count_lines, TestRequest::put("/").pieces(["sku,ce", "nts\nL1,990\n"])));
    /// # assert_eq!(reply.text(), "2 lines");
    /// ```
    ///
    /// # Errors
    /// An internal error when the body has already been taken as a stream.
    pub fn body_stream(&self) -> Result<ByteStream> {
        match std::mem::replace(&mut *self.lock(), Body::Taken) {
            Body::Stream(stream) => Ok(ByteStream::new(stream)),
            Body::Full(bytes) => Ok(ByteStream::from_bytes(bytes)),
            Body::Taken => Err(Error::internal("the request's body has already been taken")),
        }
    }

    /// Reads the header row of a CSV body and returns the rows behind it, which are read as they arrive.
    ///
    /// `separator` is one ASCII character, as a rule `b','` or `b';'`. Fields may be in double quotes (RFC 4180), lines end
    /// with LF or CRLF, the text is UTF-8, with or without a byte order mark. At most one row is held in memory.
    /// `max_body_bytes` of the route says how large a file may be.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Price {
    ///     sku: String,
    ///     price: f64,
    /// }
    ///
    /// async fn import(_ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let (mut rows, mut sum) = (req.csv(b',').await?, 0.0);
    ///     while let Some(Price { sku: _, price }) = rows.next().await? {
    ///         sum += price;
    ///     }
    ///     Ok(Response::json(&json!({ "sum": sum })))
    /// }
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/import", import));
    /// let send = |text: &'static str| block_on(host.send(TestRequest::post("/import").body("text/csv", text)));
    /// assert_eq!(send("sku,price\nL1,1.5\nL2,2\n").json(), json!({ "sum": 3.5 }));
    /// assert_eq!(send("sku,price\nL1,cheap\n").json()["errors"][0]["pointer"], "/2/price");
    /// ```
    ///
    /// # Errors
    /// * 422 for an empty file, and for a header row with a column that has no name or the name of another
    /// * 413 for a header row of over 1 MiB or 1,000 fields
    /// * an internal error when the body has been taken as a stream, and the errors of [`ByteStream::next`]
    pub async fn csv(&self, separator: u8) -> Result<CsvRows> {
        CsvRows::open(self.body_stream()?, separator).await
    }

    /// Returns the parts of a `multipart/form-data` body, as browsers send forms with files.
    ///
    /// They are read as they arrive, one after the other: no more than a piece of one is held in memory, unless
    /// [`Part::bytes`] is asked for.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn upload(_ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let (mut form, mut size) = (req.multipart()?, 0);
    ///     while let Some(mut part) = form.next().await? {
    ///         match part.name() {
    ///             "file" => while let Some(piece) = part.chunk().await? {
    ///                 size += piece.len();
    ///             },
    ///             _ => drop(part.text(1_000).await?),
    ///         }
    ///     }
    ///     Ok(Response::json(&json!({ "size": size })))
    /// }
    ///
    /// let manifest = r#"{ "name": "files", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/upload", upload));
    /// let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nhello\r\n--x--\r\n";
    /// let request = TestRequest::post("/upload").body("multipart/form-data; boundary=x", form);
    /// assert_eq!(block_on(host.send(request)).json(), json!({ "size": 5 }));
    /// ```
    ///
    /// # Errors
    /// 415 `unsupported-media-type` when the `content-type` is another, or has no usable boundary. An internal error when
    /// the body has been taken as a stream.
    pub fn multipart(&self) -> Result<Multipart> {
        let content_type = self.header("content-type").unwrap_or_default().to_owned();
        Multipart::open(self.body_stream()?, &content_type)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
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

async fn collect(mut pieces: ByteStream) -> Result<Bytes> {
    let Some(first) = pieces.next().await.transpose()? else { return Ok(Bytes::new()) };
    let Some(second) = pieces.next().await.transpose()? else { return Ok(first) };
    let mut whole = BytesMut::from(first);
    whole.extend_from_slice(&second);
    while let Some(piece) = pieces.next().await {
        whole.extend_from_slice(&piece?);
    }
    Ok(whole.freeze())
}
