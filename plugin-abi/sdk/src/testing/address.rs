//! Where the tests' PostgreSQL is: where the environment says, else one that the program `cardinal` runs for them.

use std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader, ErrorKind, Read as _},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use super::left_out::leave_out;

/// The first that is set counts.
const VARIABLES: [&str; 2] = ["CARDINAL_TEST_DATABASE", "DATABASE_URL"];
/// Names the program where it is not in `PATH`.
pub(super) const PROGRAM_VARIABLE: &str = "CARDINAL";
/// What the program ends with where the machine has no PostgreSQL.
const EXIT_NO_POSTGRES: i32 = 69;

/// Why tests have no PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DatabaseError {
    /// There is none to be had: what would give one.
    Absent(String),
    /// It should be there and does not come.
    Failed(String),
}

impl DatabaseError {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Absent(why) => format!("there is no database for tests: {why}"),
            Self::Failed(why) => format!("the tests' PostgreSQL does not start: {why}"),
        }
    }
}

/// A server that ends with this process, whose end of its standard input the system closes then.
struct Server {
    address: String,
    _program: Child,
}

/// The address. The first that asks waits, a second or two, where the server has to be made; all tests of the process
/// share it.
pub(super) fn address() -> Result<String, DatabaseError> {
    static SERVER: OnceLock<Result<Server, DatabaseError>> = OnceLock::new();
    let named = VARIABLES.into_iter().find_map(|name| env::var(name).ok().filter(|address| !address.is_empty()));
    if let Some(address) = named {
        return Ok(address);
    }
    match SERVER.get_or_init(|| start(env::var_os(PROGRAM_VARIABLE))) {
        Ok(server) => Ok(server.address.clone()),
        Err(missing) => Err(missing.clone()),
    }
}

/// Has the program run a server. What it is called decides where it is looked for, and whether it must be there.
fn start(named: Option<OsString>) -> Result<Server, DatabaseError> {
    let mut command = Command::new(named.as_deref().unwrap_or("cardinal".as_ref()));
    command.args(["plugin", "database"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = match command.spawn() {
        Ok(program) => program,
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => {
            let program = format!("put the program cardinal into PATH (or name it in {PROGRAM_VARIABLE})");
            let address = "as in postgres://user:password@localhost/postgres";
            return Err(DatabaseError::Absent(format!(
                "{program}, which runs one for them, or set {} to the address of one, {address}",
                VARIABLES[0]
            )));
        }
        Err(error) => return Err(DatabaseError::Failed(format!("{command:?}: {error}"))),
    };
    let mut address = String::new();
    let printed = program.stdout.take().map(|output| BufReader::new(output).read_line(&mut address));
    if matches!(printed, Some(Ok(1..))) {
        address.truncate(address.trim_end().len());
        return Ok(Server { address, _program: program });
    }
    Err(why_not(program, &format!("{command:?}")))
}

/// Of a program that has ended, or will.
fn why_not(mut program: Child, command: &str) -> DatabaseError {
    let mut words = String::new();
    if let Some(mut errors) = program.stderr.take() {
        let _ = errors.read_to_string(&mut words); // without words there is the status
    }
    let words = words.trim();
    match program.wait() {
        Ok(status) if status.code() == Some(EXIT_NO_POSTGRES) => {
            DatabaseError::Absent(format!("{words}; {} counts before that", VARIABLES[0]))
        }
        Ok(status) => DatabaseError::Failed(format!("{command} ended with {status}: {words}")),
        Err(error) => DatabaseError::Failed(format!("{command}: {error}")),
    }
}

/// Returns whether there is a PostgreSQL for tests, as [`lacks_database`] looks for it.
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
    !matches!(address(), Err(DatabaseError::Absent(_)))
}

/// Returns whether a test that needs tables has to be left out, because there is no PostgreSQL for tests: the
/// environment names none, and either the program `cardinal` is not there, which would run one, or no PostgreSQL is
/// installed.
///
/// The test counts as passed then, so it says on standard error that it was left out, past the runner's capture, and
/// what would have it run. A server that is named or installed and does not answer fails the test.
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
///
/// # Panics
/// When the program cannot start its server.
#[track_caller]
pub fn lacks_database() -> bool {
    match address() {
        Ok(_) => false,
        Err(DatabaseError::Absent(why)) => {
            leave_out(&format!("needs a PostgreSQL: {why}"));
            true
        }
        Err(failed) => panic!("{}", failed.text()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// What becomes of a program of this text.
    fn started(script: &str) -> Result<Server, DatabaseError> {
        let folder = env::temp_dir().join(format!("cardinal-address-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let program = folder.join("cardinal");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let started = start(Some(program.into_os_string()));
        std::fs::remove_dir_all(&folder).unwrap();
        started
    }

    #[test]
    fn the_program_says_where_its_server_is_and_lives_until_its_input_ends() {
        let mut server = started("echo postgres://u:p@%2Ftmp/d; cat").unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(server.address, "postgres://u:p@%2Ftmp/d");
        assert!(server._program.try_wait().unwrap().is_none());
        drop(server._program.stdin.take());
        assert!(server._program.wait().unwrap().success());
    }

    #[test]
    fn only_where_none_is_to_be_had_a_test_is_left_out() {
        let none = started("echo install one >&2; exit 69").err();
        let Some(DatabaseError::Absent(why)) = none else { panic!("{none:?}") };
        assert!(why.starts_with("install one; ") && why.contains(VARIABLES[0]), "{why}");
        let Some(DatabaseError::Failed(why)) = started("echo the disk is full >&2; exit 1").err() else { panic!() };
        assert!(why.contains("exit status: 1: the disk is full"), "{why}");
        let Some(DatabaseError::Failed(why)) = start(Some("/nowhere/cardinal".into())).err() else { panic!() };
        assert!(why.contains("/nowhere/cardinal"), "{why}");
    }
}
