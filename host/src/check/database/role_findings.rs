//! What the roles of the database were let do, as findings.

use cardinal_schema::isolation::{RoleReport, Violation};
use cardinal_serve::check::finding::Finding;

/// At most so many of the operations that a role was allowed are listed.
const MAX_LISTED: usize = 5;

pub(super) fn report_attempts(tried: &[RoleReport]) -> Vec<Finding> {
    let mut found: Vec<Finding> = tried.iter().flat_map(findings_for_role).collect();
    if found.is_empty() {
        let refused: usize = tried.iter().map(|it| it.refused).sum();
        let message =
            format!("PostgreSQL refused all {refused} forbidden operations that were tried as {} roles.", tried.len());
        found.push(Finding::ok("isolation-holds", "roles", message));
    }
    found
}

fn findings_for_role(tried: &RoleReport) -> Vec<Finding> {
    let mut found = Vec::new();
    for (violation, _) in &tried.allowed {
        let code = code(*violation);
        if found.iter().any(|finding: &Finding| finding.code == code) {
            continue;
        }
        let acts: Vec<&str> = tried.allowed.iter().filter(|it| it.0 == *violation).map(|it| it.1.as_str()).collect();
        let more = acts.len().saturating_sub(MAX_LISTED);
        let listed = acts[..acts.len().min(MAX_LISTED)].join(", ");
        let found_text = if more > 0 {
            format!("{listed} and {more} more were let through")
        } else {
            format!("{listed}: let through")
        };
        found.push(
            Finding::error(code, &tried.role, "A database role can do something that it must not.")
                .found(found_text)
                .expected("refused by PostgreSQL (insufficient privilege)")
                .fix(fix(*violation)),
        );
    }
    if let Some(first) = tried.untried.first() {
        let finding = Finding::warning(
            "isolation-not-tried",
            &tried.role,
            "Some operations could not be tried as this \
            role.",
        );
        let more = tried.untried.len() - 1;
        let found_text = if more > 0 { format!("{first}, and {more} more") } else { first.clone() };
        found.push(finding.found(found_text).fix(
            "Run the check again; each start of the host repairs roles and their \
                passwords.",
        ));
    }
    found
}

fn code(violation: Violation) -> &'static str {
    match violation {
        Violation::PluginWritesCards => "plugin-writes-cards",
        Violation::PluginReadsCore => "plugin-reads-core",
        Violation::PluginReadsPlugin => "plugin-reads-plugin",
        Violation::PluginRunsDdl => "plugin-runs-ddl",
        Violation::PluginBecomesAnother => "plugin-becomes-another",
        Violation::CoreReadsPlugin => "core-reads-plugin",
        Violation::CoreDeletesCards => "core-deletes-cards",
        Violation::CoreRewritesAudit => "core-rewrites-audit",
        Violation::CoreRunsDdl => "core-runs-ddl",
        Violation::CoreBecomesAnother => "core-becomes-another",
        Violation::ReaperDoesMore => "reaper-does-more",
        Violation::ProvisionerDoesMore => "provisioner-does-more",
        Violation::CardsRoleDoesMore => "cards-role-does-more",
        Violation::SchemaRoleIsOpen => "schema-role-open",
    }
}

/// What of it a start puts right, and what was given by hand and has to be taken by hand.
fn fix(violation: Violation) -> &'static str {
    match violation {
        Violation::PluginReadsPlugin | Violation::CoreReadsPlugin | Violation::ProvisionerDoesMore => {
            "Someone granted rights in a plugin's schema. Revoke them as an administrator (psql as a superuser): \
             REVOKE ALL ON ALL TABLES IN SCHEMA <schema> FROM <role>, PUBLIC; REVOKE ALL ON SCHEMA <schema> FROM \
             <role>, PUBLIC."
        }
        Violation::PluginBecomesAnother | Violation::CoreBecomesAnother => {
            "Someone made the role a member of another, or a superuser. Revoke it: REVOKE <other> FROM <role>; ALTER \
             ROLE <role> NOSUPERUSER."
        }
        Violation::SchemaRoleIsOpen => {
            "If no schema step of the plugin is running, start a host: it closes schema roles that were left open."
        }
        _ => {
            "Restart the host, which repairs the rights on the core's tables. Rights that remain were granted by an \
             administrator (to the role, or by SUPERUSER) and have to be revoked."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_gets_through_is_told_once_for_each_kind_of_breach() {
        let allowed = vec![
            (Violation::PluginReadsPlugin, "read plugin_a.x".to_owned()),
            (Violation::PluginReadsPlugin, "read plugin_a.y".to_owned()),
            (Violation::PluginWritesCards, "change cards".to_owned()),
        ];
        let tried = RoleReport { role: "p_b".to_owned(), refused: 3, allowed, untried: vec!["x: y".to_owned()] };
        let found = report_attempts(&[tried]);
        let codes: Vec<&str> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["plugin-reads-plugin", "plugin-writes-cards", "isolation-not-tried"]);
        assert_eq!(found[0].found.as_deref(), Some("read plugin_a.x, read plugin_a.y: let through"));
    }

    #[test]
    fn what_holds_is_told_with_how_much_was_tried() {
        let tried = RoleReport { role: "core".to_owned(), refused: 7, ..RoleReport::default() };
        let found = report_attempts(&[tried]);
        assert_eq!(found[0].code, "isolation-holds");
        assert!(
            found[0].message.contains("all 7 forbidden operations that were tried as 1 roles"),
            "{}",
            found[0].message
        );
    }
}
