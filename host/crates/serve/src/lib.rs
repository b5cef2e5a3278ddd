//! The web layer and a worker's life: listeners, the walk of a request, the API's endpoints, MCP, the proxy and jobs.
//!
//! What is absent: SQL, which `cardinal-store` holds, and whatever needs the owner of the database.

pub mod api;
mod app;
pub mod audit;
mod audit_action;
mod call;
pub mod check;
mod client_errors;
pub mod http;
mod jobs;
pub mod lifecycle;
mod mcp;
mod openapi;
mod pages;
mod pictures;
mod proxy;
mod request;
pub mod router;
mod server;
mod tls;
