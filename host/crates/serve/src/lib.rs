//! The web layer and a worker's life: listeners, the walk of a request, the API's endpoints, MCP, the proxy and jobs.
//!
//! What is absent: SQL, which `cardinal-store` holds, and whatever needs the owner of the database.

pub mod api;
pub mod app;
pub mod audit;
pub mod audit_action;
pub mod call;
pub mod check;
pub mod client_errors;
pub mod http;
pub mod jobs;
pub mod lifecycle;
pub mod mcp;
pub mod openapi;
pub mod pages;
pub mod pictures;
pub mod proxy;
pub mod request;
pub mod router;
pub mod server;
pub mod tls;
