//! A web site on loopback, for plugins that fetch pages.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves fixed pages while it lives; ends with the test's runtime.
pub struct Pages {
    port: u16,
    served: Arc<AtomicUsize>,
}

impl Pages {
    /// Serves each page as HTML at its path, 404 elsewhere. A page `-> URL` is a redirect.
    pub async fn serve<'a>(pages: impl IntoIterator<Item = (&'a str, String)>) -> Pages {
        let pages: BTreeMap<String, String> = pages.into_iter().map(|(path, page)| (path.to_owned(), page)).collect();
        let (pages, served) = (Arc::new(pages), Arc::new(AtomicUsize::new(0)));
        // Every loopback address is ours, so that one server can be many shops.
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let counter = Arc::clone(&served);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (pages, counter) = (Arc::clone(&pages), Arc::clone(&counter));
                let site = service_fn(move |request: Request<Incoming>| {
                    counter.fetch_add(1, Ordering::SeqCst);
                    let answer = answer(pages.get(request.uri().path()));
                    async { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), site));
            }
        });
        Pages { port, served }
    }

    pub fn url(&self, path: &str) -> String {
        self.url_at(1, path)
    }

    /// The same page under the name of another shop: 127.0.0.`shop`.
    pub fn url_at(&self, shop: u8, path: &str) -> String {
        format!("http://127.0.0.{shop}:{}{path}", self.port)
    }

    /// Requests answered so far.
    pub fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

fn answer(page: Option<&String>) -> Response<Full<Bytes>> {
    let built = match page {
        None => Response::builder().status(StatusCode::NOT_FOUND).body(Full::default()),
        Some(page) => match page.strip_prefix("-> ") {
            Some(target) => {
                Response::builder().status(StatusCode::FOUND).header("location", target).body(Full::default())
            }
            None => Response::builder()
                .header("content-type", "text/html; charset=utf-8")
                .body(Full::from(Bytes::from(page.clone()))),
        },
    };
    built.unwrap()
}
