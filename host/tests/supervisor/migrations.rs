//! The core's own tables: once, also when hosts start together, and only with the history that this program knows.

use cardinal_database::{connect, roles};
use cardinal_schema::prepare::{self, SecretSource};

use super::database::{Database, empty_database, secret};

#[tokio::test]
async fn hosts_that_start_together_migrate_once() {
    let login = empty_database().await;
    let hosts = (0..6).map(|_| {
        let login = login.clone();
        tokio::spawn(async move { prepare::prepare(&login, SecretSource::InDatabase).await })
    });
    let mut passwords = Vec::new();
    for host in hosts.collect::<Vec<_>>() {
        let prepared = host.await.unwrap().unwrap();
        passwords.push(prepared.passwords.for_role(&prepared.names.core()));
    }
    // The secret is one for all of them, and good.
    assert!(passwords.iter().all(|password| *password == passwords[0]));
    let names = roles::RoleNames::new(&login.dbname);
    let core = connect::connect(&login.with_login(names.core(), passwords[0].clone())).await.unwrap();
    let row = core.query_one("SELECT count(*) FROM public.core_migrations", &[]).await.unwrap();
    assert!(row.get::<_, i64>(0) >= 2);
    assert!(core.query("SELECT * FROM public.cardinal_secret", &[]).await.is_err());
}

#[tokio::test]
async fn preparing_again_changes_nothing_and_lets_the_core_in() {
    let database = Database::new().await;
    let core = database.core().await;
    prepare::prepare(&database.admin, secret()).await.unwrap();
    core.query("SELECT 1 FROM public.master_cards", &[]).await.unwrap();
    database.core().await;
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused() {
    let database = Database::new().await;
    let newer =
        "INSERT INTO public.core_migrations (version, name, checksum, core) VALUES (999, '0999_future', '', '7.0.0')";
    database.admin().await.batch_execute(newer).await.unwrap();
    let refused = format!("{:#}", prepare::prepare(&database.admin, secret()).await.unwrap_err());
    assert!(refused.contains("newer than this program") && refused.contains("7.0.0"), "{refused}");
}

#[tokio::test]
async fn an_edited_history_is_refused() {
    let database = Database::new().await;
    let edited = "UPDATE public.core_migrations SET checksum = '\\x00' WHERE version = 1";
    database.admin().await.batch_execute(edited).await.unwrap();
    let refused = format!("{:#}", prepare::prepare(&database.admin, secret()).await.unwrap_err());
    assert!(refused.contains("0001_core") && refused.contains("changed after"), "{refused}");
}

#[tokio::test]
async fn a_login_that_owns_the_database_and_makes_roles_will_do() {
    let admin = empty_database().await;
    let client = connect::connect(&admin).await.unwrap();
    let login = format!("operator_of_{}", admin.dbname);
    client
        .batch_execute(&format!(
            "CREATE ROLE {login} LOGIN CREATEROLE PASSWORD 'x'; ALTER DATABASE {} OWNER TO {login}",
            admin.dbname
        ))
        .await
        .unwrap();
    let operator = admin.with_login(login, cardinal_base::config::Secret::new("x"));
    for _start in 0..2 {
        let prepared = prepare::prepare(&operator, SecretSource::InDatabase).await.unwrap();
        let core = prepared.names.core();
        connect::connect(&operator.with_login(&core, prepared.passwords.for_role(&core))).await.unwrap();
    }
}

#[tokio::test]
async fn a_login_without_rights_is_told_what_to_do() {
    let admin = empty_database().await;
    let client = connect::connect(&admin).await.unwrap();
    let login = format!("guest_of_{}", admin.dbname);
    client.batch_execute(&format!("CREATE ROLE {login} LOGIN PASSWORD 'x'")).await.unwrap();
    let guest = admin.with_login(login, cardinal_base::config::Secret::new("x"));
    let refused = format!("{:#}", prepare::prepare(&guest, SecretSource::InDatabase).await.unwrap_err());
    assert!(refused.contains("bootstrap-sql") && refused.contains("DATABASE_SECRET_FILE"), "{refused}");
    let refused = format!("{:#}", prepare::prepare(&guest, secret()).await.unwrap_err());
    assert!(refused.contains("bootstrap-sql"), "{refused}");
}
