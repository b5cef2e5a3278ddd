//! What a handler is asked.

use std::{
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
    head: Head,
    headers: Vec<(String, String)>,
    params: Vec<(String, String)>,
    body: Mutex<Body>,
}

/// The texts of the head, checked once.
struct Head {
    method: Method,
    path: String,
    query: String,
    request_id: String,
    trace_parent: Option<String>,
    peer: Option<std::net::IpAddr>,
    deadline: Option<Instant>,
    is_tool: bool,
}

enum Body {
    Full(Bytes),
    Stream(abi::Stream),
    /// Somebody has the stream, or was stopped while reading it.
    Taken,
}

impl Request {
    /// Takes what the host sent. Its text is checked here: a host of another version is trusted no
    /// further than any input.
    pub(crate) fn receive(request: abi::Request) -> Result<Self> {
        let abi::Request { head, headers, params, body, stream } = request;
        let body = if stream.is_none() { Body::Full(bytes_in(body)) } else { Body::Stream(stream) };
        Ok(Self {
            head: Head::read(head.get())?,
            headers: texts(headers.get(), "headers")?,
            params: texts(params.get(), "path parameters")?,
            body: Mutex::new(body),
        })
    }

    /// The HTTP method; POST for a tool.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// The path below the plugin's prefix, percent-encoded as it came; `/` for a tool.
    pub fn path(&self) -> &str {
        &self.head.path
    }

    /// The query without `?`, percent-encoded as it came.
    pub fn query(&self) -> &str {
        &self.head.query
    }

    /// The query's pairs, decoded, in their order.
    pub fn query_pairs(&self) -> impl Iterator<Item = (String, String)> + '_ {
        input::pairs(&self.head.query)
    }

    /// A parameter of the path: `card_id` of `/enrich/{card_id}`, decoded.
    pub fn param(&self, name: &str) -> Option<&str> {
        find(&self.params, name)
    }

    /// The first value of a header; the name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Names (lower case) and values of all headers, in their order. A value that is not UTF-8 has
    /// replacement characters.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether this is the call of a tool; its arguments are the body.
    pub fn is_tool(&self) -> bool {
        self.head.is_tool
    }

    /// The id that stands in every log line and error body of this request.
    pub fn request_id(&self) -> &str {
        &self.head.request_id
    }

    /// The W3C `traceparent`, to be sent along with requests to other servers.
    pub fn trace_parent(&self) -> Option<&str> {
        self.head.trace_parent.as_deref()
    }

    /// The client's address, when it is known.
    pub fn peer(&self) -> Option<std::net::IpAddr> {
        self.head.peer
    }

    /// When the host stops waiting; the handler's future is dropped then.
    pub fn deadline(&self) -> Option<Instant> {
        self.head.deadline
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
    /// # Errors
    /// 400 `invalid-json` for a body that is not JSON; 422 with the field's pointer for what does
    /// not fit `T`.
    pub async fn input<T: DeserializeOwned>(&self) -> Result<T> {
        let body = self.body().await?;
        let mut fields = Fields::default();
        fields.add_query(&self.head.query);
        fields.set_json(input::object(&body)?);
        self.params.iter().for_each(|(name, value)| fields.set_param(name, value));
        fields.read()
    }

    /// The body as a stream of pieces, as they arrive.
    ///
    /// # Errors
    /// When it has already been taken as a stream.
    pub fn body_stream(&self) -> Result<ByteStream> {
        match std::mem::replace(&mut *self.lock(), Body::Taken) {
            Body::Stream(stream) => Ok(ByteStream::new(stream)),
            Body::Full(bytes) => Ok(ByteStream::of(bytes)),
            Body::Taken => Err(Error::internal("the request's body has already been taken")),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.head.is_tool { "tool" } else { "route" };
        write!(f, "Request({kind} {} {} {})", self.head.method, self.head.path, self.head.request_id)
    }
}

impl Head {
    fn read(record: &[u8]) -> Result<Self> {
        let text = |number| {
            std::str::from_utf8(record::field(record, number))
                .map(str::to_owned)
                .map_err(|_| Error::internal(format!("attribute {number} of the call is not UTF-8")))
        };
        let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
        let millis: Option<u64> = text(attr::DEADLINE_MS)?.parse().ok();
        Ok(Self {
            method: or(text(attr::METHOD)?, "POST").parse()?,
            path: or(text(attr::PATH)?, "/"),
            query: text(attr::QUERY)?,
            request_id: text(attr::REQUEST_ID)?,
            trace_parent: Some(text(attr::TRACE_PARENT)?).filter(|text| !text.is_empty()),
            peer: text(attr::PEER)?.parse().ok(),
            deadline: millis.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))),
            is_tool: text(attr::CALL_KIND)? == "tool",
        })
    }
}

fn texts(buffer: &[u8], what: &str) -> Result<Vec<(String, String)>> {
    let pairs = pairs::read(buffer).ok_or_else(|| Error::internal(format!("the {what} of the call are malformed")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(pairs.map(|(name, value)| (text(name), text(value))).collect())
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
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
