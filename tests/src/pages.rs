//! A web site on loopback, for plugins that fetch pages.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// What a page answers; its body may break off or never end.
pub type PageAnswer = Response<BoxBody<Bytes, std::io::Error>>;

type Answering = dyn Fn(Parts) -> BoxFuture<'static, PageAnswer> + Send + Sync;

/// Serves pages while it lives; ends with the test's runtime.
pub struct Pages {
    port: u16,
    seen: Arc<Seen>,
}

/// What visitors asked for. Their look at robots.txt is not counted.
#[derive(Default)]
struct Seen {
    paths: Mutex<Vec<String>>,
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Pages {
    /// Serves each page as HTML at its path, 404 elsewhere. A page `-> URL` is a redirect.
    pub async fn serve<'a>(pages: impl IntoIterator<Item = (&'a str, String)>) -> Pages {
        let pages: BTreeMap<String, String> = pages.into_iter().map(|(path, page)| (path.to_owned(), page)).collect();
        Pages::answering(move |request| std::future::ready(answer(pages.get(request.uri.path())))).await
    }

    /// Answers each request as `answering` says, when it says so.
    pub async fn answering<F>(answering: impl Fn(Parts) -> F + Send + Sync + 'static) -> Pages
    where
        F: Future<Output = PageAnswer> + Send + 'static,
    {
        let answering: Arc<Answering> = Arc::new(move |request| answering(request).boxed());
        let seen = Arc::new(Seen::default());
        // Every loopback address is ours, so that one server can be many shops.
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let pages = Pages { port, seen: Arc::clone(&seen) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answering, seen) = (Arc::clone(&answering), Arc::clone(&seen));
                let site = service_fn(move |request: Request<Incoming>| {
                    let (request, _) = request.into_parts();
                    let visit = Visit::begin(Arc::clone(&seen), request.uri.path());
                    let answer = answering(request);
                    async move {
                        let answer = answer.await;
                        drop(visit);
                        Ok::<_, Infallible>(answer)
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), site));
            }
        });
        pages
    }

    pub fn url(&self, path: &str) -> String {
        self.url_at(1, path)
    }

    /// The same page under the name of another shop: 127.0.0.`shop`.
    pub fn url_at(&self, shop: u8, path: &str) -> String {
        format!("http://127.0.0.{shop}:{}{path}", self.port)
    }

    /// Requests so far.
    pub fn served(&self) -> usize {
        self.paths().len()
    }

    /// What was asked for so far, in order.
    pub fn paths(&self) -> Vec<String> {
        self.seen.paths.lock().unwrap().clone()
    }

    /// The most that were being answered at the same time.
    pub fn peak(&self) -> usize {
        self.seen.peak.load(Ordering::SeqCst)
    }
}

/// A page being asked for, until it is answered or its visitor has left.
struct Visit(Arc<Seen>);

impl Visit {
    fn begin(seen: Arc<Seen>, path: &str) -> Option<Visit> {
        if path == "/robots.txt" {
            return None;
        }
        seen.paths.lock().unwrap().push(path.to_owned());
        seen.peak.fetch_max(seen.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Some(Visit(seen))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

fn answer(page: Option<&String>) -> PageAnswer {
    let built = match page {
        None => Response::builder().status(StatusCode::NOT_FOUND).body(whole("")),
        Some(page) => match page.strip_prefix("-> ") {
            Some(target) => Response::builder().status(StatusCode::FOUND).header("location", target).body(whole("")),
            None => Response::builder().header("content-type", "text/html; charset=utf-8").body(whole(page.clone())),
        },
    };
    built.unwrap()
}

fn whole(body: impl Into<Bytes>) -> BoxBody<Bytes, std::io::Error> {
    Full::new(body.into()).map_err(|never| match never {}).boxed()
}
