//! `DATABASE_URL`: what each kind of login is good for, and what is said about one that is good for nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cardinal_base::config::Secret;
use cardinal_database::connect::{self, ConnectParams};

use super::{
    database::{CARDINAL, Login, Place, empty_database, is_long_run, scratch},
    process::{Host, command, failure},
};

/// The shared server's login may name its folder by a descriptor of this process.
pub(crate) fn url(login: &ConnectParams) -> String {
    let host = std::fs::canonicalize(&login.host).unwrap();
    let user = if login.user.is_empty() { String::new() } else { format!("user={} ", login.user) };
    format!(
        "host='{}' port={} dbname={} {user}password={}",
        host.display(),
        login.port,
        login.dbname,
        login.password.expose()
    )
}

/// A login of a database without any right.
async fn plain(admin: &ConnectParams) -> ConnectParams {
    let name = format!("plain_of_{}", admin.dbname);
    let made = format!("CREATE ROLE {name} LOGIN PASSWORD 'x'");
    connect::connect(admin).await.unwrap().batch_execute(&made).await.unwrap();
    admin.with_login(name, Secret::new("x"))
}

fn serve(name: &str, login: &ConnectParams) -> (Command, PathBuf) {
    let data_dir = scratch().join(name);
    let mut serve = command(&data_dir);
    serve.env("DATABASE_URL", url(login));
    (serve, data_dir)
}

/// Ends as for a wrong setting, with the setting's name and these words.
fn refused(serve: &mut Command, setting: &str, words: &[&str]) {
    let (code, message) = failure(serve);
    assert_eq!(code, 64, "{message}");
    let last = message.trim().lines().last().unwrap();
    assert!(last.starts_with(&format!("cardinal: {setting} (--")), "{message}");
    for word in words {
        assert!(last.contains(word), "{word:?} is missing: {message}");
    }
}

