//! The bare servers: hyper and matchit, and with a database deadpool-postgres and one prepared statement a request. No
//! authentication, no limits, no log: what the same libraries do on this machine when nothing is asked of them.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use http::{Method, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio_postgres::NoTls;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

/// The same body as the measured plugin's.
const REPLY: &str = r#"{"message":"hello","number":42}"#;
/// Routes that nobody asks for: a real table is not empty.
const OTHER_ROUTES: usize = 50;
/// As many as the host's own pool has.
const CONNECTIONS: usize = 16;

/// The statements of the host, word for word but for those of its columns that a reader doesn't see.
const CARD: &str = "SELECT c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at \
    FROM public.master_cards c WHERE c.id = $1 AND c.deleted_at IS NULL";
const PAGE: &str = "SELECT c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at \
    FROM public.master_cards c WHERE c.deleted_at IS NULL ORDER BY c.id DESC LIMIT $1";
/// Filtered lists as one would write them by hand for a value that is known to be frequent, or rare.
const DEEP: &str = "SELECT c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at \
    FROM public.master_cards c WHERE c.deleted_at IS NULL AND c.id < $1 ORDER BY c.id DESC LIMIT 51";
const STATUS: &str = "SELECT c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at \
    FROM public.master_cards c WHERE c.deleted_at IS NULL AND c.status = 'active' ORDER BY c.id DESC LIMIT 51";
const KIND: &str = "SELECT c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at \
    FROM public.card_source_index s JOIN public.master_cards c ON c.id = s.card_id \
    WHERE s.kind = 'price' AND c.deleted_at IS NULL ORDER BY s.card_id DESC LIMIT 51";
const MISSING: &str = "SELECT c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at \
    FROM public.master_cards c WHERE c.deleted_at IS NULL AND NOT EXISTS \
    (SELECT FROM public.card_source_index s WHERE s.card_id = c.id AND s.kind = 'price') ORDER BY c.id DESC LIMIT 51";
const SEARCH: &str = r#"SELECT c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at
    FROM public.card_words l JOIN public.master_cards c ON c.id = l.card_id WHERE c.deleted_at IS NULL
    AND public.card_word_keys(l.words) @> ARRAY['ebr', 'bra']
    AND public.card_word_keys(l.words) && ARRAY['zeb', E'\nzeb', E'\n\nzeb']
    AND l.words LIKE '%zebra%' ORDER BY c.id DESC LIMIT 51"#;
const NUMBER: &str = "SELECT 42::int8";
const WRITE: &str = "UPDATE public.master_cards SET attributes = jsonb_set(attributes, '{sources}', \
    coalesce(attributes->'sources', '{}') || jsonb_build_object('quick:bench', $2::jsonb)), \
    version = version + 1, updated_at = now() WHERE id = $1 RETURNING version";

