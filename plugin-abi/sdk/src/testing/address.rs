//! Where the tests' PostgreSQL is.

use super::left_out::leave_out;

/// The first that is set counts.
const VARIABLES: [&str; 2] = ["CARDINAL_TEST_DATABASE", "DATABASE_URL"];

pub(super) const NO_DATABASE: &str = "there is no database for tests: set CARDINAL_TEST_DATABASE to the address of a \
                                      PostgreSQL, as in postgres://user:password@localhost/postgres";

/// The address, when the environment has one.
pub(super) fn address() -> Option<String> {
    VARIABLES.into_iter().find_map(|name| std::env::var(name).ok().filter(|address| !address.is_empty()))
}

/// Returns whether the environment names a PostgreSQL for tests, in `CARDINAL_TEST_DATABASE` or `DATABASE_URL`. It does
/// not connect.
///
/// ```
/// use cardinal_plugin::testing::{has_database, lacks_database};
///
/// // What a test does without tables it does everywhere, and more where there are some.
/// if has_database() {
///     assert!(!lacks_database());
/// }
/// ```
pub fn has_database() -> bool {
    address().is_some()
}

/// Returns whether a test that needs tables has to be left out, because the environment names no PostgreSQL for tests.
///
/// The test counts as passed then, so it says on standard error that it was left out, past the runner's capture. With
/// an address, a server that does not answer fails the test.
///
/// ```
/// use cardinal_plugin::{PluginContext, Result, Router, block_on};
/// use cardinal_plugin::testing::{TestHost, lacks_database};
///
/// async fn count(ctx: PluginContext) -> Result<i64> {
///     let (count,) = ctx.get_plugin_conn().await?.query_one_as("SELECT count(*) FROM notes", &[]).await?;
///     Ok(count)
/// }
///
/// if lacks_database() {
///     return;
/// }
/// let host = TestHost::builder(r#"{ "name": "notes", "version": "1.0.0" }"#);
/// let host = host.database("CREATE TABLE notes (text text)").start(|_: &PluginContext| Router::new());
/// assert_eq!(block_on(count(host.context())).unwrap(), 0);
/// ```
pub fn lacks_database() -> bool {
    if has_database() {
        return false;
    }
    leave_out(&format!("needs a PostgreSQL: set {}", VARIABLES[0]));
    true
}
