//! What a handler is asked.

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
/// The body comes over while the handler runs; it is read once by [`body`](Self::body),
/// [`json`](Self::json) or [`input`](Self::input) (which may follow each other, and then see the
/// same bytes), or taken piece by piece with [`body_stream`](Self::body_stream). Credentials
/// (`authorization`, `cookie`) never reach a plugin.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, json};
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

    /// The HTTP method; POST for a tool.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path below the plugin's prefix, percent-encoded as it came; `/` for a tool.
    pub fn path(&self) -> &str {
        match text(&self.head, attr::PATH) {
            "" => "/",
            path => path,
        }
    }

    /// The query without `?`, percent-encoded as it came.
    pub fn query(&self) -> &str {
        text(&self.head, attr::QUERY)
    }

    /// The query's pairs, decoded, in their order.
    pub fn query_pairs(&self) -> impl Iterator<Item = (String, String)> + '_ {
        input::pairs(self.query())
    }

    /// A parameter of the path: `card_id` of `/enrich/{card_id}`, decoded.
    pub fn param(&self, name: &str) -> Option<&str> {
        texts(&self.params).find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// A parameter of the path as the author's type. A handler that a tool calls, too, reads [`input`](Self::input) instead:
    /// a tool has no path.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Uuid};
    ///
    /// async fn title(ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let card_id: Uuid = req.param_as("card_id")?;
    ///     let card = ctx.read_card(card_id, ctx.user()?.id).await?;
    ///     Ok(Response::text(card.title))
    /// }
    /// ```
    ///
    /// # Errors
    /// 404 when the value is no `T`, as for an id that nobody has; an internal error when the path has no such parameter.
    pub fn param_as<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let value = self.param(name).ok_or_else(|| Error::internal(format!("the path has no parameter `{name}`")))?;
        input::param(value)
    }

    /// The parameters of the path, decoded, in the order of the template.
    pub fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        texts(&self.params)
    }

    /// The first value of a header; the name in any case. `None` also when it is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names (lower case) and values of the headers, in their order; without those that are not
    /// UTF-8.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        texts(&self.headers)
    }

    /// Whether this is the call of a tool; its arguments are the body.
    pub fn is_tool(&self) -> bool {
        text(&self.head, attr::CALL_KIND) == "tool"
    }

    /// The job whose handler is called, and the checkpoint of its run before.
    pub(crate) fn job(&self) -> Option<(Uuid, Bytes)> {
        let id = text(&self.head, attr::JOB).parse().ok()?;
        Some((id, self.head.slice_ref(record::field(&self.head, attr::CHECKPOINT))))
    }

    /// The name of the tool that is called, as in the manifest: `plugin_notes_add`. `None` for a route. Tells two tools with
    /// one handler apart.
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

    /// The language that the client prefers, a tag such as `de-AT`: the first of its `Accept-Language`. `None` when it named
    /// none.
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

    /// The id that stands in every log line and error body of this request.
    pub fn request_id(&self) -> &str {
        text(&self.head, attr::REQUEST_ID)
    }

    /// The W3C `traceparent`, to be sent along with requests to other servers.
    pub fn trace_parent(&self) -> Option<&str> {
        Some(text(&self.head, attr::TRACE_PARENT)).filter(|text| !text.is_empty())
    }

    /// The client's address, when it is known.
    pub fn peer(&self) -> Option<IpAddr> {
        text(&self.head, attr::PEER).parse().ok()
    }

    /// When the host stops waiting; the handler's future is dropped then.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The whole body. Can be asked for again; the size is bounded by the host (1 MiB unless the
    /// manifest says otherwise), which answers 413 itself.
    ///
    /// # Errors
    /// When the client went away while sending, or the body was taken as a stream.
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

    /// The body as JSON.
    ///
    /// # Errors
    /// 400 `invalid-json` when it is not JSON, 422 when it does not fit `T`.
    pub async fn json<T: DeserializeOwned>(&self) -> Result<T> {
        input::from_json(&self.body().await?)
    }

    /// The input from everywhere at once: the query, the JSON object in the body, the path's
    /// parameters (a later one wins); in a tool call the arguments. So one handler serves a route
    /// and a tool. Text from query and path becomes the numbers, booleans, lists that `T` has.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Uuid, json};
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
    /// ```
    ///
    /// # Errors
    /// 400 `invalid-json` for a body that is not JSON; 422 with the field's pointer for what does
    /// not fit `T`; 404 when that is a parameter of the path (an id that is none).
    pub async fn input<T: DeserializeOwned>(&self) -> Result<T> {
        let body = self.body().await?;
        let mut fields = Fields::default();
        fields.add_query(self.query());
        fields.set_json(input::object(&body)?);
        self.params().for_each(|(name, value)| fields.set_param(name, value));
        fields.read()
    }

    /// The body as a stream of pieces, as they arrive.
    ///
    /// # Errors
    /// When it has already been taken as a stream.
    pub fn body_stream(&self) -> Result<ByteStream> {
        match std::mem::replace(&mut *self.lock(), Body::Taken) {
            Body::Stream(stream) => Ok(ByteStream::new(stream)),
            Body::Full(bytes) => Ok(ByteStream::from_bytes(bytes)),
            Body::Taken => Err(Error::internal("the request's body has already been taken")),
        }
    }

    /// The rows of a CSV body with a header row, read as they arrive: at most one row is held in memory. `max_body_bytes` of
    /// the route says how large a file may be.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, json};
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
    /// ```
    ///
    /// # Errors
    /// 422 for a file without a usable header row; when the body has been taken as a stream.
    pub async fn csv(&self, separator: u8) -> Result<CsvRows> {
        CsvRows::open(self.body_stream()?, separator).await
    }

    /// The parts of a `multipart/form-data` body, as browsers send forms with files. They are read as they arrive, one after
    /// the other: nothing but a piece of one is held in memory, unless [`Part::bytes`] is asked for.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, json};
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
    /// ```
    ///
    /// # Errors
    /// 415 when the body is none; when it has been taken as a stream.
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
