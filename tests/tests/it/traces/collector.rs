//! A collector of the tests' own, and what it was sent.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use cardinal_tests::{Answer, Host, HostSettings, Package, PluginsFolder, eventually};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What a collector was sent: the path, the headers, the body.
pub(super) type Export = (String, HeaderMap, String);

/// A collector that takes everything, after it has answered what it is told to.
pub(super) struct Collector {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Export>>>,
    answers: Arc<Mutex<VecDeque<Response<Full<Bytes>>>>>,
}

impl Collector {
    pub(super) async fn start() -> Collector {
        Collector::at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(super) async fn at(address: SocketAddr) -> Collector {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, answers) = (Arc::<Mutex<Vec<Export>>>::default(), Arc::<Mutex<VecDeque<_>>>::default());
        let collector = Collector { address, seen: Arc::clone(&seen), answers: Arc::clone(&answers) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
                let taking = service_fn(move |request: Request<Incoming>| {
                    let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let body = String::from_utf8(body.to_vec()).unwrap();
                        assert_eq!(head.method, Method::POST);
                        seen.lock().unwrap().push((head.uri.to_string(), head.headers, body));
                        let answer = answers.lock().unwrap().pop_front();
                        let taken = || Response::new(Full::from(r#"{"partialSuccess":{}}"#));
                        Ok::<_, Infallible>(answer.unwrap_or_else(taken))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), taking));
            }
        });
        collector
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn settings(&self) -> HostSettings {
        settings(&self.url())
    }

    /// Answers the next batch like this.
    pub(super) fn answer(&self, answer: http::response::Builder, body: &str) {
        self.answers.lock().unwrap().push_back(answer.body(Full::from(body.to_owned())).unwrap());
    }

    pub(super) fn exports(&self) -> Vec<Export> {
        self.seen.lock().unwrap().clone()
    }

    /// All spans so far, each looked at closely.
    pub(super) fn spans(&self) -> Vec<Span> {
        self.exports().iter().flat_map(|(_, _, body)| read(body)).collect()
    }

    /// The span of a request, by its answer.
    pub(super) async fn span_of(&self, answer: &Answer) -> Span {
        let id = answer.header("x-request-id").unwrap().to_owned();
        eventually("the span has come", async || {
            self.spans().into_iter().find(|span| span.attributes.get("cardinal.request_id") == Some(&json!(id)))
        })
        .await
    }

    /// The spans within another, which has come after them.
    pub(super) fn within(&self, outer: &Span) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.parent.as_ref() == Some(&outer.id)).collect()
    }
}

pub(super) fn settings(endpoint: &str) -> HostSettings {
    Host::settings()
        .plugins(PluginsFolder::default().with("echo", &Package::fixture("echo")))
        .set("LOG_FORMAT", "json")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .set("PLUGIN_NETWORKS", "echo=127.0.0.1")
}

#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) name: String,
    pub(super) kind: u64,
    pub(super) flags: u64,
    pub(super) began: u128,
    pub(super) ended: u128,
    pub(super) attributes: BTreeMap<String, Value>,
    pub(super) has_failed: bool,
}

impl Span {
    #[track_caller]
    pub(super) fn has(&self, attributes: &[(&str, Value)]) {
        for (key, value) in attributes {
            assert_eq!(self.attributes.get(*key), Some(value), "{key} in {self:#?}");
        }
    }
}

/// The spans of a batch, as strictly as the protocol is written: nothing may stand there that it does not know.
fn read(body: &str) -> Vec<Span> {
    let export: Value = serde_json::from_str(body).unwrap();
    keys(&export, &["resourceSpans"], &[]);
    let [of_resource] = &**export["resourceSpans"].as_array().unwrap() else { panic!("{export}") };
    keys(of_resource, &["resource", "scopeSpans"], &[]);
    keys(&of_resource["resource"], &["attributes"], &[]);
    let resource = attributes(&of_resource["resource"]["attributes"]);
    assert_eq!((&resource["service.name"], &resource["service.version"]), (&json!("cardinal"), &json!("1.0.0")));
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(resource["host.name"], machine.trim());
    assert!(uuid::Uuid::try_parse(resource["service.instance.id"].as_str().unwrap()).is_ok(), "{resource:?}");
    let [of_scope] = &**of_resource["scopeSpans"].as_array().unwrap() else { panic!("{export}") };
    keys(of_scope, &["scope", "spans"], &[]);
    assert_eq!(of_scope["scope"], json!({"name": "cardinal", "version": "1.0.0"}));
    let spans = of_scope["spans"].as_array().unwrap();
    assert!((1..=512).contains(&spans.len()), "{}", spans.len());
    spans.iter().map(read_span).collect()
}

fn read_span(span: &Value) -> Span {
    const NEEDED: [&str; 8] =
        ["traceId", "spanId", "flags", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes"];
    keys(span, &NEEDED, &["parentSpanId", "traceState", "status"]);
    let id = |value: &Value, digits: usize| {
        let text = value.as_str().unwrap();
        let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        assert!(text.len() == digits && is_hex && text.bytes().any(|byte| byte != b'0'), "{span}");
        text.to_owned()
    };
    // 64-bit numbers are strings.
    let time = |name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
    let read = Span {
        trace: id(&span["traceId"], 32),
        id: id(&span["spanId"], 16),
        parent: span.get("parentSpanId").map(|parent| id(parent, 16)),
        name: span["name"].as_str().unwrap().to_owned(),
        kind: span["kind"].as_u64().unwrap(),
        flags: span["flags"].as_u64().unwrap(),
        began: time("startTimeUnixNano"),
        ended: time("endTimeUnixNano"),
        attributes: attributes(&span["attributes"]),
        has_failed: span.get("status").is_some(),
    };
    assert!(read.began > 1_700_000_000_000_000_000 && read.began <= read.ended, "{span}");
    assert!(span.get("status").is_none_or(|status| *status == json!({"code": 2})), "{span}");
    assert_eq!(read.flags & 1, 1, "only sampled ones are sent: {span}");
    read
}

/// The object has the first keys, and of others only the second.
#[track_caller]
fn keys(object: &Value, needed: &[&str], possible: &[&str]) {
    let found: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(needed.iter().all(|key| found.contains(key)), "{needed:?} in {object}");
    assert!(found.iter().all(|key| needed.contains(key) || possible.contains(key)), "{object}");
}

/// Attributes by name, each with one value of the type that it says.
fn attributes(list: &Value) -> BTreeMap<String, Value> {
    let mut read = BTreeMap::new();
    for attribute in list.as_array().unwrap() {
        keys(attribute, &["key", "value"], &[]);
        let value = match attribute["value"].as_object().unwrap().iter().collect::<Vec<_>>()[..] {
            [(kind, value @ Value::String(_))] if kind == "stringValue" => value.clone(),
            [(kind, Value::String(digits))] if kind == "intValue" => json!(digits.parse::<i64>().unwrap()),
            [(kind, value)] if kind == "doubleValue" && value.is_number() => value.clone(),
            _ => panic!("{attribute}"),
        };
        let before = read.insert(attribute["key"].as_str().unwrap().to_owned(), value);
        assert!(before.is_none(), "twice: {attribute}");
    }
    read
}
