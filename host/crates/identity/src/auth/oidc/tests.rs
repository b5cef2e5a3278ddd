//! Against a provider of our own making on loopback, with a clock that is turned by hand.

use std::{
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle};

use super::{
    sample::{self, AUDIENCE, NOW},
    *,
};
use crate::auth::api_key;

/// Answers like a provider, and counts.
struct Fake {
    base: String,
    ids: Mutex<Vec<&'static str>>,
    /// What every answer is instead of what was asked for.
    instead: Mutex<Option<(StatusCode, String)>>,
    asked_for_keys: AtomicUsize,
    /// Answers that may still be given; a fetch beyond them hangs.
    allowed: Semaphore,
}

impl Fake {
    async fn start() -> (Arc<Self>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Arc::new(Self {
            base: format!("http://{}", listener.local_addr().unwrap()),
            ids: Mutex::new(vec!["a"]),
            instead: Mutex::new(None),
            asked_for_keys: AtomicUsize::new(0),
            allowed: Semaphore::new(1_000_000),
        });
        let task = tokio::spawn(Arc::clone(&fake).serve(listener));
        (fake, task)
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let fake = Arc::clone(&self);
            let service = service_fn(move |request: Request<Incoming>| {
                let fake = Arc::clone(&fake);
                async move { Ok::<_, Infallible>(fake.answer(request.uri().path()).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    }

    async fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        if path == "/jwks" {
            self.asked_for_keys.fetch_add(1, Ordering::SeqCst);
        }
        self.allowed.acquire().await.unwrap().forget();
        let base = &self.base;
        let (status, body) = match path {
            _ if let Some(instead) = self.instead.lock().unwrap().clone() => instead,
            "/.well-known/openid-configuration" => {
                (StatusCode::OK, json!({"issuer": base, "jwks_uri": format!("{base}/jwks")}).to_string())
            }
            "/jwks" => {
                let keys: Vec<Value> = self.ids.lock().unwrap().iter().map(|id| sample::jwk(id)).collect();
                (StatusCode::OK, json!({"keys": keys}).to_string())
            }
            _ => (StatusCode::NOT_FOUND, String::new()),
        };
        let location = format!("{base}/jwks");
        Response::builder().status(status).header(header::LOCATION, location).body(Full::from(body)).unwrap()
    }

    fn fetches(&self) -> usize {
        self.asked_for_keys.load(Ordering::SeqCst)
    }

    fn token(&self, id: &str, subject: &str) -> String {
        sample::token(id, &json!({"iss": self.base, "sub": subject, "scope": "cards:read cards:write mcp:use"}))
    }
}

fn oidc(base: &str) -> Arc<Oidc> {
    let clock = Clock::manual(NOW);
    let provider = Provider { base: Some(base.to_owned()), issuer: None, keys_at: None };
    Arc::new(Oidc {
        source: Source::new(provider, clock.clone()).unwrap(),
        verified: TokenCache::default(),
        audience: AUDIENCE.to_owned(),
        max_scopes: ScopeSet::lenient(config::DEFAULT_OIDC_MAX_SCOPES),
        clock,
    })
}

/// With its keys read.
async fn ready(fake: &Fake) -> Arc<Oidc> {
    let oidc = oidc(&fake.base);
    let keeping = Arc::clone(&oidc);
    tokio::spawn(async move { keeping.keep_fresh().await });
    assert!(verify(&oidc, &fake.token("a", "first")).await.is_ok());
    oidc
}

async fn verify(oidc: &Oidc, token: &str) -> Result<Arc<Identity>, OidcError> {
    oidc.verify(token, &api_key::hash(token)).await
}

fn is_unknown<T>(outcome: &Result<T, OidcError>) -> bool {
    matches!(outcome, Err(OidcError::Refused(JwtError::Invalid(_))))
}

#[tokio::test]
async fn a_token_is_verified_and_grants_no_more_than_is_allowed() {
    let (fake, _serving) = Fake::start().await;
    let oidc = ready(&fake).await;
    let identity = verify(&oidc, &fake.token("a", "ann")).await.unwrap();
    assert_eq!((identity.issuer.as_str(), identity.subject.as_str()), (fake.base.as_str(), "ann"));
    assert_eq!(identity.scopes.to_strings(), ["cards:read", "mcp:use"]);
    assert_eq!(oidc.issuer().unwrap(), fake.base);
    let later = NOW.unix_timestamp() + 630;
    oidc.clock.advance(Duration::from_secs(u64::try_from(later - NOW.unix_timestamp()).unwrap()));
    assert_eq!(verify(&oidc, &fake.token("a", "ann")).await.unwrap_err(), OidcError::Refused(JwtError::Expired));
}

#[tokio::test]
async fn a_flood_of_unknown_keys_costs_the_provider_one_fetch_in_half_a_minute() {
    let (fake, _serving) = Fake::start().await;
    let oidc = ready(&fake).await;
    for round in 1..=3 {
        let tokens: Vec<_> = (0..200).map(|i| fake.token("nobody's", &format!("u{round}-{i}"))).collect();
        let outcomes = join_all(tokens.iter().map(|token| verify(&oidc, token))).await;
        assert!(outcomes.iter().all(is_unknown));
        assert_eq!(fake.fetches(), 1 + round);
        assert!(is_unknown(&verify(&oidc, &fake.token("nobody's", "late")).await));
        assert_eq!(fake.fetches(), 1 + round);
        oidc.clock.advance(Duration::from_secs(30));
    }
    // A clock that was set back doesn't silence the host.
    assert!(is_unknown(&verify(&oidc, &fake.token("nobody's", "x")).await));
    let Clock::Manual(hands) = &oidc.clock else { unreachable!() };
    hands.fetch_sub(100_000_000, Ordering::SeqCst);
    assert!(is_unknown(&verify(&oidc, &fake.token("nobody's", "y")).await));
    assert_eq!(fake.fetches(), 6);
}

#[tokio::test]
async fn a_rollover_fails_nobody() {
    let (fake, _serving) = Fake::start().await;
    let oidc = ready(&fake).await;
    let seen = fake.token("a", "seen");
    assert!(verify(&oidc, &seen).await.is_ok());
    *fake.ids.lock().unwrap() = vec!["b", "a"];
    let tokens: Vec<_> = (0..300).map(|i| fake.token(["a", "b"][i % 2], &format!("u{i}"))).collect();
    let outcomes = join_all(tokens.iter().map(|token| verify(&oidc, token))).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(fake.fetches(), 2);
    // Once the old key is gone, what was verified stays so and what was not is refused.
    *fake.ids.lock().unwrap() = vec!["b"];
    oidc.clock.advance(Duration::from_secs(30));
    assert!(is_unknown(&verify(&oidc, &fake.token("c", "x")).await));
    assert!(verify(&oidc, &seen).await.is_ok());
    assert!(is_unknown(&verify(&oidc, &fake.token("a", "new")).await));
}

#[tokio::test]
async fn an_outage_logs_nobody_out() {
    let (fake, _serving) = Fake::start().await;
    let oidc = ready(&fake).await;
    *fake.instead.lock().unwrap() = Some((StatusCode::SERVICE_UNAVAILABLE, String::new()));
    oidc.clock.advance(Duration::from_secs(60));
    assert!(matches!(verify(&oidc, &fake.token("b", "new key")).await, Err(OidcError::Unavailable(1..=30))));
    assert!(verify(&oidc, &fake.token("a", "first")).await.is_ok());
    assert!(verify(&oidc, &fake.token("a", "never seen")).await.is_ok());
    // Still nobody can say, and nobody is asked.
    let fetches = fake.fetches();
    assert!(matches!(verify(&oidc, &fake.token("b", "new key")).await, Err(OidcError::Unavailable(_))));
    assert_eq!(fake.fetches(), fetches);
    *fake.instead.lock().unwrap() = None;
    *fake.ids.lock().unwrap() = vec!["b"];
    oidc.clock.advance(Duration::from_secs(30));
    assert!(verify(&oidc, &fake.token("b", "new key")).await.is_ok());
}

#[tokio::test]
async fn a_provider_that_was_never_reached_is_unavailable_and_garbage_is_garbage() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let oidc = oidc(&format!("http://{free}"));
    let keeping = Arc::clone(&oidc);
    tokio::spawn(async move { keeping.keep_fresh().await });
    assert!(matches!(verify(&oidc, &sample::token("a", &json!({}))).await, Err(OidcError::Unavailable(1..=30))));
    for garbage in ["..", "a..b", "a.b.c", "e30.e30.e30"] {
        assert!(is_unknown(&verify(&oidc, garbage).await), "{garbage}");
    }
    assert_eq!(oidc.issuer().unwrap(), format!("http://{free}"));
}

#[tokio::test]
async fn who_hangs_up_does_not_end_the_fetch_of_others() {
    let (fake, _serving) = Fake::start().await;
    let oidc = ready(&fake).await;
    *fake.ids.lock().unwrap() = vec!["b"];
    fake.allowed.forget_permits(1_000_000);
    let (token, asking) = (fake.token("b", "impatient"), Arc::clone(&oidc));
    let impatient = tokio::spawn(async move { verify(&asking, &token).await.is_ok() });
    while fake.fetches() < 2 {
        tokio::task::yield_now().await;
    }
    impatient.abort();
    let _ = impatient.await;
    let patient = fake.token("b", "patient");
    let (outcome, ()) = tokio::join!(verify(&oidc, &patient), async { fake.allowed.add_permits(10) });
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(fake.fetches(), 2);
}

#[tokio::test]
async fn a_provider_that_hangs_holds_nobody_up_for_long_and_logs_nobody_out() {
    let (fake, _serving) = Fake::start().await;
    let mut oidc = oidc(&fake.base);
    Arc::get_mut(&mut oidc).unwrap().source.refresh_timeout = Duration::from_millis(1);
    let keeping = Arc::clone(&oidc);
    tokio::spawn(async move { keeping.keep_fresh().await });
    while verify(&oidc, &fake.token("a", "first")).await.is_err() {
        tokio::task::yield_now().await;
    }
    fake.allowed.forget_permits(1_000_000);
    for subject in ["one", "two"] {
        assert!(matches!(verify(&oidc, &fake.token("b", subject)).await, Err(OidcError::Unavailable(_))));
        assert!(verify(&oidc, &fake.token("a", subject)).await.is_ok());
    }
    while fake.fetches() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fake.fetches(), 2);
}

#[tokio::test]
async fn what_is_no_key_set_leaves_the_keys_alone() {
    let (fake, _serving) = Fake::start().await;
    let oidc = ready(&fake).await;
    for (status, body) in [
        (StatusCode::OK, r#"{"keys": []}"#.to_owned()),
        (StatusCode::OK, "<html>maintenance</html>".to_owned()),
        (StatusCode::OK, " ".repeat(300 * 1024)),
        (StatusCode::FOUND, String::new()),
        (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
    ] {
        *fake.instead.lock().unwrap() = Some((status, body));
        oidc.clock.advance(Duration::from_secs(30));
        assert!(matches!(verify(&oidc, &fake.token("b", "x")).await, Err(OidcError::Unavailable(_))), "{status}");
        assert!(verify(&oidc, &fake.token("a", "y")).await.is_ok());
    }
}