fn bootstrap_sql(login: &ConnectParams, secret: &Path) -> String {
    let output = Command::new(CARDINAL)
        .env_clear()
        .env("DATABASE_URL", url(login))
        .env("DATABASE_SECRET_FILE", secret)
        .args(["database", "bootstrap-sql"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn with_a_superuser_no_server_is_started() {
    let login = empty_database().await;
    let (mut serve, data_dir) = serve("elsewhere", &login);
    let host = Host::with(&mut serve, data_dir);
    assert!(!host.data_dir.join("pg").exists());
    let seen = std::fs::read(format!("/proc/{}/cmdline", host.child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&seen).contains(login.password.expose()));
}

#[tokio::test]
async fn a_plain_login_does_after_an_administrator_ran_the_script() {
    let admin = empty_database().await;
    let login = plain(&admin).await;
    let secret = scratch().join("plain.secret");
    let (mut unprepared, _) = serve("unprepared", &login);
    refused(&mut unprepared, "DATABASE_URL", &["may not make roles", "bootstrap-sql", "DATABASE_SECRET_FILE"]);
    let script = bootstrap_sql(&login, &secret);
    let (mut unprepared, _) = serve("unprepared-too", &login);
    let owner = cardinal_database::roles::RoleNames::new(&admin.dbname).owner();
    refused(unprepared.env("DATABASE_SECRET_FILE", &secret), "DATABASE_SECRET_FILE", &[&owner, "bootstrap-sql"]);

    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&secret).unwrap();
    assert!(!script.contains(kept.trim()));
    let client = connect::connect(&admin).await.unwrap();
    for script in [&script, &bootstrap_sql(&login, &secret)] {
        client.batch_execute(script).await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), kept);
    let without_user = ConnectParams { user: String::new(), ..login.clone() };
    for (name, login) in [("plain", &login), ("nameless", &without_user)] {
        let (mut serve, data_dir) = serve(name, login);
        Host::with(serve.env("DATABASE_SECRET_FILE", &secret), data_dir);
    }
    let maker = "SELECT rolname::text FROM pg_roles WHERE rolcreaterole AND rolcanlogin AND rolname LIKE 'cardinal!_%!_%' ESCAPE '!' AND NOT rolsuper";
    assert_eq!(client.query(maker, &[]).await.unwrap().len(), 0);
}

#[tokio::test]
async fn the_script_runs_in_no_other_database_and_leaves_nothing_half_done() {
    let (admin, other) = (empty_database().await, empty_database().await);
    let script = bootstrap_sql(&admin, &scratch().join("other.secret"));
    let client = connect::connect(&other).await.unwrap();
    let error = client.batch_execute(&script).await.unwrap_err();
    let message = error.as_db_error().unwrap().message().to_owned();
    assert!(message.contains(&admin.dbname) && message.contains(&other.dbname), "{message}");
    client.batch_execute("ROLLBACK").await.unwrap();
    let role = cardinal_database::roles::RoleNames::new(&admin.dbname).core();
    assert!(client.query_opt("SELECT 1 FROM pg_roles WHERE rolname = $1", &[&role]).await.unwrap().is_none());
}

#[test]
fn the_script_needs_both_settings() {
    let output = Command::new(CARDINAL).env_clear().args(["database", "bootstrap-sql"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{message}");
    assert!(message.contains("DATABASE_URL (--") && message.contains("DATABASE_SECRET_FILE (--"), "{message}");
}

#[tokio::test]
async fn what_is_wrong_is_told_by_its_setting() {
    let login = empty_database().await;
    let wrong = login.with_login(&login.user, Secret::new("wrong"));
    refused(
        &mut serve("wrong-password", &wrong).0,
        "DATABASE_URL",
        &["does not let", &login.user, "correct user and password"],
    );
    let nowhere = ConnectParams { dbname: "nowhere".to_owned(), ..login.clone() };
    refused(&mut serve("nowhere", &nowhere).0, "DATABASE_URL", &["no database \"nowhere\"", "CREATE DATABASE"]);
    let short = scratch().join("short.secret");
    std::fs::write(&short, "short\n").unwrap();
    let (mut serve, _) = serve("short-secret", &login);
    let (code, message) = failure(serve.env("DATABASE_SECRET_FILE", &short));
    assert!(
        code == 64 && message.contains("DATABASE_SECRET_FILE (--") && message.contains("bootstrap-sql"),
        "{message}"
    );
}

/// PostgreSQL 15 lets a login that makes roles change those of others.
#[tokio::test]
async fn a_login_that_makes_roles_of_somebody_elses_is_told_whose() {
    let Some(place) = Place::new(18, Login::Superuser) else { return };
    let database = place.database().await;
    let name = format!("late_of_{}", database.admin.dbname);
    let made = format!(
        "CREATE ROLE {name} LOGIN CREATEROLE PASSWORD 'x'; ALTER DATABASE {} OWNER TO {name}",
        database.admin.dbname
    );
    database.admin().await.batch_execute(&made).await.unwrap();
    let late = database.admin.with_login(name, Secret::new("x"));
    refused(&mut serve("late", &late).0, "DATABASE_URL", &["in line", "the login that made them or a superuser"]);
}

/// As `sql/README.md` tells the administrator of a managed server to do it, before and after the first start.
#[tokio::test]
async fn a_login_that_makes_roles_goes_on_after_a_superuser_ran_the_script() {
    let mut starts = vec![(15, false), (18, false), (18, true)];
    if is_long_run() {
        starts.extend([(16, false), (16, true)]);
    }
    for (major, starts_first) in starts {
        let Some(place) = Place::new(major, Login::Owner) else { continue };
        let (admin, login) = place.empty_database().await;
        let name = |suffix| format!("after-script-{major}-{starts_first}-{suffix}");
        if starts_first {
            let (mut serve, data_dir) = serve(&name("before"), &login);
            Host::with(&mut serve, data_dir);
        }
        let secret = scratch().join(name("secret"));
        let script = bootstrap_sql(&login, &secret);
        let superuser = connect::connect(&admin).await.unwrap();
        superuser.batch_execute(&script).await.unwrap();
        for start in ["once", "again"] {
            let (mut serve, data_dir) = serve(&name(start), &login);
            Host::with(serve.env("DATABASE_SECRET_FILE", &secret), data_dir);
        }
        let fenced = "SELECT FROM pg_event_trigger WHERE evtname = 'cardinal_ddl_fence'";
        assert!(superuser.query_opt(fenced, &[]).await.unwrap().is_some(), "{major}: what the script gave is kept");
    }
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused() {
    let admin = empty_database().await;
    let client = connect::connect(&admin).await.unwrap();
    let name = format!("latin_{}", admin.dbname);
    client
        .batch_execute(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"))
        .await
        .unwrap();
    let latin = ConnectParams { dbname: name, ..admin };
    refused(&mut serve("latin", &latin).0, "DATABASE_URL", &["LATIN1", "UTF8"]);
}

/// The server may be on its way: this is no reason to end.
#[test]
fn a_server_that_is_not_there_is_waited_for() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let data_dir = scratch().join("waiting");
    let mut serve = command(&data_dir);
    serve.env("DATABASE_URL", format!("postgres://u:p@{address}/cardinal"));
    let mut host = Host::starting(&mut serve, data_dir);
    let line = host.until("waiting for the database");
    assert!(line.contains(&format!("the database at {} cannot be reached", address)), "{line}");
}
