//! Plugins exchange data through the cards alone: one that reads a kind goes on without its writer, and finds
//! nothing new. That is no fault, and worth a word.

use super::PluginReport;
use cardinal_package::state::State;

/// Puts a word beside every plugin in service that reads a kind which none in service writes.
pub(super) fn warn(reports: &mut [PluginReport]) {
    for at in 0..reports.len() {
        let unmet = unmet_kinds(&reports[at], reports);
        reports[at].warnings.extend(unmet);
    }
}

fn unmet_kinds(reader: &PluginReport, all: &[PluginReport]) -> Vec<String> {
    if reader.state != State::Active {
        return Vec::new();
    }
    let unmet = reader.reads_kinds.iter().filter(|kind| !is_written(kind, all));
    unmet
        .map(|kind| format!("It reads the kind {kind}, which no plugin in service writes{}.", who_would(kind, all)))
        .collect()
}

/// What to say when `plugin` is not in service any more: the readers of a kind that it wrote and that no plugin writes
/// now.
pub fn readers_without(plugin: &str, all: &[PluginReport]) -> Vec<String> {
    let gone = all.iter().find(|report| report.name == plugin && report.state != State::Active);
    let kinds = gone.map(|report| &report.provides_kinds[..]).unwrap_or_default();
    let describe = |kind: &String| {
        let reads = |report: &&PluginReport| report.state == State::Active && report.reads_kinds.contains(kind);
        let readers: Vec<&str> = all.iter().filter(reads).map(|report| report.name.as_str()).collect();
        let is_unmet = !readers.is_empty() && !is_written(kind, all);
        is_unmet
            .then(|| format!("{} reads the kind {kind}, which no plugin in service writes now.", readers.join(", ")))
    };
    kinds.iter().filter_map(describe).collect()
}

fn is_written(kind: &str, all: &[PluginReport]) -> bool {
    all.iter().any(|report| report.state == State::Active && report.provides_kinds.iter().any(|it| it == kind))
}

fn who_would(kind: &str, all: &[PluginReport]) -> String {
    let would = |report: &&PluginReport| report.provides_kinds.iter().any(|it| it == kind);
    let names: Vec<&str> = all.iter().filter(would).map(|report| report.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!("; {} would, and is not in service", names.join(", ")) }
}