#[derive(Clone, Copy)]
enum Action {
    Hello,
    Number,
    Card,
    Page,
    List(&'static str),
    Write,
}

struct Bare {
    routes: matchit::Router<Action>,
    pool: Option<Pool>,
}

/// Prints its address and serves until it is killed.
pub(crate) async fn serve(database: Option<String>) {
    let bare = Arc::new(Bare { routes: routes(), pool: database.map(|text| pool(&text)) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let bare = Arc::clone(&bare);
        let service = service_fn(move |request| {
            let bare = Arc::clone(&bare);
            async move { Ok::<_, Infallible>(bare.answer(request).await) }
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn routes() -> matchit::Router<Action> {
    let mut routes = matchit::Router::new();
    routes.insert("/hello", Action::Hello).unwrap();
    routes.insert("/number", Action::Number).unwrap();
    routes.insert("/cards/{id}", Action::Card).unwrap();
    routes.insert("/cards", Action::Page).unwrap();
    routes.insert("/deep/{id}", Action::List(DEEP)).unwrap();
    for (path, sql) in [("/status", STATUS), ("/kind", KIND), ("/missing", MISSING), ("/search", SEARCH)] {
        routes.insert(path, Action::List(sql)).unwrap();
    }
    routes.insert("/write/{id}", Action::Write).unwrap();
    for other in 0..OTHER_ROUTES {
        routes.insert(format!("/other/{other}/{{id}}"), Action::Hello).unwrap();
    }
    routes
}

fn pool(database: &str) -> Pool {
    let config = database.parse().expect("BENCH_DATABASE is a connection string");
    let fast = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config, NoTls, fast)).max_size(CONNECTIONS).build().unwrap()
}

impl Bare {
    async fn answer(&self, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
        let Ok(found) = self.routes.at(request.uri().path()) else {
            return Response::builder().status(404).body(Full::default()).unwrap();
        };
        if matches!(found.value, Action::Write) != (*request.method() == Method::POST) {
            return Response::builder().status(405).body(Full::default()).unwrap();
        }
        let id = found.params.get("id").and_then(|id| id.parse().ok()).unwrap_or_default();
        let body = match found.value {
            Action::Hello => Bytes::from_static(REPLY.as_bytes()),
            Action::Number => self.number().await,
            Action::Card => self.card(id).await,
            Action::Page => self.page(PAGE, &[&51_i64]).await,
            Action::List(DEEP) => self.page(DEEP, &[&id]).await,
            Action::List(sql) => self.page(sql, &[]).await,
            Action::Write => self.write(id).await,
        };
        Response::builder().header("content-type", "application/json").body(Full::new(body)).unwrap()
    }

    async fn connection(&self) -> deadpool_postgres::Object {
        self.pool.as_ref().expect("this server has a database").get().await.unwrap()
    }

    async fn number(&self) -> Bytes {
        let client = self.connection().await;
        let row = client.query_one(&client.prepare_cached(NUMBER).await.unwrap(), &[]).await.unwrap();
        format!(r#"{{"number":{}}}"#, row.get::<_, i64>(0)).into()
    }

    async fn card(&self, id: Uuid) -> Bytes {
        let client = self.connection().await;
        let row = client.query_one(&client.prepare_cached(CARD).await.unwrap(), &[&id]).await.unwrap();
        let mut body = br#"{"item":"#.to_vec();
        write_card(&mut body, &row);
        body.push(b'}');
        body.into()
    }

    async fn page(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Bytes {
        let client = self.connection().await;
        let rows = client.query(&client.prepare_cached(sql).await.unwrap(), params).await.unwrap();
        let mut body = br#"{"items":["#.to_vec();
        for (count, row) in rows.iter().take(50).enumerate() {
            if count > 0 {
                body.push(b',');
            }
            write_card(&mut body, row);
        }
        body.extend_from_slice(b"]}");
        body.into()
    }

    async fn write(&self, id: Uuid) -> Bytes {
        let client = self.connection().await;
        let source = serde_json::json!({"kind": "quick", "data": {"images": ["https://images.example/1.jpg"], "price": "12.50"}});
        let statement = client.prepare_cached(WRITE).await.unwrap();
        let row = client.query_one(&statement, &[&id, &Json(source)]).await.unwrap();
        format!(r#"{{"version":{}}}"#, row.get::<_, i64>(0)).into()
    }
}

/// As the host shows a card. The attributes go from the row to the reply as they are.
fn write_card(out: &mut Vec<u8>, row: &tokio_postgres::Row) {
    #[derive(serde::Serialize)]
    struct Card<'a> {
        id: Uuid,
        title: &'a str,
        sku: &'a str,
        status: &'a str,
        attributes: &'a serde_json::value::RawValue,
        version: i64,
        #[serde(with = "time::serde::rfc3339")]
        created_at: OffsetDateTime,
        #[serde(with = "time::serde::rfc3339")]
        updated_at: OffsetDateTime,
    }
    let Json(attributes) = row.get::<_, Json<&serde_json::value::RawValue>>(4);
    let card = Card {
        id: row.get(0),
        title: row.get(1),
        sku: row.get(2),
        status: row.get(3),
        attributes,
        version: row.get(5),
        created_at: row.get(6),
        updated_at: row.get(7),
    };
    serde_json::to_writer(out, &card).unwrap();
}
