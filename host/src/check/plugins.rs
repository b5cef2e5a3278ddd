//! What a host would make of each package in the plugins folder, and what would change by it.

use std::path::Path;

use semver::Version;
use sha2::{Digest as _, Sha256};

use super::{
    changes::{self, Before, PublicSurface},
    database,
};
use cardinal_base::config::Config;
use cardinal_package::{compat, state::State};
use cardinal_plugin_host::{
    registry::{PluginReport, preview::Preview},
    settings::{UnusedSetting, find_unused},
};
use cardinal_schema::isolation::PluginRecord;
use cardinal_serve::check::finding::Finding;

/// Every finding on plugins that needs no running host.
pub(super) fn check(
    plugins_dir: &Path,
    previews: &[Preview],
    seen: &database::DatabaseReport,
    core: Option<&Version>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if previews.is_empty() {
        let place = plugins_dir.display();
        found.push(Finding::ok(
            "plugins-none",
            "plugins",
            match plugins_dir.is_dir() {
                true => format!("There are no plugins in PLUGINS_DIR {place}."),
                false => format!("PLUGINS_DIR {place} does not exist; the host creates it when it starts."),
            },
        ));
    }
    for one in previews {
        found.push(verdict(&one.report));
        let name = &one.report.name;
        found.extend(one.report.warnings.iter().map(|warning| Finding::warning("plugin-warning", name, warning)));
        found.extend(core.and_then(|core| under(core, one)));
        if one.schema_sql.is_some() {
            found.extend(against_record(one, &seen.plugins));
        }
    }
    found.extend(orphans(previews, seen));
    found
}

fn verdict(report: &PluginReport) -> Finding {
    let (name, package) = (&report.name, &report.package);
    let version = report.version.as_deref().unwrap_or("of an unknown version");
    if let Some(refusal) = &report.refusal {
        let mut finding = Finding::error("plugin-refused", name, format!("{} (package {package})", refusal.reason));
        (finding.found, finding.expected) = (refusal.found.clone(), refusal.expected.clone());
        return finding.cause(refusal.code.as_str()).fix(&refusal.fix);
    }
    let reason = || report.reason.clone().unwrap_or_default();
    match report.state {
        State::Quarantined => Finding::error("plugin-quarantined", name, reason())
            .fix(format!("Install another version, or release it: cardinal plugin release {name}")),
        State::Failed => Finding::error("plugin-failed", name, reason()).fix("See the log, then run the check again."),
        State::Disabled => {
            Finding::ok("plugin-disabled", name, format!("{name} {version} is disabled and would stay disabled."))
        }
        _ => Finding::ok("plugin-good", name, format!("{name} {version} (package {package}) would be loaded.")),
    }
}

/// Whether another core would take the plugin.
fn under(core: &Version, one: &Preview) -> Option<Finding> {
    let (name, manifest) = (&one.report.name, one.manifest.as_ref()?);
    Some(match compat::check_engine(&manifest.engine, core, &compat::api_version()) {
        Ok(()) => Finding::ok("core-version-fits", name, format!("{name} {} supports core {core}.", manifest.version)),
        Err(refusal) => {
            let message = format!("{name} {} would be refused by core {core}.", manifest.version);
            let mut finding = Finding::error("core-version-breaks", name, message).cause(refusal.code.as_str());
            (finding.found, finding.expected) = (refusal.found, refusal.expected);
            finding.fix(format!("Install a version of {name} that supports core {core} before the core is changed."))
        }
    })
}

