//! The core's endpoints: parse, ask the domain, reply. A file per resource, each with its rows of
//! the route table.

mod api_keys;
mod auth;
mod health;
mod master_cards;
mod mcp;
pub mod pages;
pub mod plugins;
mod problems;

use crate::router::Route;

/// The whole table.
pub fn routes() -> Vec<Route> {
    [
        health::routes(),
        problems::routes(),
        auth::routes(),
        api_keys::routes(),
        master_cards::routes(),
        plugins::routes(),
        mcp::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
