//! Where the tests' PostgreSQL is.

use std::io::Write as _;

/// The first that is set counts.
const VARIABLES: [&str; 2] = ["CARDINAL_TEST_DATABASE", "DATABASE_URL"];

pub(super) const NO_DATABASE: &str = "there is no database for tests: set CARDINAL_TEST_DATABASE to the address of a \
                                      PostgreSQL, as in postgres://user:password@localhost/postgres";

/// The address, when the environment has one.
pub(super) fn address() -> Option<String> {
    VARIABLES.into_iter().find_map(|name| std::env::var(name).ok().filter(|address| !address.is_empty()))
}

/// Whether the environment has a PostgreSQL for tests: `CARDINAL_TEST_DATABASE` or `DATABASE_URL`.
pub fn has_database() -> bool {
    address().is_some()
}

/// Whether a test that needs tables has to be left out, as the environment has no PostgreSQL for tests. Says so on standard
/// error, past the runner's capture, since the test counts as passed: `if lacks_database() { return; }`. With an address,
/// a server that does not answer fails the test.
pub fn lacks_database() -> bool {
    if has_database() {
        return false;
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "\nLEFT OUT: {test} needs a PostgreSQL: set {}", VARIABLES[0]);
    true
}
