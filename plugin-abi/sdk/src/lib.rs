//! Write a Cardinal plugin in safe, ordinary async Rust.
//!
//! A plugin is a `cdylib` crate beside a `manifest.json`. Its root is one line:
//!
//! ```ignore
//! // src/lib.rs
//! mod routes;
//! mod service;
//! cardinal_plugin::plugin!(routes::routes);
//! ```
//!
//! and its routes are a function:
//!
//! ```
//! // src/routes.rs
//! use cardinal_plugin::{PluginContext, Request, Response, Result, Router, json};
//! use serde::Deserialize;
//!
//! pub fn routes(_ctx: &PluginContext) -> Router {
//!     Router::new().get("/hello", hello)
//! }
//!
//! #[derive(Deserialize)]
//! struct Hello {
//!     name: Option<String>,
//! }
//!
//! /// `GET /v1/admin/plugins/<prefix>/hello?name=Ada`, or a tool whose handler is `hello`.
//! async fn hello(ctx: PluginContext, req: Request) -> Result<Response> {
//!     let hello: Hello = req.input().await?;
//!     let user = ctx.user()?;
//!     Ok(Response::json(&json!({ "hello": hello.name.unwrap_or(user.name) })))
//! }
//!
//! // A test of it, in `#[cfg(test)] mod tests`, with the feature `testing`:
//! use cardinal_plugin::{block_on, testing::{TestHost, TestRequest, test_user}};
//!
//! let host = TestHost::new(r#"{ "name": "hello", "version": "1.0.0", "backend": {} }"#, routes);
//! assert_eq!(block_on(host.send(TestRequest::get("/hello?name=Ada"))).json(), json!({ "hello": "Ada" }));
//! let asked = TestRequest::get("/hello").user(test_user("Bo", &["plugin:hello:read"]));
//! assert_eq!(block_on(host.send(asked)).json(), json!({ "hello": "Bo" }));
//! ```
//!
//! # Where to look
//!
//! | to | see |
//! |---|---|
//! | read the input: query, path, JSON, CSV, forms | [`Request`] |
//! | answer: JSON, text, files, streams, events, rows | [`Response`], [`Event`], [`RowFormat`] |
//! | tell the client what is wrong | [`Error`] |
//! | read cards, write sources, follow their changes | [`PluginContext`], [`Card`], [`CardQuery`], [`CardEvents`] |
//! | use tables of your own | [`Connection`], [`Transaction`], [`FromRow`], [`Row`] |
//! | hear of what other calls and hosts have done | [`PluginContext::listen`], [`Connection::notify`] |
//! | make pages of a list | [`Page`], [`Cursor`] |
//! | ask other servers | [`PluginContext::http`], [`HttpRequest`], [`HttpResponse`] |
//! | work beside the calls | [`PluginContext::spawn`], [`Job`] |
//! | log and measure | [`PluginContext::log`], [`Metrics`], [`println!`] |
//! | test | `testing` |
//!
//! # What to know
//!
//! * **Threads.** Handlers run on the host's threads, many at a time, and must not block them. The plugin's own tokio
//!   is at hand everywhere: `tokio::time::sleep`, sockets, `tokio::spawn`, `spawn_blocking` work. Depend on the
//!   [`tokio`] of this crate, or on the same version.
//! * **Blocking work** belongs in `tokio::task::spawn_blocking`; `block_in_place` panics here.
//! * **Cancellation.** When the client goes away, the deadline passes or the plugin is replaced, a handler's future is
//!   dropped at its next await. What must go on belongs in [`PluginContext::spawn`].
//! * **Work that takes long** is a [`Job`]: the host keeps it, shows how far it is and cancels it, and starts it at set
//!   times when the manifest says so.
//! * **Instances.** The host makes an instance of the plugin by calling `routes`, and another one for each new version
//!   and each change of settings; the old one goes on until its calls have ended. Instances of one version share the
//!   library's statics, so keep what belongs to an instance in the closures and tasks that `routes` makes.
//! * **Panics** end their call with an internal error and are logged; nothing else is harmed.
//! * **Errors.** [`Error`]'s constructors speak to the client, `?` speaks to the log, with any standard error,
//!   `anyhow::Error` or `eyre::Report`.
//! * **Shutdown.** When an instance is stopped, no call of it is under way any more, or their minute is over. Its tasks
//!   are dropped at their next await; the host waits 10 seconds for them. Afterwards every request to the host is an
//!   error with [`Error::is_cancelled`].
//! * **Log.** [`PluginContext::log`], or with the features `tracing` and `log` the macros of these crates: each line is
//!   written with the call that it belongs to (`set_log_filter` chooses which).
//!
//! # Features
//!
//! | feature | |
//! |---|---|
//! | `count-memory` (on) | counts what the plugin allocates; off for an [allocator of your own](Counting) |
//! | `tracing`, `log` | what is logged through the crates of these names goes to the plugin's log |
//! | `testing` | the module `testing`, a host for tests; for `dev-dependencies` |
//!
//! # Crates
//!
//! [`bytes`], [`futures`] (`futures-util`), [`http`], [`postgres`] (`postgres-types`), [`serde`], [`serde_json`],
//! [`time`], [`tokio`] and [`uuid`] are those that the types of this crate are made of. Use them from here, or depend
//! on the same major version.

#![deny(missing_docs)]

mod card_events;
mod cards;
mod context;
mod core;
mod cursor;
mod database;
mod error;
mod handler;
mod http_client;
mod input;
mod instance;
mod jobs;
#[cfg(any(feature = "log", feature = "tracing"))]
mod log_bridge;
mod memory;
mod notifications;
mod observe;
mod panics;
mod print;
mod request;
mod response;
mod router;
mod runtime;
mod scope;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;
mod users;

pub use card_events::{CardChange, CardEvent, CardEvents};
pub use cardinal_plugin_macros::{FromRow, plugin};
pub use cards::{Card, CardPage, CardQuery, Source};
pub use context::PluginContext;
pub use cursor::{Cursor, Page};
pub use database::{
    Column, ConnectOptions, Connection, FromRow, OwnedRows, Pool, Row, RowIndex, RowStream, Statement, ToStatement,
    Transaction,
};
pub use error::{Error, Result, StdError};
pub use handler::{Handler, HandlerFuture};
pub use http_client::{HttpClient, HttpFailure, HttpRequest, HttpResponse};
pub use jobs::{Job, JobHandler};
#[cfg(any(feature = "log", feature = "tracing"))]
pub use log_bridge::set_log_filter;
pub use memory::Counting;
pub use notifications::{Notification, Notifications};
pub use observe::{Level, Metrics};
pub use request::{CsvRows, Multipart, Part, Request};
pub use response::{Event, Response, RowFormat};
pub use router::{IntoRouter, Router};
pub use runtime::{Task, block_on};
pub use stream::ByteStream;
pub use users::{User, UserKind};

pub use bytes;
pub use futures_util as futures;
pub use http;
pub use http::Method;
pub use postgres_types as postgres;
pub use serde;
pub use serde_json::{self, json};
pub use time;
pub use tokio;
pub use uuid::{self, Uuid};

/// For the code that [`plugin!`] writes, and for tests that drive a plugin without loading it.
/// Not part of what is kept stable.
#[doc(hidden)]
pub mod __private {
    pub use crate::database::json_column;
    pub use crate::instance::{Plugin, entry, module};
    pub use crate::print::print;
    pub use cardinal_plugin_abi as abi;
    pub use cardinal_plugin_abi::{
        Entry,
        section::{Header, package_size, write_package},
    };
}
