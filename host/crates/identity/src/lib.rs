//! Credentials, scopes, callers, identity providers, and the limits of each caller.

pub mod auth;
pub mod error;
pub mod limit;
