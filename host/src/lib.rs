//! The server behind the `cardinal` binary. `host/README.md` tells its two walks and its invariants.

pub mod api;
pub mod app;
pub mod auth;
pub mod cards;
pub mod clock;
pub mod config;
pub mod db;
pub mod http;
mod mac;
pub mod plugin;
pub mod request;
pub mod router;
pub mod server;
