//! Credentials, scopes, callers, identity providers, and the limits of each caller.
//!
//! What is absent: routes, and the headers and problem documents in which a client reads what was decided here.

pub mod auth;
pub mod error;
pub mod limit;
