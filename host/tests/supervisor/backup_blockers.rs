//! A backup beside a plugin that is in its way.

use cardinal_database::connect;
use cardinal_schema::dump;

use super::{
    backup::{cardinal, done, left_out},
    database::{Login, Place, scratch, superuser_databases},
};

/// The backup reads with the plugin's own login.
#[tokio::test]
async fn a_plugin_that_keeps_all_its_connections_is_left_out() {
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    let made = database.provision("greedy", "CREATE TABLE items (v int)").await.unwrap();
    let mut held = Vec::new();
    while let Ok(session) = connect::connect(&made.connect).await {
        held.push(session);
    }
    let file = scratch().join("greedy.tar");
    let message = left_out(&cardinal("backup", &login, &file));
    assert!(
        message.contains("Not in the backup: the tables of greedy") && message.contains("too many connections"),
        "{message}"
    );
    drop(held);
}

/// An open transaction that alters the plugin's own login keeps everybody else from that role.
#[tokio::test]
async fn a_plugin_that_alters_its_login_does_not_keep_a_backup_waiting() {
    for (number, place) in
        [Place::new(15, Login::Superuser), Place::new(18, Login::Owner)].into_iter().flatten().enumerate()
    {
        let (admin, login) = place.empty_database().await;
        let database = super::database::Database::prepared(admin, &login).await;
        let made = database.provision("holder", "CREATE TABLE items (v int)").await.unwrap();
        let first = connect::connect(&made.connect).await.unwrap();
        first.batch_execute("ALTER ROLE CURRENT_USER PASSWORD 'mine'").await.unwrap();
        first.batch_execute("BEGIN; ALTER ROLE CURRENT_USER PASSWORD 'held'").await.unwrap();
        done(&cardinal("backup", &login, &scratch().join(format!("holder-{number}.tar"))));
        assert!(first.batch_execute("SELECT 1").await.is_err(), "the session lives on");
    }
}

#[tokio::test]
async fn a_plugin_that_locks_its_tables_does_not_keep_a_backup_waiting() {
    let places = [Place::new(15, Login::Superuser), Place::new(18, Login::Owner)];
    for (number, place) in places.into_iter().flatten().enumerate() {
        let (admin, login) = place.empty_database().await;
        let database = super::database::Database::prepared(admin, &login).await;
        let made = database.provision("locker", "CREATE TABLE items (v int)").await.unwrap();
        let holder = connect::connect(&made.connect).await.unwrap();
        holder
            .batch_execute(
                "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE items IN ACCESS EXCLUSIVE MODE",
            )
            .await
            .unwrap();
        let file = scratch().join(format!("locked-{number}.tar"));
        let output = cardinal("backup", &login, &file);
        done(&output);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("plugin locker has locked its table items: ended 1 of its sessions"), "{message}");
        assert!(holder.batch_execute("SELECT 1").await.is_err(), "the session lives on");
    }
}

/// Its login may end its own sessions, by a time-out or by hand. What others have is backed up all the same.
#[tokio::test]
async fn a_plugin_that_ends_its_own_sessions_does_not_end_a_backup() {
    for (number, place) in
        [Place::new(15, Login::Superuser), Place::new(18, Login::Owner)].into_iter().flatten().enumerate()
    {
        let (admin, login) = place.empty_database().await;
        let database = super::database::Database::prepared(admin, &login).await;
        let made = database.provision("restless", "CREATE TABLE items (v int)").await.unwrap();
        let session = connect::connect(&made.connect).await.unwrap();
        session.batch_execute("ALTER ROLE CURRENT_USER SET idle_session_timeout = 1").await.unwrap();
        let file = scratch().join(format!("restless-{number}.tar"));
        let backup = {
            let (login, file) = (login.clone(), file.clone());
            tokio::task::spawn_blocking(move || cardinal("backup", &login, &file))
        };
        done(&backup.await.unwrap());
        let file = scratch().join(format!("restless-again-{number}.tar"));
        let backup = tokio::task::spawn_blocking(move || cardinal("backup", &login, &file));
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()";
        while !backup.is_finished() {
            session.query(end, &[]).await.unwrap();
        }
        let output = backup.await.unwrap();
        assert!(matches!(output.status.code(), Some(0 | 65)), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Whoever reads a moment before a table was written anew finds no rows in it.
#[tokio::test]
async fn a_table_that_is_written_anew_meanwhile_is_not_backed_up_as_empty() {
    for database in superuser_databases().await {
        let made = database.provision("anew", "CREATE TABLE items (v int); CREATE TABLE others (v int)").await.unwrap();
        let session = connect::connect(&made.connect).await.unwrap();
        session.batch_execute("INSERT INTO items VALUES (1); INSERT INTO others VALUES (1)").await.unwrap();
        let owner = connect::connect(&database.login(&database.prepared.names.owner())).await.unwrap();
        let moment = dump::begin_reading(&owner).await.unwrap();
        let file = "ALTER TABLE items ADD COLUMN IF NOT EXISTS id uuid DEFAULT gen_random_uuid()";
        database.provision("anew", file).await.unwrap();
        dump::read_at(&session, &moment).await.unwrap();
        let tables = dump::tables(&session, "plugin_anew").await.unwrap();
        let error = dump::copy_out(&session, &tables[0]).await.map(drop).unwrap_err();
        assert!(error.is::<dump::RewriteError>() && dump::is_of_the_tables(&error), "{error:#}");
        let lines = dump::copy_out(&session, &tables[1]).await.unwrap();
        assert_eq!(futures_util::TryStreamExt::try_collect::<Vec<_>>(lines).await.unwrap().len(), 1);
    }
}

/// Between its commit and its record, a step has made tables that nothing says how to make.
#[tokio::test]
async fn a_backup_waits_for_a_step_that_is_under_way() {
    let place = Place::new(15, Login::Superuser).unwrap();
    let (admin, login) = place.empty_database().await;
    let database = super::database::Database::prepared(admin, &login).await;
    database.provision("slow", "CREATE TABLE items (v int)").await.unwrap();
    let step = database.provisioner().await;
    step.batch_execute("BEGIN; SELECT FROM public.plugin_schema_state WHERE plugin = 'slow' FOR UPDATE").await.unwrap();
    let file = scratch().join("slow.tar");
    let backup = tokio::task::spawn_blocking(move || cardinal("backup", &login, &file));
    let waits = "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'";
    let admin = database.admin().await;
    while admin.query(waits, &[]).await.unwrap().is_empty() {
        assert!(!backup.is_finished(), "it did not wait");
        tokio::task::yield_now().await;
    }
    step.batch_execute("COMMIT").await.unwrap();
    done(&backup.await.unwrap());
}
