//! The owner of the core's tables logs in by itself, and no session of a superuser meets anything that it made.

use cardinal_database::{
    connect::{self, ConnectParams},
    roles::RoleNames,
};
use cardinal_schema::{
    dump, migrate,
    prepare::{self, Preparation, SecretSource},
};

use super::{
    database::{Database, Login, Place, empty_database, secret},
    everywhere::everywhere,
};

everywhere! {
    what_the_owner_left_runs_as_nobody_else
}

fn preparation(login: &ConnectParams, secret: SecretSource) -> Preparation {
    Preparation {
        login: login.clone(),
        names: RoleNames::new(&login.dbname),
        secret,
        migrations: migrate::COUNT,
        is_beside: false,
    }
}

/// Whoever runs `caught()` and is not the owner has counted, even if its transaction is rolled back.
fn traps(owner: &str) -> String {
    format!(
        "CREATE SEQUENCE public.caught;
         GRANT ALL ON SEQUENCE public.caught TO PUBLIC;
         CREATE FUNCTION public.caught() RETURNS boolean LANGUAGE plpgsql AS $$
           BEGIN IF session_user <> '{owner}' THEN PERFORM nextval('public.caught'); END IF; RETURN true; END $$;
         -- Tables that the host works on.
         ALTER TABLE public.core_migrations RENAME TO real_migrations;
         CREATE VIEW public.core_migrations AS SELECT * FROM public.real_migrations WHERE public.caught();
         CREATE TABLE IF NOT EXISTS public.cardinal_secret (only_one boolean PRIMARY KEY DEFAULT true, secret text);
         ALTER TABLE public.cardinal_secret RENAME TO real_secret;
         CREATE VIEW public.cardinal_secret AS SELECT * FROM public.real_secret WHERE public.caught();
         CREATE FUNCTION public.rows() RETURNS trigger LANGUAGE plpgsql AS 'begin perform public.caught(); return null; end';
         CREATE TRIGGER t INSTEAD OF INSERT ON public.cardinal_secret FOR EACH ROW EXECUTE FUNCTION public.rows();
         -- Names of the server's own, with arguments that fit better.
         CREATE FUNCTION public.current_database(VARIADIC text[]) RETURNS name LANGUAGE sql AS 'select public.caught()::text::name';
         CREATE FUNCTION public.current_setting(name) RETURNS text LANGUAGE sql AS 'select public.caught()::text';
         CREATE FUNCTION public.has_schema_privilege(oid, name, name) RETURNS boolean LANGUAGE sql AS 'select public.caught()';
         CREATE FUNCTION public.pg_has_role(oid, name) RETURNS boolean LANGUAGE sql AS 'select public.caught()';
         CREATE FUNCTION public.starts_with(name, text) RETURNS boolean LANGUAGE sql AS 'select public.caught()';
         CREATE FUNCTION public.format(text, name) RETURNS text LANGUAGE sql AS 'select public.caught()::text';
         CREATE FUNCTION public.format(text, name, name) RETURNS text LANGUAGE sql AS 'select public.caught()::text';
         CREATE FUNCTION public.eq(name, name) RETURNS boolean LANGUAGE sql AS 'select public.caught()';
         CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = name, FUNCTION = public.eq);
         CREATE FUNCTION public.ne(name, text) RETURNS boolean LANGUAGE sql AS 'select public.caught()';
         CREATE OPERATOR public.<> (LEFTARG = name, RIGHTARG = text, FUNCTION = public.ne);
         CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = text, FUNCTION = public.ne);
         CREATE TYPE public.mood AS ENUM ('good');
         CREATE FUNCTION public.mood(public.mood) RETURNS text LANGUAGE sql AS 'select public.caught()::text';
         CREATE CAST (public.mood AS text) WITH FUNCTION public.mood(public.mood) AS IMPLICIT;
         CREATE TABLE public.pg_roles AS SELECT * FROM pg_catalog.pg_roles LIMIT 0;
         CREATE VIEW public.pg_proc AS SELECT * FROM pg_catalog.pg_proc WHERE public.caught()"
    )
}

