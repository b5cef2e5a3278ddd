//! What a schema.sql may not leave behind, since it would run, or let others run, with rights that a plugin does not
//! have. Looked at in the same transaction, after everything that was put off has happened. `sql/README.md` tells each
//! attack.

use anyhow::Context as _;
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::{ProvisionFault, Step};

/// One kind of object that is refused. The query gives the names of offending ones; its parameters are the schema's
/// name, the schema role's and the run-time role's.
struct Rule {
    what: &'static str,
    why: &'static str,
    query: &'static str,
}

const RULES: [Rule; 8] = [
    Rule {
        what: "a SECURITY DEFINER function",
        why: "it would give the plugin the rights of its schema role at run time: leave SECURITY DEFINER out",
        query: "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.prosecdef
                AND (p.proowner = $2::text::regrole OR p.pronamespace = $1::text::regnamespace)
                AND $3::text IS NOT NULL",
    },
    Rule {
        what: "a trigger on a table that a card's deletion reaches through foreign keys",
        why: "it would run with the rights of whoever deletes the card: do that work in the plugin, or in a table \
              without such a key",
        query: "WITH RECURSIVE reached AS (
                  SELECT conrelid AS rel FROM pg_constraint
                  WHERE contype = 'f' AND confrelid = 'public.master_cards'::regclass
                  UNION
                  SELECT c.conrelid FROM pg_constraint c JOIN reached r ON c.confrelid = r.rel WHERE c.contype = 'f'
                )
                SELECT t.tgname::text || ' on ' || t.tgrelid::regclass::text
                FROM pg_trigger t JOIN reached r ON r.rel = t.tgrelid JOIN pg_class c ON c.oid = t.tgrelid
                WHERE NOT t.tgisinternal AND c.relnamespace = $1::text::regnamespace
                AND $2::text IS NOT NULL AND $3::text IS NOT NULL",
    },
    Rule {
        what: "a rule",
        why: "it rewrites other people's statements: use a trigger or do it in the plugin",
        query: "SELECT r.rulename::text || ' on ' || r.ev_class::regclass::text
                FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
                WHERE r.rulename <> '_RETURN'
                AND (c.relowner = $2::text::regrole OR c.relnamespace = $1::text::regnamespace)
                AND $3::text IS NOT NULL",
    },
    Rule {
        what: "an event trigger",
        why: "it would run in everybody's DDL",
        query: "SELECT e.evtname::text FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid
                WHERE e.evtowner = $2::text::regrole OR p.pronamespace = $1::text::regnamespace
                AND $3::text IS NOT NULL",
    },
    Rule {
        what: "an object outside of the plugin's schema",
        why: "a plugin owns nothing but what is in its schema",
        query: "SELECT i.type || ' ' || i.identity
                FROM pg_shdepend d
                CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, d.objsubid) i
                WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = $2::text::regrole AND d.deptype = 'o'
                AND d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
                -- The defaults that the host itself sets; their content has a rule of its own.
                AND d.classid <> 'pg_default_acl'::regclass
                AND i.schema IS DISTINCT FROM $1::text AND $3::text IS NOT NULL",
    },
    Rule {
        what: "an object of somebody else's in the plugin's schema",
        why: "everything in the schema belongs to its schema role",
        query: "SELECT c.oid::regclass::text FROM pg_class c
                WHERE c.relnamespace = $1::text::regnamespace AND c.relowner <> $2::text::regrole
                UNION ALL
                SELECT p.oid::regprocedure::text FROM pg_proc p
                WHERE p.pronamespace = $1::text::regnamespace AND p.proowner <> $2::text::regrole
                AND $3::text IS NOT NULL",
    },
    Rule {
        what: "a right given to somebody else, or more than SELECT, INSERT, UPDATE and DELETE to the plugin itself",
        why: "take the GRANT out: the host grants the plugin what it needs",
        query: "WITH given AS (
                  SELECT c.oid::regclass::text AS what, c.relowner AS owner, a.*, true AS data
                  FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
                  WHERE c.relnamespace = $1::text::regnamespace
                  UNION ALL
                  SELECT c.oid::regclass::text || '.' || t.attname, c.relowner, a.*, true
                  FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid CROSS JOIN LATERAL aclexplode(t.attacl) a
                  WHERE c.relnamespace = $1::text::regnamespace
                  UNION ALL
                  SELECT p.oid::regprocedure::text, p.proowner, a.*, false
                  FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
                  WHERE p.pronamespace = $1::text::regnamespace
                  UNION ALL
                  SELECT 'type ' || t.oid::regtype::text, t.typowner, a.*, false
                  FROM pg_type t CROSS JOIN LATERAL aclexplode(t.typacl) a
                  WHERE t.typnamespace = $1::text::regnamespace
                  UNION ALL
                  SELECT 'default privileges', d.defaclrole, a.*, d.defaclobjtype IN ('r', 'S')
                  FROM pg_default_acl d CROSS JOIN LATERAL aclexplode(d.defaclacl) a
                  WHERE d.defaclrole = $2::text::regrole
                )
                SELECT g.privilege_type || ' on ' || g.what || ' to '
                       || CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(g.grantee)::text END
                FROM given g
                WHERE g.grantee <> g.owner
                -- Functions and types are everybody's by PostgreSQL's default; nobody else can reach the schema.
                AND NOT (NOT g.data AND g.grantee IN (0, $3::text::regrole) AND NOT g.is_grantable)
                AND NOT (g.data AND g.grantee = $3::text::regrole AND NOT g.is_grantable
                         AND g.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'USAGE'))",
    },
    Rule {
        what: "a member of the plugin's schema role",
        why: "take the GRANT out: nobody else acts as that role",
        // The provisioner is one from PostgreSQL 16 on, for having made the role; so is who made the provisioner.
        query: "SELECT pg_get_userbyid(m.member)::text FROM pg_auth_members m
                JOIN pg_roles r ON r.oid = m.member
                WHERE m.roleid = $2::text::regrole AND NOT r.rolcreaterole AND NOT r.rolsuper
                AND $1::text IS NOT NULL AND $3::text IS NOT NULL",
    },
];

/// The caller has set `search_path` to `pg_catalog`: no name here can mean anything of the plugin's.
pub(super) async fn refusal(work: &Transaction<'_>, step: &Step<'_>) -> anyhow::Result<Option<ProvisionFault>> {
    let schema = step.schema();
    let schema_role = crate::db::sql::identifier(&step.names.plugin_schema(step.plugin));
    let runtime_role = crate::db::sql::identifier(&step.names.plugin_runtime(step.plugin));
    let parameters: [&(dyn ToSql + Sync); 3] = [&schema, &schema_role, &runtime_role];
    for rule in &RULES {
        let rows = work.query(rule.query, &parameters).await.with_context(|| format!("looking for {}", rule.what))?;
        let names = rows.iter().map(|row| row.try_get::<_, String>(0)).collect::<Result<Vec<_>, _>>()?;
        if !names.is_empty() {
            return Ok(Some(ProvisionFault::refused(
                "schema-unsafe",
                format!("schema.sql to leave nothing like {}", rule.what),
                format!("{}: {}", rule.what, names.join(", ")),
                rule.why,
            )));
        }
    }
    Ok(None)
}
