//! What makes a plugin's session clean again, and how it is told that it is the right one. What a
//! session begins with is set where its login is made, in `plugin_schema`.

/// Undoes whatever a plugin may have left. RESET ALL goes back to the startup options.
///
/// `BEGIN` first: a bare `ROLLBACK` outside a transaction is a warning in the server's log, at every
/// return of every connection. Now it warns of the transaction that a plugin did leave open. One
/// that has failed refuses the `BEGIN` and needs [`ROLL_BACK`] before.
pub const CLEAN: &str = "BEGIN; ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
                         SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP";

pub const ROLL_BACK: &str = "ROLLBACK";

/// The search path, and whether functions lie on it that are not the server's own.
pub const BEGINS_WITH: &str = "SELECT pg_catalog.current_setting('search_path'), EXISTS ( \
                               SELECT FROM pg_catalog.pg_proc \
                               WHERE pronamespace = ANY (pg_catalog.current_schemas(false)::pg_catalog.regnamespace[]))";

/// How many channels the session listens to.
pub const COUNT_CHANNELS: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_listening_channels()";

/// Listens to a channel, whose name needs no quotes.
pub fn listen(channel: &str) -> String {
    format!("LISTEN {channel}")
}

/// The opposite of [`listen`].
pub fn unlisten(channel: &str) -> String {
    format!("UNLISTEN {channel}")
}

/// Where a plugin's unqualified names are looked up, as the server shows it, without spaces.
pub fn search_path(schema: &str) -> String {
    format!("{schema},pg_temp")
}
