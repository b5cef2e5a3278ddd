//! What an error says: its status, its code, where it came from.

use cardinal_plugin_abi::error as codes;
use serde_json::Value;

use super::{Error, Kind};
use crate::HttpFailure;

impl Error {
    /// Returns the status that the client gets, when this error was made for the client.
    ///
    /// It is `None` for every other error, also for those of the host that have a status for the client: match on
    /// [`code`](Self::code) or on the `is_...` methods instead.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// assert_eq!(Error::conflict("This SKU is taken.").status(), Some(409));
    /// assert_eq!(Error::internal("the disk is full").status(), None); // a client gets 500
    /// ```
    pub fn status(&self) -> Option<u16> {
        match self.kind {
            Kind::Reply(status) => Some(status),
            Kind::Code(_) => None,
        }
    }

    /// Returns the stable code, when there is one: of an error made for the client, or the name of the rule that the
    /// host refused with (`kind-not-declared`, `source-key-invalid`, ...).
    ///
    /// ```
    /// use cardinal_plugin::{json, testing::{SERVICE_USER, test_card}};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "ratings", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # cardinal_plugin::block_on(async {
    /// let lamp = host.add_card(test_card("Lamp", json!({})));
    /// let refused = ctx.enrich_card(lamp, SERVICE_USER, "ratings:shop", "rating", &json!({})).await.unwrap_err();
    /// assert_eq!(refused.code(), Some("kind-not-declared")); // the manifest has no `provides_kinds`
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn code(&self) -> Option<&str> {
        self.details.get("code").and_then(Value::as_str)
    }

    /// Returns the text: the detail for the client, or what the log gets. It is not meant for programs and may change.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// let error: Error = "9,90".parse::<f64>().unwrap_err().into();
    /// assert_eq!(error.message(), "invalid float literal");
    /// ```
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns PostgreSQL's five-character code, when the error came from the database.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Error, Result};
    ///
    /// async fn add(conn: &Connection, sku: &str) -> Result<()> {
    ///     let taken = |error: Error| match error.sqlstate() {
    ///         Some("23505") => Error::conflict("This SKU is taken.").field("/sku", "is taken"), // unique_violation
    ///         _ => error,
    ///     };
    ///     conn.execute("INSERT INTO items (sku) VALUES ($1)", &[&sku]).await.map(drop).map_err(taken)
    /// }
    /// ```
    pub fn sqlstate(&self) -> Option<&str> {
        self.details.get("sqlstate").and_then(Value::as_str)
    }

    /// Returns the name of the constraint that PostgreSQL says was violated: with the SQLSTATEs 23... as a rule.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// /// Says which of the table's rules a rating has broken.
    /// fn in_words(error: Error) -> Error {
    ///     match error.constraint() {
    ///         Some("ratings_stars_check") => Error::unprocessable("A rating has 1 to 5 stars."),
    ///         Some("ratings_card_id_fkey") => Error::not_found("There is no such card."),
    ///         _ => error,
    ///     }
    /// }
    /// ```
    pub fn constraint(&self) -> Option<&str> {
        self.details.get("constraint").and_then(Value::as_str)
    }

    /// Returns why another server gave no answer, when the error came from
    /// [`PluginContext::http`](crate::PluginContext::http).
    ///
    /// ```
    /// use cardinal_plugin::{Error, HttpFailure, PluginContext, Result};
    ///
    /// async fn page(ctx: &PluginContext, url: &str) -> Result<String> {
    ///     let slow = |error: Error| match error.http_failure() {
    ///         Some(HttpFailure::TimedOut) => Error::unavailable("The shop is slow: try again later."),
    ///         _ => error,
    ///     };
    ///     ctx.http().get(url).send().await.map_err(slow)?.text().await
    /// }
    /// ```
    pub fn http_failure(&self) -> Option<HttpFailure> {
        let kind = || self.details.get("kind").and_then(Value::as_str).unwrap_or_default();
        self.is(codes::HTTP).then(|| HttpFailure::from_kind(kind()))
    }

    /// Returns whether the card (or other object) that was asked for does not exist. True for a 404 of the plugin's
    /// own, too.
    ///
    /// ```
    /// use cardinal_plugin::{Uuid, testing::SERVICE_USER};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "ratings", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # cardinal_plugin::block_on(async {
    /// let error = ctx.read_card(Uuid::nil(), SERVICE_USER).await.unwrap_err();
    /// assert!(error.is_not_found());
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404) || self.is(codes::NOT_FOUND)
    }

    /// Returns whether the work was cancelled: the call is over, the plugin is being stopped, or the connection or task
    /// that was used is gone.
    ///
    /// Don't try again with the same context. A handler passes the error on; a task ends.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "ratings", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// drop(host); // the plugin is stopped
    /// let error = cardinal_plugin::block_on(ctx.service_user()).unwrap_err();
    /// assert!(error.is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.is(codes::CANCELLED) || self.is(codes::BAD_HANDLE)
    }

    /// Returns whether trying the same again later may help: a pool is exhausted, a queue is full, the database is
    /// away, or [`retry_after`](Self::retry_after) was called.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{Error, PluginContext, Result, User, tokio};
    ///
    /// /// Waits for a database that is away.
    /// async fn service_user(ctx: &PluginContext) -> Result<User> {
    ///     loop {
    ///         match ctx.service_user().await {
    ///             Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_secs(1)).await,
    ///             outcome => return outcome,
    ///         }
    ///     }
    /// }
    /// assert!(Error::unavailable("Later.").is_retryable() && !Error::conflict("Never.").is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        self.flags & codes::flags::RETRY != 0
    }

    /// Returns whether the error stands for a panic: of a handler, as tests see it, or of a host function. The message
    /// is the panic's.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, block_on, testing::TestRequest};
    ///
    /// async fn first_price(_: PluginContext, _: Request) -> Result<Response> {
    ///     let prices: Vec<u32> = Vec::new();
    ///     Ok(Response::text(prices[0].to_string()))
    /// }
    ///
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let reply = block_on(host.call(first_price, TestRequest::get("/")));
    /// assert!(reply.error().unwrap().is_panic());
    /// ```
    pub fn is_panic(&self) -> bool {
        self.is(codes::PANICKED)
    }

    fn is(&self, code: u32) -> bool {
        matches!(self.kind, Kind::Code(own) if own == code)
    }

    /// The status that the client gets: of an error made for it, or what the host makes of any other.
    #[cfg(feature = "testing")]
    pub(crate) fn client_status(&self) -> u16 {
        let details = self.details.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
        self.status().or(details).unwrap_or(match self.kind {
            Kind::Code(codes::FORBIDDEN) => 403,
            Kind::Code(codes::NOT_FOUND) => 404,
            Kind::Code(codes::REFUSED) => 422,
            Kind::Code(codes::UNAVAILABLE) => 503,
            Kind::Code(codes::TIMED_OUT) => 504,
            _ => 500,
        })
    }

    /// Whether the client sees the message.
    #[cfg(feature = "testing")]
    pub(crate) fn is_public(&self) -> bool {
        self.status().is_some() || self.flags & codes::flags::PUBLIC != 0
    }

    /// The fields at fault, as JSON.
    #[cfg(feature = "testing")]
    pub(crate) fn fields(&self) -> Option<&Value> {
        self.details.get("errors")
    }
}
