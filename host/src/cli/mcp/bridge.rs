//! Between a client that writes lines and a host that speaks HTTP.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::headers::{self, HeaderArguments};
use crate::cli::client::{self, Client, RequestError, events::Events};

const ENDPOINT: &str = "/api";
const BOTH: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";
/// Bytes of an event. A host's largest is a result with text and object, and their escapes.
const EVENT_LIMIT: usize = 32 << 20;
const SESSION_ID: &str = "mcp-session-id";
/// Until an answer begins, and between two pieces of it: the host shows every 15 seconds that it is there.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the answers that are left are waited for when the client has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(30);
/// How long the host may take to end the session.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(2);
/// Before the host's stream is opened again; doubled each time that fails.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

const PARSE_ERROR: i32 = -32700;
const HOST_ERROR: i32 = -32000;

/// What the host has given a client of a revision with sessions.
#[derive(Clone, Default)]
struct Session {
    id: Option<HeaderValue>,
    revision: Option<HeaderValue>,
}

pub(super) struct Bridge {
    client: Client,
    narrowing: HeaderMap,
    out: mpsc::Sender<String>,
    session: Mutex<Session>,
    arguments: Mutex<HeaderArguments>,
    /// Requests that are not answered, by their ids.
    open: Mutex<HashMap<String, OpenRequest>>,
    tasks: Mutex<JoinSet<()>>,
    /// The host's own stream of messages.
    listening: Mutex<Option<AbortHandle>>,
}

struct OpenRequest {
    task: AbortHandle,
    /// Closing its connection cancels it.
    is_modern: bool,
    /// It stays open until somebody ends it.
    lasts: bool,
}

impl Bridge {
    pub(super) fn new(client: Client, narrowing: HeaderMap, out: mpsc::Sender<String>) -> Self {
        Self {
            client,
            narrowing,
            out,
            session: Mutex::default(),
            arguments: Mutex::default(),
            open: Mutex::default(),
            tasks: Mutex::default(),
            listening: Mutex::default(),
        }
    }

