//! The targets of log lines, by the names that operators choose levels with (`LOG_LEVEL`). Lines keep the module names
//! from before the split into crates (`cardinal::db::migrate`); the names of today's crates (`cardinal::store`,
//! `cardinal_store`) mean the same lines.

use crate::spelling::did_you_mean;

/// Longest name of a target.
const TARGET_LIMIT: usize = 100;

/// A crate of the host.
pub struct LogCrate {
    /// Without `cardinal_`.
    pub name: &'static str,
    /// What its lines have in its place.
    pub shown: &'static str,
    /// Its modules, with spaces between them.
    pub modules: &'static str,
}

pub const CRATES: [LogCrate; 13] = [
    LogCrate {
        name: "base",
        shown: "cardinal",
        modules: "account card_size causes clock codes coding config db_error exact hex hop_by_hop http_client \
                  input log_targets mac memory page password printable raw_answer request_id schema scope seal \
                  secret_file spelling strict",
    },
    LogCrate {
        name: "cards",
        shown: "cardinal::cards",
        modules: "card error fields file filter page patch row source",
    },
    LogCrate { name: "control", shown: "cardinal", modules: "crash link local_socket machine_memory sandbox" },
    LogCrate {
        name: "database",
        shown: "cardinal::db",
        modules: "bounded_rows connect heartbeat outage pool roles server sql",
    },
    LogCrate { name: "identity", shown: "cardinal", modules: "auth error limit" },
    LogCrate {
        name: "observe",
        shown: "cardinal::observe",
        modules: "exposition histogram log meter plugins process recent request_timing shard spans tools \
                  trace traffic",
    },
    LogCrate {
        name: "package",
        shown: "cardinal::plugin",
        modules: "compat cron kept manifest owners package preflight refusal signature stages state trust",
    },
    LogCrate {
        name: "plugin_host",
        shown: "cardinal::plugin",
        modules: "active agreement arguments breaker bridge connection context error exports fault \
                  frontend guard inspect instance job lane library listen news placement probe progress quarantine \
                  registry schema settings watchdog whole_numbers",
    },
    LogCrate {
        name: "schema",
        shown: "cardinal::db",
        modules: "dump host_database isolation keyed_tables migrate plugin_schema pooler prepare sealed_settings \
                  session_watch sql_failure",
    },
    LogCrate {
        name: "schema_sql",
        shown: "cardinal::schema_sql",
        modules: "actions calls cost error keys late_checks lexis mistakes names new_keys new_types operations overwrites \
                  print quadratic repeats syntax totals used_types work",
    },
    LogCrate {
        name: "serve",
        shown: "cardinal",
        modules: "api app audit audit_action call client_errors http jobs lifecycle mcp openapi pages \
                  pictures proxy request router server tls",
    },
    LogCrate {
        name: "store",
        shown: "cardinal::db",
        modules: "api_keys approvals audit card_bulk card_estimates card_expiry card_export card_history \
                  card_import card_list card_sources cards catalogue error event_log events \
                  identity_changes jobs kinds login_failures oidc_users old_rows plugin_jobs plugin_schedules plugin_confirmations \
                  plugin_owners plugin_service plugin_session plugin_state plugin_versions proxy_routes \
                  rate_budgets reaper service_users sessions users views",
    },
    LogCrate {
        name: "supervisor",
        shown: "cardinal::keeper",
        modules: "access announce backoff bind control_service crashes data_dir files first_password \
                  launch lines liveness local orphans output postgres process_stat provision provisioner \
                  serve server_memory starting temp_folder tls turns worker worker_account worker_log",
    },
];

/// The binary's own modules, and targets that are none.
const OTHERS: [&str; 7] = [
    "cardinal::access",
    "cardinal::backup",
    "cardinal::check",
    "cardinal::cli",
    "cardinal::provision",
    "postgres",
    "worker",
];
/// Old names of modules, and where their code went.
const MOVED: [(&str, &str); 3] = [
    ("cardinal::catalogue", "cardinal::db::catalogue"),
    ("cardinal::events", "cardinal::db::events"),
    ("cardinal::keeper::desk", "cardinal::keeper::crashes"),
];
/// Libraries that write lines.
const LIBRARIES: [&str; 10] = [
    "deadpool",
    "deadpool_postgres",
    "hyper",
    "hyper_util",
    "mio",
    "notify",
    "rmcp",
    "rustls",
    "tokio",
    "tokio_postgres",
];

