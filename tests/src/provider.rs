//! A real identity provider (`clients/provider.mjs`) beside the host.

use std::path::Path;
use std::sync::{Arc, Weak};

use http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::sync::Mutex;

use crate::client::Client;
use crate::host::{Host, HostSettings};
use crate::plugins::{Package, PluginsFolder};
use crate::port_reservation::PortReservation;
use crate::process::{Program, eventually, repository};

/// The provider's process, with keys that outlive it.
pub struct Provider {
    program: Option<Program>,
    /// `http://127.0.0.1:PORT`
    pub issuer: String,
    port: PortReservation,
    folder: TempDir,
}

impl Provider {
    pub async fn start() -> Provider {
        let folder = tempfile::Builder::new().prefix("cardinal-provider-").tempdir().unwrap();
        let port = PortReservation::start();
        let issuer = format!("http://{}", port.address());
        let mut provider = Provider { program: None, issuer, port, folder };
        provider.come_back().await;
        provider
    }

    /// Starts it again after [`Provider::kill`]: same address, same keys.
    pub async fn come_back(&mut self) {
        let script = repository().join("tests/clients/provider.mjs");
        let (log, keys) = (self.folder.path().join("log"), self.folder.path().join("keys.json"));
        let port = self.port.address().port().to_string();
        let arguments = [script.to_str().unwrap(), &port, keys.to_str().unwrap()];
        let _ = std::fs::remove_file(&log);
        let mut program = Program::start(Path::new("node"), &arguments, [("NO_COLOR", "1")], &log);
        self.issuer = eventually("the provider listens", async || {
            assert!(program.exited().is_none(), "the provider ended:\n{}", program.printed());
            let line = program.printed().lines().find(|line| line.starts_with('{'))?.to_owned();
            Some(serde_json::from_str::<Value>(&line).unwrap()["issuer"].as_str().unwrap().to_owned())
        })
        .await;
        self.program = Some(program);
    }

    pub async fn kill(&mut self) {
        let mut program = self.program.take().expect("the provider runs");
        program.signal(Signal::KILL);
        program.ended().await;
    }

    fn client(&self) -> Client {
        Client::new(self.issuer.strip_prefix("http://").unwrap().parse().unwrap())
    }

    async fn door(&self, door: &str, asked: &Value) -> Value {
        self.client().post(&format!("/test/{door}"), asked).await.expect(200)
    }

    /// The token that the machine client gets for this audience by its secret.
    pub async fn client_credentials(&self, audience: &str, scope: &str) -> String {
        let form =
            [("grant_type", "client_credentials"), ("client_id", "machine"), ("client_secret", "machine-secret")];
        let form = form.into_iter().chain([("resource", audience), ("scope", scope)]);
        let form: Vec<_> = form.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let call = self.client().call(Method::POST, "/token");
        let answer = call.body("application/x-www-form-urlencoded", form.join("&")).send().await.expect(200);
        answer["access_token"].as_str().unwrap().to_owned()
    }

    /// Signs what a test wants signed; `asked` is `{header?, claims, with?}`.
    pub async fn sign(&self, asked: &Value) -> String {
        self.door("sign", asked).await["token"].as_str().unwrap().to_owned()
    }

    /// Claims that are in order for this audience.
    pub fn claims(&self, audience: &str, subject: &str, scope: &str) -> Value {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        json!({"iss": self.issuer, "aud": audience, "sub": subject, "scope": scope, "iat": now, "exp": now + 600})
    }

    /// A new key signs from now on. The old one stays published unless it is to be dropped.
    pub async fn rotate(&self, drop: bool) {
        self.door("rotate", &json!({"drop": drop})).await;
    }

    /// How often the keys were fetched.
    pub async fn key_fetches(&self) -> u64 {
        self.door("fetches", &json!({})).await["jwks"].as_u64().unwrap()
    }
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// A host and the provider whose tokens it accepts.
pub struct Federated {
    pub host: Host,
    pub provider: Provider,
}

impl Federated {
    pub async fn start(change: impl FnOnce(HostSettings) -> HostSettings) -> Federated {
        let provider = Provider::start().await;
        let settings = Host::settings().set("AUTH_URL", &provider.issuer);
        Federated { host: change(settings).start().await, provider }
    }

    /// For tests that leave keys and provider as they are.
    pub async fn shared() -> Arc<Federated> {
        static SHARED: Mutex<Weak<Federated>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(federated) = shared.upgrade() {
            return federated;
        }
        let plugins = PluginsFolder::bundled().with("unruly", &Package::fixture("unruly"));
        let federated = Arc::new(Federated::start(|settings| settings.plugins(plugins)).await);
        *shared = Arc::downgrade(&federated);
        federated
    }

    /// What tokens must be meant for.
    pub fn audience(&self) -> String {
        format!("{}/api", self.host.url())
    }

    /// A token of this subject.
    pub async fn token(&self, subject: &str, scope: &str) -> String {
        let claims = self.provider.claims(&self.audience(), subject, scope);
        self.provider.sign(&json!({"claims": claims})).await
    }

    /// The host, called with a token of this subject.
    pub async fn holder(&self, subject: &str, scope: &str) -> Client {
        self.host.client().bearer(&self.token(subject, scope).await)
    }
}
