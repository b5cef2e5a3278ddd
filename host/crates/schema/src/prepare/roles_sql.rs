//! `sql/roles.sql` with its places filled in: for a session that may make roles, and as a script for an administrator.

use super::unsupported;
use cardinal_base::config::Secret;
use cardinal_database::{
    roles::{RoleNames, RolePasswords},
    sql,
};

const ROLES_SQL: &str = include_str!("../../../../../sql/roles.sql");

/// Which roles get their password.
#[derive(Clone, Copy)]
pub(super) enum Passwords<'a> {
    All(&'a RolePasswords),
    /// The others keep what they have: hosts at work log in with it.
    Owner(&'a RolePasswords),
}

/// `sql/roles.sql` for this database.
pub(super) fn filled(dbname: &str, names: &RoleNames, passwords: Passwords<'_>) -> anyhow::Result<String> {
    let mut places = names_only(names);
    places.push(("database", sql::identifier(dbname)));
    places.push(("role_prefix", sql::literal(names.prefix())));
    let (owner, others) = match passwords {
        Passwords::All(passwords) => (passwords, Some(passwords)),
        Passwords::Owner(passwords) => (passwords, None),
    };
    places.push(("owner_password", password(owner, &names.owner())));
    for (place, role) in [
        ("core_password", names.core()),
        ("reaper_password", names.reaper()),
        ("provision_password", names.provision()),
    ] {
        places.push((place, others.map_or_else(String::new, |passwords| password(passwords, &role))));
    }
    sql::fill(ROLES_SQL, &places)
}

/// As a SCRAM verifier: a server may write statements to its log.
pub(super) fn password(passwords: &RolePasswords, role: &str) -> String {
    format!("PASSWORD {}", sql::literal(&passwords.verifier(role)))
}

/// For templates that set no password.
pub(super) fn names_only(names: &RoleNames) -> Vec<(&'static str, String)> {
    let mut places: Vec<(&'static str, String)> = [
        ("owner", names.owner()),
        ("cards", names.cards()),
        ("core", names.core()),
        ("reaper", names.reaper()),
        ("provision", names.provision()),
        ("role_maker", names.role_maker()),
        ("plugin", names.plugin()),
        ("plugin_ddl", names.plugin_ddl()),
    ]
    .map(|(place, name)| (place, sql::identifier(&name)))
    .into();
    places.push(("owner_literal", sql::literal(&names.owner())));
    places.push(("cards_literal", sql::literal(&names.cards())));
    places.push(("role_maker_literal", sql::literal(&names.role_maker())));
    places.push(("plugin_literal", sql::literal(&names.plugin())));
    places.push(("plugin_ddl_literal", sql::literal(&names.plugin_ddl())));
    places
}

/// What an administrator runs once, so that a host without rights of its own finds its roles made: one transaction of
/// plain SQL, for psql and any other client. Passwords are in it as SCRAM verifiers only.
///
/// # Errors
/// `sql/roles.sql` and this program are out of step.
pub fn bootstrap_sql(dbname: &str, secret: &Secret) -> anyhow::Result<String> {
    let names = RoleNames::new(dbname);
    let passwords = RolePasswords::from_secret(secret.clone());
    let roles_sql = filled(dbname, &names, Passwords::All(&passwords))?;
    let (name, text) = (sql::identifier(dbname), sql::literal(dbname));
    Ok(format!(
        "-- The roles of Cardinal {version} for the database {name}, to be run once by an administrator who is connected\n\
         -- to that database: a superuser, or who may create roles and owns it. Running it again does no harm.\n\
         -- Plugins that are added later need nothing more.\n\
         BEGIN;\n\
         SET LOCAL search_path = pg_catalog, pg_temp;\n\
         DO $$ BEGIN\n  \
           IF current_database() <> {text} THEN\n    \
             RAISE EXCEPTION 'this is for the database %, and you are connected to %: connect to the first', {text}, current_database();\n  \
           END IF;\n  \
           IF current_setting('server_version_num')::int < {oldest} THEN\n    \
             RAISE EXCEPTION 'Cardinal needs PostgreSQL {oldest_major} or newer, this is %', current_setting('server_version');\n  \
           END IF;\n\
         END $$;\n\n{roles_sql}\nCOMMIT;\n",
        version = env!("CARGO_PKG_VERSION"),
        oldest = unsupported::MIN_SERVER_VERSION,
        oldest_major = unsupported::MIN_SERVER_VERSION / 10_000,
    ))
}