/// The target that is meant, as levels are kept by; else why there is none.
///
/// # Errors
/// No line has this target, so a level for it would do nothing.
pub fn resolve(target: &str) -> Result<String, String> {
    if !is_module(target) {
        return Err(format!("{target:?} is not a log target. There are {}", known()));
    }
    let target = match target.strip_prefix("cardinal_") {
        Some(rest) => format!("cardinal::{rest}"),
        None => target.to_owned(),
    };
    let first = target.split("::").next().unwrap_or_default();
    if first == "plugin" || LIBRARIES.contains(&first) || target == "cardinal" {
        return Ok(target);
    }
    if let Some((old, new)) = MOVED.iter().find(|(old, _)| is_within(&target, old)) {
        return Ok(target.replacen(old, new, 1));
    }
    let names: Vec<String> = names().collect();
    // What stands deeper than a crate's own modules is not known here.
    if names.contains(&target) || names.iter().any(|name| is_deep(name) && is_within(&target, name)) {
        return Ok(target);
    }
    let guess = did_you_mean(&target, names.iter().map(String::as_str));
    Err(format!("{target:?} is not a log target.{guess} There are {}", known()))
}

fn known() -> String {
    let mut roots: Vec<String> =
        CRATES.iter().flat_map(|known| [known.shown.to_owned(), format!("cardinal::{}", known.name)]).collect();
    roots.sort();
    roots.dedup();
    format!("{}, the modules in them, plugin::NAME, worker, postgres and libraries such as hyper", roots.join(", "))
}

/// All names but those of libraries and plugins: of crates, and of their modules by either name.
fn names() -> impl Iterator<Item = String> {
    let of_crates = CRATES.iter().flat_map(|known| {
        let own = format!("cardinal::{}", known.name);
        let modules = known.modules.split(' ').flat_map({
            let own = own.clone();
            move |module| [format!("{own}::{module}"), format!("{}::{module}", known.shown)]
        });
        [own, known.shown.to_owned()].into_iter().chain(modules)
    });
    of_crates.chain(OTHERS.map(str::to_owned))
}

/// Whether modules that are not in the table may stand below this name: it is a module itself, and no crate.
fn is_deep(name: &str) -> bool {
    let is_crate = |known: &LogCrate| known.shown == name || name.strip_prefix("cardinal::") == Some(known.name);
    !CRATES.iter().any(is_crate)
}

/// Whether this can be the name of a module: `cardinal::db`, `plugin::price-watch`, `hyper`.
fn is_module(text: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    text.len() <= TARGET_LIMIT && text.split("::").all(is_name)
}

pub(crate) fn is_within(module: &str, outer: &str) -> bool {
    module.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn old_names_and_those_of_crates_are_taken() {
        for (target, meant) in [
            ("cardinal", "cardinal"),
            ("cardinal::access", "cardinal::access"),
            ("cardinal::db", "cardinal::db"),
            ("cardinal::db::outage", "cardinal::db::outage"),
            ("cardinal::db::plugin_schema::run", "cardinal::db::plugin_schema::run"),
            ("cardinal::mcp", "cardinal::mcp"),
            ("cardinal::store", "cardinal::store"),
            ("cardinal_store::jobs", "cardinal::store::jobs"),
            ("cardinal::supervisor", "cardinal::supervisor"),
            ("cardinal::keeper::desk", "cardinal::keeper::crashes"),
            ("cardinal::catalogue", "cardinal::db::catalogue"),
            ("plugin::price-watch", "plugin::price-watch"),
            ("hyper::client", "hyper::client"),
        ] {
            assert_eq!(resolve(target).as_deref(), Ok(meant));
        }
    }

    #[test]
    fn what_no_line_has_is_refused_with_what_there_is() {
        for (target, expected) in [
            ("cardinal::stoer", "Did you mean `cardinal::store`?"),
            ("cardinal::db::outtage", "Did you mean `cardinal::db::outage`?"),
            ("cardinall", "cardinal::keeper"),
            ("hyperr", "plugin::NAME"),
            ("a b", "cardinal::db"),
        ] {
            let refused = resolve(target).unwrap_err();
            assert!(refused.contains(expected), "{target}: {refused}");
        }
    }
}