/// What loading the package would do to the database: found by what was run there last.
fn against_record(one: &Preview, known: &[PluginRecord]) -> Option<Finding> {
    let (name, manifest) = (&one.report.name, one.manifest.as_ref()?);
    let sql = one.schema_sql.as_deref()?;
    let hash = Sha256::digest(sql.as_bytes());
    let recorded = known.iter().find(|known| known.plugin == *name);
    let before = recorded.and_then(|it| it.version.as_deref());
    match recorded.and_then(|it| it.schema_sha256.as_deref()) {
        Some(run) if run == hash.as_slice() => None,
        Some(_) => Some(
            Finding::warning(
                "plugin-schema-changes",
                name,
                format!("{name} {} would run another schema.sql.", manifest.version),
            )
            .found(format!(
                "schema.sql of {} bytes, not the one that {} has run",
                sql.len(),
                before.unwrap_or("the version before")
            ))
            .fix("Make a backup first; a change that loses data waits for an operator to confirm it."),
        ),
        None if sql.trim().is_empty() => None,
        None => Some(Finding::ok(
            "plugin-schema-new",
            name,
            format!("{name} {} would run its schema.sql.", manifest.version),
        )),
    }
}

/// Settings whose plugin is not there.
pub(super) fn settings_of_none(config: &Config, previews: &[Preview]) -> Vec<Finding> {
    let there: Vec<&str> = previews.iter().map(|one| one.report.name.as_str()).collect();
    let to_finding = |it: UnusedSetting| {
        let fix = match it.guess {
            Some(meant) => format!("Did you mean {meant}?"),
            None => "Put the plugin back, or remove the setting.".to_owned(),
        };
        Finding::warning("setting-of-no-plugin", it.variable, it.message).fix(fix)
    };
    find_unused(&config.plugins.settings, &config.plugins.networks, &there).into_iter().map(to_finding).collect()
}

/// What cards and schemas hold of plugins that are not there any more.
fn orphans(previews: &[Preview], seen: &database::DatabaseReport) -> Vec<Finding> {
    let there = |name: &str| previews.iter().any(|one| one.report.name == name);
    let gone = seen.plugins.iter().filter(|known| !there(&known.plugin) && !known.tables.is_empty());
    let mut found: Vec<Finding> = gone
        .map(|known| {
            let name = &known.plugin;
            Finding::warning(
                "plugin-data-orphaned",
                name,
                format!("The database has tables of {name}, but there is no such plugin."),
            )
            .found(format!(
                "{} tables, made by version {}",
                known.tables.len(),
                known.version.as_deref().unwrap_or("unknown")
            ))
            .fix("Put the plugin back, or leave its data as it is: it does no harm.")
        })
        .collect();
    let provided = |kind: &str| {
        let mut manifests = previews.iter().filter_map(|one| one.manifest.as_ref());
        manifests.any(|manifest| manifest.provides_kinds.iter().any(|own| own == kind))
    };
    for stored in seen.kinds.iter().filter(|stored| !provided(&stored.kind)) {
        found.push(
            Finding::warning(
                "kind-orphaned",
                &stored.kind,
                format!("Cards hold data of the kind {}, which no plugin provides.", stored.kind),
            )
            .found(format!("{}{} cards", if stored.is_estimate { "about " } else { "" }, stored.cards))
            .fix("Put back the plugin that wrote it, or remove these sources."),
        );
    }
    found
}

/// What would change for clients if these packages took the place of what serves, or has served last.
pub(super) fn upgrades(previews: &[Preview], before: &[Before]) -> Vec<Finding> {
    let mut found = Vec::new();
    for one in previews.iter().filter(|one| one.schema_sql.is_some()) {
        let Some(manifest) = &one.manifest else { continue };
        let name = &one.report.name;
        let Some(before) = before.iter().find(|it| it.plugin == *name) else { continue };
        if before.sha256.as_deref() == one.report.sha256.as_deref() {
            continue;
        }
        let change = changes::between(&before.surface, &PublicSurface::from_manifest(manifest));
        let message = format!("{name} {} would replace {}.", manifest.version, before.version);
        found.push(if change.lost.is_empty() {
            Finding::ok("plugin-upgrade", name, message).found(change.describe())
        } else {
            Finding::warning("plugin-upgrade-loses", name, message)
                .found(change.describe())
                .fix("Make sure that nothing uses what would be removed.")
        });
    }
    found
}
