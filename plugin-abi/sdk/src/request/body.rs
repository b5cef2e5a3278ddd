//! The body of a request, whole or as it arrives, and the input that it is a part of.

use std::sync::{MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;

use super::{Body, CsvRows, Multipart, Request};
use crate::{
    ByteStream, Error, Result,
    input::{self, Fields},
};

impl Request {
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

    /// Reads the whole body as JSON of any kind, whatever its `content-type`. [`input`](Self::input) reads an object
    /// and names the fields at fault.
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

    /// Reads the input from everywhere at once: the query, the JSON object in the body, the parameters of the path. A
    /// later one wins over an earlier one of the same name. In a tool call it reads the arguments.
    ///
    /// Text from query and path becomes what `T` asks for: numbers, booleans (`true` and `false`), enums, and lists of
    /// a name that repeats. JSON values stay as strict as JSON is: `"10"` is not a number. Fields that `T` does not
    /// have are ignored, unless it says `#[serde(deny_unknown_fields)]`. An empty body counts as an empty object.
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
    /// A route that allows more than 1 MiB streams from the client; the body of any other is there already, as one
    /// piece. The stream belongs to the call and ends with it. [`ByteStream`] has an example.
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
    /// `separator` is one ASCII character, as a rule `b','` or `b';'`. Fields may be in double quotes (RFC 4180), lines
    /// end with LF or CRLF, the text is UTF-8, with or without a byte order mark. At most one row is held in memory.
    /// `max_body_bytes` of the route says how large a file may be. The `content-type` may be any but those of JSON and
    /// of forms with files, whose text would pass for a header row without rows.
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
    /// * 415 `unsupported-media-type` for a body that says it is JSON or a form with files
    /// * 422 for an empty file, and for a header row with a column that has no name or the name of another
    /// * 413 for a header row of over 1 MiB or 1,000 fields
    /// * an internal error when the body has been taken as a stream, and the errors of [`ByteStream::next`]
    pub async fn csv(&self, separator: u8) -> Result<CsvRows> {
        let content_type = self.header("content-type").unwrap_or_default();
        if is_no_csv(content_type) {
            let detail = format!("The body must be CSV, not {}.", media_type(content_type));
            return Err(Error::with_code(415, "unsupported-media-type", detail));
        }
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
    /// 415 `unsupported-media-type` when the `content-type` is another, or has no usable boundary. An internal error
    /// when the body has been taken as a stream.
    ///
    /// [`Part::bytes`]: crate::Part::bytes
    pub fn multipart(&self) -> Result<Multipart> {
        let content_type = self.header("content-type").unwrap_or_default().to_owned();
        Multipart::open(self.body_stream()?, &content_type)
    }

    fn lock(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A content type without its parameters, as in `text/csv; charset=utf-8`.
fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Programs send CSV with all kinds of types; these are of something else.
fn is_no_csv(content_type: &str) -> bool {
    let media_type = media_type(content_type).to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json") || media_type.starts_with("multipart/")
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