async fn what_the_owner_left_runs_as_nobody_else(place: Place) {
    let (admin, login) = place.empty_database().await;
    let database = Database::prepared(admin, &login).await;
    let names = &database.prepared.names;
    let owner = connect::connect(&database.login(&names.owner())).await.unwrap();
    owner.batch_execute(&traps(&names.owner())).await.unwrap();
    for place in [
        "CREATE TEMP TABLE pg_roles ()",
        "CREATE FUNCTION pg_temp.caught() RETURNS boolean LANGUAGE sql AS 'select true'",
        "CREATE FUNCTION cardinal.caught() RETURNS boolean LANGUAGE sql AS 'select true'",
        "CREATE OR REPLACE FUNCTION cardinal.plugin_role(kind text, plugin text) RETURNS name LANGUAGE sql AS 'select ''x''::name'",
        "CREATE EVENT TRIGGER t ON ddl_command_start EXECUTE FUNCTION cardinal.ddl_fence()",
        "CREATE SCHEMA z",
    ] {
        assert!(owner.batch_execute(place).await.is_err(), "{place}");
    }
    let caught = async || -> bool {
        let sql = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_sequences WHERE sequencename OPERATOR(pg_catalog.=) 'caught'::name
                     AND last_value IS NOT NULL";
        database.admin().await.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
    };

    // Whatever becomes of it: the owner has broken its own tables.
    let mut sources = vec![secret()];
    if place.login != Login::Plain {
        sources.push(SecretSource::InDatabase);
    }
    for source in sources {
        let preparation = preparation(&login, source.clone());
        let _ = preparation.make().await;
        let owner = preparation.owner_session().await;
        if let Ok(owner) = &owner {
            let user = owner.query_one("SELECT session_user::text", &[]).await.unwrap();
            assert_eq!(user.get::<_, String>(0), names.owner());
            let _ = migrate::applied(owner).await;
        }
        let session = preparation.session().await.unwrap();
        assert!(dump::is_used(&session).await.unwrap());
        dump::may_replace(&session).await.unwrap();
        let _ = preparation.owner_login().await;
    }
    if place.login == Login::Plain {
        let known = cardinal_base::config::Secret::new(super::database::SECRET);
        let script = prepare::bootstrap_sql(&database.admin.dbname, &known).unwrap();
        database.admin().await.batch_execute(&script).await.unwrap();
    }
    assert!(!caught().await, "something of the owner's ran as another");
    // The traps are good.
    database.admin().await.batch_execute("SELECT * FROM public.core_migrations").await.unwrap();
    assert!(caught().await);
}

/// Beside hosts that start, with a secret that the owner alone can read.
#[tokio::test]
async fn commands_beside_hosts_that_start_disturb_nobody() {
    let login = empty_database().await;
    prepare::prepare(&login, SecretSource::InDatabase).await.unwrap();
    let racing = (0..4).flat_map(|_| {
        let (start, command) =
            (preparation(&login, SecretSource::InDatabase), preparation(&login, SecretSource::InDatabase));
        [
            tokio::spawn(async move { start.make().await.map(|_| ()) }),
            tokio::spawn(async move {
                for _ in 0..5 {
                    let owner = command.owner_session().await?;
                    prepare::secret_in(&owner).await?.unwrap();
                }
                Ok(())
            }),
        ]
    });
    for one in racing.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }
    // psql is handed a password that still holds when it connects.
    let psql = preparation(&login, SecretSource::InDatabase).owner_login().await.unwrap();
    connect::connect(&psql).await.unwrap();
    preparation(&login, SecretSource::InDatabase).make().await.unwrap();
    connect::connect(&psql).await.unwrap();
}

#[tokio::test]
async fn a_newer_database_is_refused_before_its_roles_are_touched() {
    for source in [secret(), SecretSource::InDatabase] {
        let login = empty_database().await;
        prepare::prepare(&login, source.clone()).await.unwrap();
        let admin = connect::connect(&login).await.unwrap();
        let core = RoleNames::new(&login.dbname).core();
        let newer = format!(
            "INSERT INTO public.core_migrations (version, name, checksum, core) VALUES (999, '0999_future', '', '7.0.0');
             ALTER ROLE {core} CONNECTION LIMIT 7"
        );
        admin.batch_execute(&newer).await.unwrap();
        assert!(prepare::prepare(&login, source).await.is_err());
        let limit = admin.query_one("SELECT rolconnlimit FROM pg_roles WHERE rolname = $1", &[&core]).await.unwrap();
        assert_eq!(limit.get::<_, i32>(0), 7);
    }
}

#[tokio::test]
async fn a_command_on_a_database_without_a_host_is_told_so() {
    let login = empty_database().await;
    for source in [secret(), SecretSource::InDatabase] {
        let refused = format!("{:#}", preparation(&login, source).owner_session().await.unwrap_err());
        assert!(refused.contains("no host has used it"), "{refused}");
    }
}
