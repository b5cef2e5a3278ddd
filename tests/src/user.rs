//! Who calls: a session or an API key, and the few steps that most tests begin with.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::answer::Answer;
use crate::client::Client;

/// Of every user that [`User::make_user`] makes.
pub const PASSWORD: &str = "a password of the tests";

/// A caller of the admin API.
pub struct User {
    pub id: Uuid,
    pub username: String,
    pub token: String,
    client: Client,
}

impl std::ops::Deref for User {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl User {
    /// Logs in with a password.
    pub async fn log_in(client: &Client, username: &str, password: &str) -> User {
        let credentials = json!({"username": username, "password": password});
        let answer = client.post("/v1/admin/auth/login", &credentials).await.expect(200);
        User::with(client, answer["access_token"].as_str().unwrap()).await
    }

    async fn with(client: &Client, token: &str) -> User {
        let client = client.bearer(token);
        let me = client.get("/v1/admin/auth/me").await.expect(200);
        let username = me["user"]["username"].as_str().unwrap().to_owned();
        User { id: me["user"]["id"].as_str().unwrap().parse().unwrap(), username, token: token.to_owned(), client }
    }

    /// Makes a user of `role` and logs it in; the password is [`PASSWORD`].
    pub async fn make_user(&self, role: &str) -> User {
        let username = unique(role);
        let wanted = json!({"username": username, "password": PASSWORD, "role": role});
        self.post("/v1/admin/users", &wanted).await.expect(201);
        User::log_in(&self.client, &username, PASSWORD).await
    }

    /// A key of this user with these scopes.
    pub async fn key(&self, scopes: &[&str]) -> User {
        let made = self.make_key(json!({"name": unique("key"), "scopes": scopes})).await;
        User::with(&self.client, made["key"].as_str().unwrap()).await
    }

    /// This user by a key without a rate limit, for whoever asks all the time: a session has one, and
    /// [`User`]s of a host share it.
    pub async fn unlimited(&self) -> Client {
        let wanted = json!({"name": unique("unlimited"), "scopes": ["*"], "rate_limit": null});
        let made = self.make_key(wanted).await;
        self.bearer(made["key"].as_str().unwrap())
    }

    /// `{item, key}` of a new key.
    pub async fn make_key(&self, wanted: Value) -> Value {
        self.post("/v1/admin/api-keys", &wanted).await.expect(201)
    }

    /// A new card with a SKU of its own.
    pub async fn card(&self, title: &str) -> Value {
        let wanted = json!({"title": title, "sku": unique("SKU")});
        self.post("/v1/admin/master-cards", &wanted).await.expect(201)["item"].clone()
    }

    pub async fn read_card(&self, id: &str) -> Value {
        self.get(&format!("/v1/admin/master-cards/{id}")).await.expect(200)["item"].clone()
    }

    /// A JSON-RPC request to the MCP endpoint.
    pub async fn mcp(&self, message: &Value) -> Answer {
        self.call(http::Method::POST, "/api")
            .json(message)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .send()
            .await
    }
}

/// A name that no other test uses.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", Uuid::now_v7().simple())
}
