//! Tests that cannot be made where they run: they pass, and say so.

use std::io::Write as _;

/// Says on standard error, past the runner's capture, that the test on this thread was left out.
pub(super) fn leave_out(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "\nLEFT OUT: {test} {why}");
}
