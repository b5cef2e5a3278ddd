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
//! and its routes a function:
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
//! ```
//!
//! What to know:
//!
//! * **Threads.** Handlers run on the host's threads, many at a time, and must not block them. The
//!   plugin's own tokio is at hand everywhere: `tokio::time::sleep`, sockets, `tokio::spawn`,
//!   `spawn_blocking` just work. Depend on the [`tokio`] of this crate, or on the same version.
//! * **Cancellation.** When the client goes away, the deadline passes or the plugin is replaced, a
//!   handler's future is dropped at its next await. What must go on belongs into
//!   [`PluginContext::spawn`].
//! * **Work that takes long** is a [`Job`]: the host keeps it, shows how far it is and cancels it, and starts it at set
//!   times when the manifest says so.
//! * **Panics** end their call with an internal error and are logged; nothing else is harmed.
//! * **Errors.** [`Error`]'s constructors speak to the client, `?` speaks to the log, with any standard error,
//!   `anyhow::Error` or `eyre::Report`.
//! * **Other servers** are asked with [`PluginContext::http`], over the host's connections.
//! * **Log.** [`PluginContext::log`], or with the features `tracing` and `log` the macros of these crates: each line is
//!   written with the call that it belongs to (`set_log_filter` chooses which).
//! * **Tests.** The feature `testing` has a host for them, in `testing`.
//! * **Blocking work** belongs into `tokio::task::spawn_blocking`; `block_in_place` panics here.

#![deny(missing_docs)]

mod card_events;
mod cards;
mod context;
mod cursor;
mod database;
mod error;
mod http_client;
mod input;
mod instance;
mod jobs;
#[cfg(any(feature = "log", feature = "tracing"))]
mod log_bridge;
mod memory;
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

pub use card_events::{CardChange, CardEvent, CardEvents};
pub use cardinal_plugin_macros::{FromRow, plugin};
pub use cards::{Card, CardPage, CardQuery, Source, User, UserKind};
pub use context::PluginContext;
pub use cursor::{Cursor, Page};
pub use database::{
    Column, ConnectOptions, Connection, FromRow, OwnedRows, Pool, Row, RowIndex, RowStream, Statement, ToStatement,
    Transaction,
};
pub use error::{Error, Result, StdError};
pub use http_client::{HttpClient, HttpFailure, HttpRequest, HttpResponse};
pub use jobs::{Job, JobHandler};
#[cfg(any(feature = "log", feature = "tracing"))]
pub use log_bridge::set_log_filter;
pub use memory::Counting;
pub use observe::{Level, Metrics};
pub use request::{CsvRows, Multipart, Part, Request};
pub use response::{Event, Response, RowFormat};
pub use router::{Handler, HandlerFuture, IntoRouter, Router};
pub use runtime::{Task, block_on};
pub use stream::ByteStream;

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
    pub use crate::instance::{Plugin, entry, module};
    pub use crate::print::print;
    pub use cardinal_plugin_abi as abi;
    pub use cardinal_plugin_abi::{
        Entry,
        section::{Header, package_size, write_package},
    };
}
