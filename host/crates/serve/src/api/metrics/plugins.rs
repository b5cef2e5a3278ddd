//! What the host counts of plugins, and what they count themselves.

use crate::app::App;
use cardinal_observe::{
    exposition::{Exposition, Kind},
    plugins::{Cause, Fault},
};
use cardinal_package::state::State;
use cardinal_plugin_host::{bridge::metrics, registry::Snapshot};

pub(super) fn all(page: &mut Exposition, app: &App) {
    let snapshot = app.plugins.snapshot();
    let states: Vec<State> = snapshot.states().collect();
    if page.family("cardinal_plugins", Kind::Gauge, "Plugins that were found, by state.") {
        for state in State::ALL {
            let count = states.iter().filter(|known| **known == state).count();
            page.sample("cardinal_plugins", &[("state", state.as_str())], count);
        }
    }
    let meters = app.telemetry.plugins.read();
    let name = "cardinal_plugin_call_duration_seconds";
    if page.family(name, Kind::Histogram, "Time in a plugin's calls, by route or tool, waits included.") {
        for (plugin, meter) in &meters {
            page.durations(name, &[("plugin", plugin)], &meter.calls.read());
        }
    }
    let name = "cardinal_plugin_faults_total";
    if page.family(name, Kind::Counter, "Calls of a plugin that failed, by kind of failure.") {
        for (plugin, meter) in &meters {
            for fault in Fault::ALL {
                page.sample(name, &[("plugin", plugin), ("kind", fault.name())], meter.faults(fault));
            }
        }
    }
    let name = "cardinal_plugin_fault_causes_total";
    if page.family(name, Kind::Counter, "Calls of a plugin that failed, by who is at fault.") {
        for (plugin, meter) in &meters {
            for cause in Cause::ALL {
                page.sample(name, &[("plugin", plugin), ("cause", cause.name())], meter.causes(cause));
            }
        }
    }
    guards(page, app, &snapshot);
    plugin_lines(page, app);
    let name = "cardinal_plugin_calls_in_flight";
    if page.family(name, Kind::Gauge, "Calls and reply streams of a plugin that are under way.") {
        for active in snapshot.active() {
            page.sample(name, &[("plugin", &active.manifest.name)], active.instance.in_flight());
        }
    }
    let name = "cardinal_plugin_notifications_dropped_total";
    if page.family(name, Kind::Counter, "Notifications that a plugin was too slow to take.") {
        for active in snapshot.active() {
            page.sample(name, &[("plugin", &active.manifest.name)], active.instance.notifications_dropped());
        }
    }
    memory(page, &snapshot);
    descriptors(page, app, &snapshot);
    let name = "cardinal_plugin_instances_resident";
    let help = "Plugin instances in memory, those included that were replaced and can't be freed.";
    page.single(name, Kind::Gauge, help, cardinal_plugin_host::library::raw_instance::resident());
}

/// What stands between plugins and the core: where calls run, and which plugins get none.
fn guards(page: &mut Exposition, app: &App, snapshot: &Snapshot) {
    let name = "cardinal_plugin_threads_blocked";
    if page.family(name, Kind::Gauge, "Threads that a plugin has not returned in time.") {
        for (place, count) in ["core", "lane"].into_iter().zip(app.plugins.watchdog().blocked()) {
            page.sample(name, &[("place", place)], count);
        }
    }
    let placed: Vec<_> = snapshot
        .active()
        .filter_map(|active| Some((active.manifest.name.as_str(), active.instance.placement()?)))
        .collect();
    let name = "cardinal_plugin_blocks_total";
    if page.family(name, Kind::Counter, "Times that a plugin kept a thread for 50 ms or longer.") {
        for (plugin, placed) in &placed {
            for (place, count) in [("core", placed.blocked_core), ("lane", placed.blocked_lane)] {
                page.sample(name, &[("plugin", plugin), ("place", place)], count);
            }
        }
    }
    let name = "cardinal_plugin_lane_threads";
    if page.family(name, Kind::Gauge, "Threads that a plugin has of its own.") {
        for (plugin, placed) in &placed {
            page.sample(name, &[("plugin", plugin)], placed.lane_threads);
        }
    }
    let name = "cardinal_plugin_breaker_open";
    if page.family(name, Kind::Gauge, "1 while a plugin receives no calls because too many failed.") {
        for active in snapshot.active() {
            let open = active.guard.breaker.report().state != "closed";
            page.sample(name, &[("plugin", &active.manifest.name)], u64::from(open));
        }
    }
}

/// What plugins have to say, in the log and in browsers.
fn plugin_lines(page: &mut Exposition, app: &App) {
    let tails = app.log.tails().read();
    let name = "cardinal_plugin_log_lines_total";
    if page.family(name, Kind::Counter, "Lines that a plugin has written.") {
        for (plugin, tail) in &tails {
            page.sample(name, &[("plugin", plugin)], tail.counts().0);
        }
    }
    let name = "cardinal_plugin_log_lines_dropped_total";
    if page.family(name, Kind::Counter, "Lines of a plugin that were dropped: more than it may write in a second.") {
        for (plugin, tail) in &tails {
            page.sample(name, &[("plugin", plugin)], tail.counts().1);
        }
    }
    let meters = app.telemetry.plugins.read();
    let name = "cardinal_plugin_client_errors_total";
    if page.family(name, Kind::Counter, "Failures of a plugin's frontend that browsers have reported.") {
        for (plugin, meter) in &meters {
            page.sample(name, &[("plugin", plugin)], meter.client_errors.read());
        }
    }
    let name = "cardinal_plugin_client_hangs_total";
    if page.family(name, Kind::Counter, "Reports of a plugin's frontend that held up its page for seconds.") {
        for (plugin, meter) in &meters {
            page.sample(name, &[("plugin", plugin)], meter.client_hangs.read());
        }
    }
}

