//! All SQL text of the core, a file per table, and the ways to the database.

pub mod api_keys;
pub mod audit;
pub mod card_estimates;
pub mod card_history;
pub mod card_list;
pub mod card_sources;
pub mod cards;
pub mod connect;
pub mod dump;
pub mod events;
pub mod fault;
pub mod migrate;
pub mod oidc_users;
pub mod plugin_schema;
pub mod plugin_session;
pub mod plugin_state;
pub mod pool;
pub mod prepare;
pub mod rate_budgets;
pub mod roles;
pub mod server;
pub mod service_users;
pub mod sessions;
pub mod sql;
pub mod users;
