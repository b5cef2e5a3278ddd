//! Server-sent events, redirects, files.

use std::{path::Path, pin::Pin, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use tokio::io::AsyncReadExt;

use super::Response;
use crate::{Error, Result};

/// A comment is sent when nothing else was for so long, so that nobody between takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Files up to this size are read whole, so that [`Response::conditional`] can answer with parts of them.
const WHOLE_FILE: u64 = 4 << 20;
/// A piece of a larger one.
const PIECE: usize = 64 << 10;

/// One server-sent event, for [`Response::events`].
///
/// ```
/// use cardinal_plugin::testing::{TestHost, TestRequest};
/// use cardinal_plugin::{Event, PluginContext, Request, Response, Result, Router, block_on, futures::stream, json};
///
/// async fn progress(_: PluginContext, _: Request) -> Result<Response> {
///     let event = Event::json(&json!({ "done": 3 })).name("progress").id("3");
///     Ok(Response::events(stream::iter([Ok(event)])))
/// }
///
/// let manifest = r#"{ "name": "feeds", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/progress", progress));
/// let reply = block_on(host.send(TestRequest::get("/progress")));
/// assert_eq!(reply.text(), "event: progress\nid: 3\ndata: {\"done\":3}\n\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Event {
    name: Option<String>,
    id: Option<String>,
    data: String,
    fault: Option<String>,
}

impl Event {
    /// Makes an event with a text, which may have several lines.
    ///
    /// ```
    /// use cardinal_plugin::{Event, PluginContext, Request, Response, Result, block_on, testing::TestRequest};
    ///
    /// async fn news(_: PluginContext, _: Request) -> Result<Response> {
    ///     let lines = Event::text("a new price\nof the lamp");
    ///     Ok(Response::events(cardinal_plugin::futures::stream::iter([Ok(lines)])))
    /// }
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    ///
    /// assert_eq!(block_on(host.call(news, TestRequest::get("/"))).text(), "data: a new price\ndata: of the lamp\n\n");
    /// ```
    pub fn text(data: impl Into<String>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// Makes an event with JSON. A value that cannot be serialised ends the stream with an error.
    ///
    /// ```
    /// use cardinal_plugin::{Event, PluginContext, Request, Response, Result, block_on, json, testing::TestRequest};
    ///
    /// async fn news(_: PluginContext, _: Request) -> Result<Response> {
    ///     let price = Event::json(&json!({ "sku": "L1", "cents": 990 }));
    ///     Ok(Response::events(cardinal_plugin::futures::stream::iter([Ok(price)])))
    /// }
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    ///
    /// let reply = block_on(host.call(news, TestRequest::get("/")));
    /// assert_eq!(reply.text(), "data: {\"cents\":990,\"sku\":\"L1\"}\n\n");
    /// ```
    pub fn json(data: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_string(data) {
            Ok(data) => Self::text(data),
            Err(error) => Self { fault: Some(error.to_string()), ..Self::default() },
        }
    }

    /// Sets the name that listeners choose by; a browser calls it `message` when it is not set. It must be one line.
    ///
    /// ```
    /// use cardinal_plugin::Event;
    ///
    /// // In the browser: `source.addEventListener("price", (event) => show(event.data))`.
    /// let event = Event::text("9.90").name("price");
    /// # let reply = cardinal_plugin::Response::events(cardinal_plugin::futures::stream::iter([Ok(event)]));
    /// ```
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets what a client that comes back says in `Last-Event-ID`. It must be one line.
    ///
    /// ```
    /// use cardinal_plugin::{Event, Request};
    ///
    /// /// What the client heard last before it lost the connection.
    /// fn last_heard(req: &Request) -> Option<u64> {
    ///     req.header("last-event-id")?.parse().ok()
    /// }
    /// let event = Event::text("9.90").id("7");
    /// ```
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    fn write(self) -> Result<Bytes> {
        if let Some(fault) = self.fault {
            return Err(Error::internal(fault));
        }
        let mut out = String::new();
        for (field, text) in [("event", self.name), ("id", self.id)] {
            let Some(text) = text else { continue };
            if text.contains(['\r', '\n', '\0']) {
                return Err(Error::internal(format!("the {field} of an event must be one line")));
            }
            out.push_str(&format!("{field}: {text}\n"));
        }
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            out.push_str(&format!("data: {line}\n"));
        }
        out.push('\n');
        Ok(out.into())
    }
}

