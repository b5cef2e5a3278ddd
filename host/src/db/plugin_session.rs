//! What a plugin's own session is set to, and what makes it clean again.

/// Limits of a plugin's session. They are startup options, which outrank what the role could set
/// for itself; a plugin may raise them in its own session, where its call's deadline still holds.
const OPTIONS: &str = "-c statement_timeout=15000 -c idle_in_transaction_session_timeout=15000 \
                       -c lock_timeout=3000 -c client_connection_check_interval=1000";

/// Undoes whatever a plugin may have left. RESET ALL goes back to the startup options.
pub const CLEAN: &str = "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
                         SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP";

pub const SHOW_SEARCH_PATH: &str = "SHOW search_path";

/// Where a plugin's unqualified names are looked up.
pub fn search_path(schema: &str) -> String {
    format!("{schema},pg_temp")
}

/// Adds the session's settings to what connects.
pub fn set_options(config: &mut tokio_postgres::Config, schema: &str) {
    let own = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
    config.options(format!("{own}-c search_path={} {OPTIONS}", search_path(schema)));
}
