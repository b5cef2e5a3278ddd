//! The core's endpoints: parse, ask the domain, reply. A file per resource, each with its rows of
//! the route table.

pub mod api_keys;
mod approvals;
mod audit;
pub(crate) mod auth;
mod card_export;
mod card_import;
mod card_sources;
mod client_errors;
mod events;
pub(crate) mod health;
mod jobs;
mod kinds;
mod live;
mod master_cards;
pub(crate) mod mcp;
pub(crate) mod metrics;
pub(crate) mod openapi;
mod pictures;
mod plugin_data;
mod plugin_logs;
mod plugin_registry;
mod plugin_settings;
mod plugin_trust;
mod plugin_upload;
pub(crate) mod plugins;
mod problems;
mod proxy_routes;
mod sessions;
pub(crate) mod system;
pub mod users;
mod views;

use crate::app::Route;

/// The whole table.
pub fn routes() -> Vec<Route> {
    [
        health::routes(),
        metrics::routes(),
        system::routes(),
        problems::routes(),
        auth::routes(),
        api_keys::routes(),
        approvals::routes(),
        audit::routes(),
        events::routes(),
        master_cards::routes(),
        card_sources::routes(),
        card_export::routes(),
        card_import::routes(),
        pictures::routes(),
        jobs::routes(),
        plugins::routes(),
        plugin_registry::routes(),
        plugin_data::routes(),
        plugin_settings::routes(),
        plugin_logs::routes(),
        client_errors::routes(),
        plugin_trust::routes(),
        plugin_upload::routes(),
        mcp::routes(),
        sessions::routes(),
        users::routes(),
        openapi::routes(),
        views::routes(),
        kinds::routes(),
        proxy_routes::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