impl Response {
    /// Answers with server-sent events (`EventSource`), for as long as the stream goes on and the client listens.
    ///
    /// A comment is sent whenever 15 seconds have passed without an event, so that no proxy takes the connection for
    /// dead. The stream is dropped when the client goes away. It counts as a call under way all the time, of which a
    /// plugin has 1,024. When the plugin is replaced it has a minute, then it is cut off: `EventSource` comes back by
    /// itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{Event, PluginContext, Request, Response, Result, Router, block_on, futures::stream, tokio};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn ticks(_ctx: PluginContext, _req: Request) -> Result<Response> {
    ///     let ticks = stream::unfold(0, |n| async move {
    ///         tokio::time::sleep(Duration::from_secs(1)).await;
    ///         Some((Ok(Event::text(n.to_string())), n + 1))
    ///     });
    ///     Ok(Response::events(ticks))
    /// }
    ///
    /// let manifest = r#"{ "name": "clock", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::builder(manifest).paused().start(|_: &PluginContext| Router::new().get("/ticks", ticks));
    /// let mut reply = block_on(host.begin(TestRequest::get("/ticks")));
    /// let first = host.context().spawn(async move { reply.next_piece().await });
    /// block_on(host.advance(Duration::from_secs(1)));
    /// assert_eq!(block_on(first).unwrap().unwrap().unwrap(), "data: 0\n\n");
    /// ```
    pub fn events<S>(events: S) -> Self
    where
        S: Stream<Item = Result<Event>> + Send + 'static,
    {
        let events: Pin<Box<dyn Stream<Item = Result<Event>> + Send>> = Box::pin(events);
        let pieces = stream::unfold(events, |mut events| async move {
            let piece = match tokio::time::timeout(KEEP_ALIVE, events.next()).await {
                Ok(event) => event?.and_then(Event::write),
                Err(_) => Ok(Bytes::from_static(b":\n\n")),
            };
            Some((piece, events))
        });
        Self::stream("text/event-stream", pieces).header("cache-control", "no-store")
    }

    /// Answers 303: the client goes on with GET at `location`, an address or a path of this host.
    ///
    /// `.status(307)` and `.status(308)` keep the method; 308 holds for good.
    ///
    /// ```
    /// use cardinal_plugin::Response;
    ///
    /// let reply = Response::redirect("/admin/");
    /// let moved = Response::redirect("https://shop.example/items/7").status(308);
    /// ```
    pub fn redirect(location: &str) -> Self {
        Self::empty().status(303).header("location", location)
    }

    /// Answers with a file of the machine, with the media type of its name and an `ETag` of its length and its time.
    ///
    /// Up to 4 MiB it is read whole, and [`conditional`](Self::conditional) answers with parts of it; a larger one is
    /// streamed. It is read on the threads of tokio for blocking work. Files are read with the rights of the worker's
    /// account.
    ///
    /// Never make the path of what a client sends without checking it: `..` leads out of any folder.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result};
    ///
    /// async fn manual(_ctx: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::file("/usr/share/notes/manual.pdf").await?.conditional(&req))
    /// }
    /// ```
    ///
    /// # Errors
    /// 404 when there is no such file, or it is a folder. An internal error for anything else that keeps it from being
    /// read.
    pub async fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let missing = || Error::not_found("There is no such file.");
        let file = match tokio::fs::File::open(path).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
            opened => opened?,
        };
        let metadata = file.metadata().await?;
        if !metadata.is_file() {
            return Err(missing());
        }
        let changed = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let version = format!("{:x}-{:x}", metadata.len(), changed.as_nanos());
        let reply = if metadata.len() <= WHOLE_FILE {
            let mut whole = Vec::new();
            file.take(WHOLE_FILE).read_to_end(&mut whole).await?;
            Self::bytes(media_type(path), whole)
        } else {
            let pieces = stream::try_unfold(file, |mut file| async move {
                let mut piece = BytesMut::with_capacity(PIECE);
                let length = file.read_buf(&mut piece).await?;
                Ok((length > 0).then(|| (piece.freeze(), file)))
            });
            Self::stream(media_type(path), pieces)
        };
        Ok(reply.etag(&version))
    }
}

/// The media type of a file's name.
fn media_type(path: &Path) -> &'static str {
    let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default().to_ascii_lowercase();
    match kind.as_str() {
        "avif" => "image/avif",
        "csv" => "text/csv; charset=utf-8",
        "gif" => "image/gif",
        "gz" => "application/gzip",
        "jpg" | "jpeg" => "image/jpeg",
        "json" => "application/json",
        "md" => "text/markdown; charset=utf-8",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "webp" => "image/webp",
        "xml" => "application/xml",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_cannot_be_broken_out_of() {
        let event = Event::text("a\nb\r\nc\rd").name("n").id("7").write().unwrap();
        assert_eq!(event, "event: n\nid: 7\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
        assert_eq!(Event::text("").write().unwrap(), "data: \n\n");
        assert!(Event::text("x").name("a\ndata: b").write().is_err());
        assert!(Event::json(&std::collections::HashMap::from([(vec![1u8], 1)])).write().is_err());
    }
}