    /// Passes a message of the client's on. What is to be answered goes on beside the next; the rest keeps its order.
    pub(super) async fn take(self: &Arc<Self>, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return self.refuse("it is not JSON").await;
        };
        let line = Bytes::copy_from_slice(line);
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let is_request = !method.is_empty() && message.get("id").is_some();
        if is_request && method != "initialize" {
            return self.begin(message, line, &method);
        }
        if method == "notifications/cancelled" && self.cancel(&message["params"]["requestId"]) {
            return;
        }
        self.exchange(&message, line).await;
        if method == "notifications/initialized" {
            self.listen();
        }
    }

    /// Answers what is no message.
    pub(super) async fn refuse(&self, why: &str) {
        self.write_line(error(&Value::Null, PARSE_ERROR, &format!("Parse error: {why}"), Value::Null)).await;
    }

    fn begin(self: &Arc<Self>, message: Value, line: Bytes, method: &str) {
        let (id, is_modern) = (message["id"].to_string(), headers::revision(&message).is_some());
        let (bridge, own) = (Arc::clone(self), id.clone());
        // Its end finds it in the list: both wait for the lock.
        let mut open = self.open.lock();
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {} // those that have ended leave the set
        let task = tasks.spawn(async move {
            bridge.exchange(&message, line).await;
            bridge.open.lock().remove(&own);
        });
        open.insert(id, OpenRequest { task, is_modern, lasts: method == "subscriptions/listen" });
    }

    /// Ends a request of a revision in which closing the connection cancels; `false` when the host has to be told.
    fn cancel(&self, id: &Value) -> bool {
        let mut open = self.open.lock();
        let id = id.to_string();
        let is_modern = open.get(&id).is_some_and(|request| request.is_modern);
        if is_modern && let Some(request) = open.remove(&id) {
            request.task.abort();
        }
        is_modern
    }

    /// Sends a message and passes on what the host answers. A request is answered in any case.
    async fn exchange(&self, message: &Value, line: Bytes) {
        let begins = message["method"] == "initialize";
        let Err(failure) = self.try_exchange(message, line, begins).await else { return };
        let text = format!("{failure:#}");
        if message.get("method").is_none() || message.get("id").is_none() {
            eprint_line(&text);
            return;
        }
        let data = match failure.downcast_ref::<RequestError>() {
            Some(RequestError::Refused { status, problem }) => {
                json!({"status": status.as_u16(), "code": problem["code"], "request_id": problem["request_id"]})
            }
            _ => Value::Null,
        };
        self.write_line(error(&message["id"], HOST_ERROR, &text, data)).await;
    }

    async fn try_exchange(&self, message: &Value, line: Bytes, begins: bool) -> anyhow::Result<()> {
        let mut request = Request::new(client::full(line));
        *request.method_mut() = Method::POST;
        let out = request.headers_mut();
        out.extend(self.narrowing.clone());
        if headers::revision(message).is_some() {
            out.extend(headers::headers(message, &self.arguments.lock()));
        } else if !begins {
            self.name_session(out);
        }
        out.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        out.insert(header::ACCEPT, HeaderValue::from_static(BOTH));
        let answer = in_time(self.client.exchange(ENDPOINT, request)).await??;
        if begins && answer.status().is_success() {
            self.session.lock().id = answer.headers().get(SESSION_ID).cloned();
        }
        let id = message.get("id").filter(|_| message.get("method").is_some());
        self.pass_on(answer, id, begins, &mut Events::after(None, EVENT_LIMIT)).await
    }

    fn name_session(&self, headers: &mut HeaderMap) {
        let session = self.session.lock().clone();
        for (name, value) in [(SESSION_ID, session.id), ("mcp-protocol-version", session.revision)] {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
    }

    /// Writes the messages of an answer. `id` is that of the request that is to be answered.
    async fn pass_on(
        &self,
        answer: Response<Incoming>,
        id: Option<&Value>,
        begins: bool,
        events: &mut Events,
    ) -> anyhow::Result<()> {
        let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with(EVENTS) {
            let mut body = answer.into_body();
            let mut is_answered = id.is_none();
            while let Some(frame) = in_time(body.frame()).await? {
                let frame = frame.map_err(|error| self.client.broken_off(error.into()))?;
                let Some(data) = frame.data_ref() else { continue };
                let messages =
                    events.take(data).ok_or_else(|| anyhow::anyhow!("an event from the host is too large"))?;
                for message in messages {
                    is_answered |= self.deliver(&message.data, id, begins).await;
                }
            }
            anyhow::ensure!(is_answered, "the host ended the stream before it answered");
            return Ok(());
        }
        let status = answer.status();
        let body = in_time(self.client.body(answer)).await??;
        if body.is_empty() && status.is_success() {
            return Ok(());
        }
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        if message["jsonrpc"] == "2.0" {
            self.deliver(&String::from_utf8_lossy(&body), id, begins).await;
            return Ok(());
        }
        Err(self.client.refused(status, message).into())
    }

    /// Writes a message of the host's; says whether it answers `id`.
    async fn deliver(&self, text: &str, id: Option<&Value>, begins: bool) -> bool {
        let mut message: Value = serde_json::from_str(text).unwrap_or_default();
        let is_answer = message.get("method").is_none();
        if begins && let Some(revision) = message["result"]["protocolVersion"].as_str() {
            self.session.lock().revision = HeaderValue::from_str(revision).ok();
        }
        if message["result"]["tools"].is_array() {
            self.arguments.lock().learn(&message);
        }
        // An error that the host could not attribute to the request; its client would wait for ever.
        if let Some(id) = id
            && is_answer
            && message["id"].is_null()
        {
            message["id"] = id.clone();
            self.write_line(message.to_string()).await;
            return true;
        }
        // A line as the host wrote it, with every digit: line ends stand between members alone.
        self.write_line(text.replace(['\n', '\r'], " ")).await;
        is_answer && id == Some(&message["id"])
    }

    async fn write_line(&self, line: String) {
        // Without a reader the command ends.
        let _ = self.out.send(line).await;
    }

    /// Opens the stream of the messages that the host sends by itself, where there is a session.
    fn listen(self: &Arc<Self>) {
        if self.session.lock().id.is_none() {
            return;
        }
        let bridge = Arc::clone(self);
        let task = tokio::spawn(async move { bridge.receive().await }).abort_handle();
        if let Some(before) = self.listening.lock().replace(task) {
            before.abort();
        }
    }

    async fn receive(&self) {
        let (mut pause, mut last_id) = (FIRST_PAUSE, None);
        loop {
            let mut events = Events::after(last_id, EVENT_LIMIT);
            match self.hear_once(&mut events).await {
                Ok(StatusCode::OK) => pause = FIRST_PAUSE,
                // There is no such stream, or no session any more: the next request says so.
                Ok(_) => return,
                Err(_) => pause = MAX_PAUSE.min(pause * 2),
            }
            last_id = events.last_id;
            tokio::time::sleep(pause).await;
        }
    }

    async fn hear_once(&self, events: &mut Events) -> anyhow::Result<StatusCode> {
        let mut request = Request::new(client::empty());
        let headers = request.headers_mut();
        headers.extend(self.narrowing.clone());
        self.name_session(headers);
        headers.insert(header::ACCEPT, HeaderValue::from_static(EVENTS));
        if let Some(id) = events.last_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert("last-event-id", id);
        }
        let answer = in_time(self.client.exchange(ENDPOINT, request)).await??;
        let status = answer.status();
        if status == StatusCode::OK {
            self.pass_on(answer, None, false, events).await?;
        }
        anyhow::ensure!(!status.is_server_error(), "the host cannot open a stream at the moment");
        Ok(status)
    }

    /// Waits for the answers that are left, and ends the session.
    pub(super) async fn finish(&self) {
        self.open.lock().retain(|_, request| {
            if request.lasts {
                request.task.abort();
            }
            !request.lasts
        });
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let rest = async { while tasks.join_next().await.is_some() {} };
        if timeout(LAST_ANSWERS, rest).await.is_err() {
            eprint_line("the host did not answer all requests in time");
        }
        tasks.shutdown().await;
        if let Some(listening) = self.listening.lock().take() {
            listening.abort();
        }
        if self.session.lock().id.is_none() {
            return;
        }
        let mut request = Request::new(client::empty());
        *request.method_mut() = Method::DELETE;
        self.name_session(request.headers_mut());
        // It would be forgotten without it, too.
        let _ = timeout(END_SESSION_TIMEOUT, self.client.exchange(ENDPOINT, request)).await;
    }
}

async fn in_time<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    timeout(SILENCE_TIMEOUT, work)
        .await
        .map_err(|_| anyhow::anyhow!("the host has been silent for {} seconds", SILENCE_TIMEOUT.as_secs()))
}

fn error(id: &Value, code: i32, text: &str, data: Value) -> String {
    let mut error = json!({"code": code, "message": text});
    if !data.is_null() {
        error["data"] = data;
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

fn eprint_line(text: &str) {
    crate::cli::print_error(&format!("cardinal: {}", crate::cli::text::plain_lines(text)));
}
