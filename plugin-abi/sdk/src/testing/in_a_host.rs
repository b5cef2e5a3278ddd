//! What `cardinal plugin test` checks, as tests of the plugin's crate: [`host_tests!`](crate::host_tests).

use std::{
    env,
    io::{ErrorKind, Write as _},
    process::{Command, Stdio},
    sync::OnceLock,
};

use super::{address::PROGRAM_VARIABLE, left_out::leave_out};

/// `cardinal plugin test` sets it for the crate's tests, which it runs after its own checks.
const CHECKED_VARIABLE: &str = "CARDINAL_TEST_URL";

/// Makes a test of each check of `cardinal plugin test`, so that `cargo test` runs the plugin in a real host.
///
/// The first of them to run starts a host with a PostgreSQL of its own, in a temporary folder, and the others wait for
/// what came of it:
///
/// | test | |
/// |---|---|
/// | `in_a_host::routes` | every route answers |
/// | `in_a_host::database` | the plugin's database role reaches nothing but its own schema |
/// | `in_a_host::frontend` | all that the plugin draws is drawn for a card in Chromium |
/// | `in_a_host::tools` | tools answer over MCP; those that must be confirmed ask |
/// | `in_a_host::swap` | a swap under load loses no request |
/// | `in_a_host::panics` | odd input makes nothing panic |
/// | `in_a_host::threads` | no handler blocks its thread |
/// | `in_a_host::end` | the plugin ends in order |
///
/// The program is `cardinal` of `PATH`, or the one that the variable `CARDINAL` names. Where there is none, the tests
/// pass and say on standard error that they were left out; so does a check that has nothing to look at, or needs a
/// browser where none is installed. `cargo test -- --skip in_a_host` leaves them out by choice. `cardinal plugin test`
/// has made the checks itself when it runs the crate's tests.
///
/// ```
/// // at the end of src/lib.rs
/// #[cfg(test)]
/// cardinal_plugin::host_tests!();
/// # #[cfg(not(test))]
/// # cardinal_plugin::host_tests!();
/// ```
#[macro_export]
macro_rules! host_tests {
    () => {
        mod in_a_host {
            $crate::host_tests!(@each routes database frontend tools swap panics threads end);
        }
    };
    (@each $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $crate::testing::check_in_host(::core::env!("CARGO_MANIFEST_DIR"), ::core::stringify!($check));
            }
        )*
    };
}

/// What came of a check, and the program's words about it.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    Skipped(String),
    Bad(String),
}

/// Fails the test when the check of this name has failed for the crate in `folder`. All checks are made once.
#[doc(hidden)]
#[track_caller]
pub fn check_in_host(folder: &str, check: &str) {
    static PRINTED: OnceLock<Option<String>> = OnceLock::new();
    if env::var_os(CHECKED_VARIABLE).is_some() {
        return;
    }
    let Some(printed) = PRINTED.get_or_init(|| plugin_test(folder)) else {
        return leave_out(&format!("needs the program cardinal in PATH, or in {PROGRAM_VARIABLE}"));
    };
    match outcome(printed, check) {
        Outcome::Good => {}
        Outcome::Skipped(why) => leave_out(&format!("has nothing to check: {why}")),
        Outcome::Bad(why) => panic!("{why}"),
    }
}

/// All that `cardinal plugin test` prints. None where there is no such program.
fn plugin_test(folder: &str) -> Option<String> {
    let named = env::var_os(PROGRAM_VARIABLE);
    let mut command = Command::new(named.as_deref().unwrap_or("cardinal".as_ref()));
    command.args(["plugin", "test", "--without-own", folder]).stdin(Stdio::null());
    let _ = writeln!(std::io::stderr(), "\nRunning the plugin in a host: {command:?}");
    match command.output() {
        Ok(output) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some(text(&output.stdout) + &text(&output.stderr))
        }
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => None,
        Err(error) => Some(format!("{command:?} does not run: {error}")),
    }
}

/// What was printed about a check: a word, its name and a text, of which further lines are indented.
fn outcome(printed: &str, check: &str) -> Outcome {
    let mut lines = printed.lines();
    let words = |line: &str| -> Option<(String, String)> {
        let (word, rest) = line.split_once(' ')?;
        let (name, text) = rest.trim_start().split_once(' ')?;
        (name == check).then(|| (word.to_owned(), text.trim_start().to_owned()))
    };
    let Some((word, mut text)) = lines.find_map(words) else {
        return Outcome::Bad(format!("the plugin was not checked in a host:\n{printed}"));
    };
    for line in lines.take_while(|line| line.starts_with(' ')) {
        text.push('\n');
        text.push_str(line.trim_start());
    }
    match word.as_str() {
        "ok" => Outcome::Good,
        "skipped" => Outcome::Skipped(text),
        _ => Outcome::Bad(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "starting\n\
        ok       routes     3 answer\n\
        skipped  frontend   the plugin draws nothing\n\
        FAILED   panics     `add` panics\n                    at src/routes.rs:7:5\n\
        ok       threads    none blocks\n\
        1 failed\n";

    #[test]
    fn each_check_is_found_with_all_its_lines() {
        assert_eq!(outcome(PRINTED, "routes"), Outcome::Good);
        assert_eq!(outcome(PRINTED, "threads"), Outcome::Good);
        assert_eq!(outcome(PRINTED, "frontend"), Outcome::Skipped("the plugin draws nothing".to_owned()));
        assert_eq!(outcome(PRINTED, "panics"), Outcome::Bad("`add` panics\nat src/routes.rs:7:5".to_owned()));
    }

    #[test]
    fn a_check_that_was_not_made_has_failed_with_all_that_was_printed() {
        let Outcome::Bad(why) = outcome("cardinal: the crate does not compile\n", "swap") else { panic!("not bad") };
        assert!(why.ends_with("cardinal: the crate does not compile\n"), "{why}");
    }
}
