//! All SQL that the worker runs, a file per table or its uses, with the catalogue and the events that are made of it.
//!
//! Deliberately absent: whatever needs the owner of the database. Migrations, roles and plugins' schemas are in
//! `cardinal-schema`, which no crate of the worker depends on.

pub mod api_keys;
pub mod approvals;
pub mod audit;
pub mod cards;
pub mod catalogue;
pub mod error;
pub mod event_log;
pub mod events;
pub mod identity_changes;
pub mod jobs;
pub mod kinds;
pub mod login_failures;
pub mod oidc_users;
mod old_rows;
pub mod plugins;
pub mod proxy_routes;
pub mod rate_budgets;
pub mod reaper;
pub mod service_users;
pub mod sessions;
pub mod users;
pub mod views;