/// Open files and sockets of plugins, as far as it is known whose they are.
fn descriptors(page: &mut Exposition, app: &App, snapshot: &Snapshot) {
    let name = "cardinal_plugin_descriptors";
    if page.family(name, Kind::Gauge, "Descriptors that a plugin alone can have opened.") {
        for active in snapshot.active() {
            let plugin = &active.manifest.name;
            page.sample(name, &[("plugin", plugin)], app.plugins.open_descriptors(plugin));
        }
    }
    let help = "Descriptors that neither the host nor a plugin that is known has opened.";
    page.single("cardinal_unattributed_descriptors", Kind::Gauge, help, app.plugins.unattributed_descriptors());
}

/// What plugins hold. A library that doesn't count has no sample.
fn memory(page: &mut Exposition, snapshot: &Snapshot) {
    let name = "cardinal_plugin_memory_bytes";
    if page.family(name, Kind::Gauge, "Memory that a plugin's code holds, by its own allocator's count.") {
        for active in snapshot.active() {
            if let Some(memory) = active.instance.library().memory() {
                page.sample(name, &[("plugin", &active.manifest.name)], memory.held());
            }
        }
    }
    let name = "cardinal_plugin_memory_allocated_bytes_total";
    if page.family(name, Kind::Counter, "Memory that a plugin's code has asked for since it was loaded.") {
        for active in snapshot.active() {
            if let Some(memory) = active.instance.library().memory() {
                page.sample(name, &[("plugin", &active.manifest.name)], memory.allocated);
            }
        }
    }
    let name = "cardinal_plugin_library_bytes";
    if page.family(name, Kind::Gauge, "Addresses that a plugin's library takes by itself.") {
        for active in snapshot.active() {
            page.sample(name, &[("plugin", &active.manifest.name)], active.instance.library().place().len());
        }
    }
}

/// Requests of plugins to other servers, through the host.
pub(super) fn http(page: &mut Exposition, app: &App) {
    let snapshot = app.plugins.snapshot();
    let exchanges = || snapshot.active().map(|active| (active.manifest.name.as_str(), active.instance.http()));
    let name = "cardinal_plugin_http_requests_total";
    if page.family(name, Kind::Counter, "Requests of a plugin to other servers, by how they ended.") {
        for (plugin, http) in exchanges() {
            for (outcome, count) in http.counters.outcomes() {
                page.sample(name, &[("plugin", plugin), ("outcome", outcome)], count);
            }
        }
    }
    let name = "cardinal_plugin_http_connections_total";
    if page.family(name, Kind::Counter, "Connections that a plugin's requests were answered on.") {
        for (plugin, http) in exchanges() {
            for (source, count) in http.counters.connections() {
                page.sample(name, &[("plugin", plugin), ("source", source)], count);
            }
        }
    }
    let name = "cardinal_plugin_http_requests_in_flight";
    if page.family(name, Kind::Gauge, "Requests of a plugin to other servers that are under way.") {
        for (plugin, http) in exchanges() {
            page.sample(name, &[("plugin", plugin)], http.in_flight() as u64);
        }
    }
}

/// What plugins count themselves, under their own names: `plugin_<plugin>_<metric>`.
pub(super) fn own(page: &mut Exposition, app: &App) {
    let mut dropped = Vec::new();
    for active in app.plugins.snapshot().active() {
        let plugin = active.manifest.name.as_str();
        let mut lost = active.instance.metrics().dropped();
        for (name, series) in metrics::by_name(active.instance.metrics().snapshot()) {
            if !write_family(page, plugin, &name, &series) {
                lost += 1;
            }
        }
        dropped.push((plugin.to_owned(), lost));
    }
    let name = "cardinal_plugin_metrics_dropped_total";
    if page.family(name, Kind::Counter, "Changes of a plugin's own metrics that were over a limit or made no sense.") {
        for (plugin, lost) in &dropped {
            page.sample(name, &[("plugin", plugin)], *lost);
        }
    }
}

/// `false` when another metric of the plugin has taken the name.
fn write_family(page: &mut Exposition, plugin: &str, name: &str, series: &[(metrics::Labels, metrics::Value)]) -> bool {
    let Some((_, first)) = series.first() else { return true };
    let mut full = format!("plugin_{}_{name}", plugin.replace('-', "_"));
    let kind = match first {
        metrics::Value::Counter(_) => Kind::Counter,
        metrics::Value::Gauge(_) => Kind::Gauge,
        metrics::Value::Histogram { .. } => Kind::Histogram,
    };
    if kind == Kind::Counter && !full.ends_with("_total") {
        full.push_str("_total");
    }
    if !page.family(&full, kind, &format!("Of the plugin {plugin}.")) {
        return false;
    }
    for (labels, value) in series {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        match value {
            metrics::Value::Counter(value) | metrics::Value::Gauge(value) => page.sample(&full, &labels, *value),
            metrics::Value::Histogram { buckets, sum, .. } => {
                page.buckets(&full, &labels, metrics::BUCKETS.into_iter(), *buckets, *sum);
            }
        }
    }
    true
}
