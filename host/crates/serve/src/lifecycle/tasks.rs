//! The tasks of a worker that outlive a request.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{api, app::App, audit::AuditAction};
use cardinal_base::memory;
use cardinal_control::link::SupervisorLink;
use cardinal_database::log_failure;
use cardinal_identity::limit::budget_lease;
use cardinal_observe::{
    process,
    traffic::{SAMPLE_INTERVAL, Sample},
};
use cardinal_plugin_host::news;

/// About how many threads for blocking work what comes every few seconds keeps waiting.
const IDLE_THREADS: usize = 4;
/// How often the supervisor hears that tasks run.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the last use of keys is recorded; the contract allows a minute.
const FLUSH_INTERVAL: Duration = Duration::from_secs(10);
/// How often what other hosts know of logins is read.
const LEARN_PLACES_INTERVAL: Duration = Duration::from_secs(5);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// How often MCP sessions are looked through: what they hold for a minute is then gone soon after it.
const SWEEP_SESSIONS_INTERVAL: Duration = Duration::from_secs(15);
/// How often refusals are looked through whose minute is over.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(5);
/// How long what is new for the audit log waits for more: a transaction for each tool call costs more than the call.
const GATHER_AUDIT: Duration = Duration::from_millis(20);
/// How often what has outlived its retention is removed.
const CLEAN_INTERVAL: Duration = Duration::from_secs(3600);
/// How often open descriptors are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Starts them all.
pub(super) fn spawn_all(app: &Arc<App>, link: &SupervisorLink, stop: &CancellationToken) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(say_alive(link.clone()));
    tasks.spawn(memory::give_back());
    tasks.spawn(memory::settle(IDLE_THREADS));
    tasks.spawn(close_swollen(Arc::clone(app)));
    tasks.spawn(flush_uses(Arc::clone(app)));
    tasks.spawn(learn_places(Arc::clone(app)));
    let pools = app.pools.clone();
    tasks.spawn(async move { cardinal_database::heartbeat::keep(&pools).await });
    tasks.spawn(follow_rights(Arc::clone(app)));
    tasks.spawn(sweep(Arc::clone(app)));
    tasks.spawn(sweep_sessions(Arc::clone(app)));
    tasks.spawn(write_audit(Arc::clone(app)));
    tasks.spawn(clean(Arc::clone(app)));
    if let Some(oidc) = app.auth.oidc.clone() {
        // The start does not wait for it: a provider that is away takes only its own tokens with it.
        tasks.spawn(async move { oidc.keep_fresh().await });
    }
    tasks.spawn(revert_log_levels(Arc::clone(app)));
    tasks.spawn(report_dropped_lines(Arc::clone(app)));
    tasks.spawn(share_budgets(Arc::clone(app)));
    tasks.spawn(follow_proxy_routes(Arc::clone(app)));
    tasks.spawn(count_descriptors(Arc::clone(app)));
    tasks.spawn(sample_traffic(Arc::clone(app)));
    let events = Arc::clone(&app.events);
    tasks.spawn(async move { events.keep_up().await });
    let confirmations = Arc::clone(&app.confirmations);
    tasks.spawn(async move { confirmations.follow().await });
    spawn_for_plugins(&mut tasks, app, stop);
    tasks
}

fn spawn_for_plugins(tasks: &mut JoinSet<()>, app: &Arc<App>, stop: &CancellationToken) {
    let [folder, decisions, stuck, loads] = std::array::from_fn(|_| Arc::clone(&app.plugins));
    tasks.spawn(async move { folder.watch_folder().await });
    tasks.spawn(async move { decisions.follow_decisions().await });
    tasks.spawn(async move { stuck.relieve_stuck().await });
    tasks.spawn(async move { loads.finish_loads().await });
    tasks.spawn(roll_back_failures(Arc::clone(app)));
    tasks.spawn(void_replaced_questions(Arc::clone(app)));
    tasks.spawn(announce_plugins(Arc::clone(app), stop.clone()));
}

/// Tells the supervisor that tasks run. The thread that runs this one may be the last that is not blocked.
async fn say_alive(link: SupervisorLink) {
    let mut every = tokio::time::interval(ALIVE_INTERVAL);
    loop {
        every.tick().await;
        link.alive();
    }
}

async fn flush_uses(app: Arc<App>) {
    let mut every = tokio::time::interval(FLUSH_INTERVAL);
    loop {
        every.tick().await;
        if let Err(error) = app.auth.flush_uses().await {
            log_failure!(error, "failed to record when keys were last used; trying again later");
        }
    }
}

/// Forgets callers whose rights changed at another host.
async fn follow_rights(app: Arc<App>) {
    app.auth.follow_rights().await;
}

/// Learns where names have logged in at other hosts, and before this one began.
async fn learn_places(app: Arc<App>) {
    let mut every = tokio::time::interval(LEARN_PLACES_INTERVAL);
    let (mut after, mut before) = (Uuid::nil(), Uuid::nil());
    loop {
        every.tick().await;
        // From the look before the last on: hosts' clocks, of which the ids are made, differ a little.
        match app.auth.learn_places(before).await {
            Ok(last) => (before, after) = (after, last),
            Err(error) => tracing::debug!(?error, "failed to read where users have logged in on other hosts"),
        }
    }
}

async fn follow_proxy_routes(app: Arc<App>) {
    app.proxy_routes.follow(&app.pools.core, &app.proxy).await;
}

/// Notes packages that failed as canaries; the registry has put those before them back.
async fn roll_back_failures(app: Arc<App>) {
    let by = json!({"kind": "host", "id": app.host_id, "name": "error rate"});
    loop {
        let failed = app.plugins.failed_trial(&by).await;
        let detail = json!({"from": failed.from, "to": failed.to, "reason": failed.reason});
        app.audit
            .done_by(by.clone(), None, String::new(), AuditAction::RollBackPlugin, Some(failed.plugin), Some(detail))
            .await;
    }
}

async fn void_replaced_questions(app: Arc<App>) {
    app.confirmations.follow_swaps(&app.plugins).await;
}

async fn announce_plugins(app: Arc<App>, stop: CancellationToken) {
    news::publish(&app.plugins, &app.pools.core, app.host_id, &stop).await;
}

/// Closes connections whose buffers have grown; the memory that is freed goes back with the rest.
async fn close_swollen(app: Arc<App>) {
    let mut every = tokio::time::interval(memory::GIVE_BACK_INTERVAL);
    loop {
        every.tick().await;
        app.pools.core.close_swollen();
    }
}

async fn share_budgets(app: Arc<App>) {
    budget_lease::keep(&app.limits, &app.pools.core, app.host_id).await;
}

/// Refused attempts and tool calls reach the audit log beside the requests, which do not wait for it.
async fn write_audit(app: Arc<App>) {
    let mut every = tokio::time::interval(SUMMARY_INTERVAL);
    loop {
        tokio::select! {
            () = app.audit.until_added() => tokio::time::sleep(GATHER_AUDIT).await,
            _ = every.tick() => {}
        }
        app.audit.write_waiting(false).await;
    }
}

/// Removes what has outlived its retention. Hosts that share a database do it beside each other, which does no harm.
async fn clean(app: Arc<App>) {
    let mut every = tokio::time::interval(CLEAN_INTERVAL);
    let mut expiry = cardinal_store::cards::expiry::Expiry::default();
    loop {
        every.tick().await;
        match cardinal_store::audit::remove_old(&app.pools.reaper, app.config.cards.audit_retention_days).await {
            Ok(0) => {}
            Ok(lines) => tracing::info!(lines, "removed lines past their retention from the audit log"),
            Err(error) => log_failure!(error, "failed to remove old lines of the audit log"),
        }
        match app.jobs.forget_old().await {
            Ok(0) => {}
            Ok(jobs) => tracing::info!(jobs, "removed old jobs"),
            Err(error) => log_failure!(error, "failed to remove old jobs"),
        }
        remove_expired_cards(&app, &mut expiry).await;
        if let Err(error) = cardinal_store::sessions::forget_old(&app.pools.core).await {
            log_failure!(error, "failed to remove old sessions");
        }
    }
}

/// Removes for good the cards that were deleted longer ago than `CARD_RETENTION_DAYS`.
async fn remove_expired_cards(app: &App, expiry: &mut cardinal_store::cards::expiry::Expiry) {
    let before = app.clock.now() - time::Duration::days(app.config.cards.retention_days.into());
    match expiry.remove(&app.pools.reaper, before).await {
        Ok(removed) => {
            if removed.cards > 0 {
                tracing::info!(cards = removed.cards, "removed deleted cards that were past their retention");
            }
            if removed.slow > 0 {
                tracing::warn!(
                    cards = removed.slow,
                    "deleted cards stay until a later round, because their removal takes too long"
                );
            }
            for (plugin, cards) in removed.in_use {
                tracing::warn!(plugin, cards, "deleted cards stay, because the plugin's tables still refer to them");
            }
        }
        Err(error) => log_failure!(error, "failed to purge deleted cards"),
    }
}

async fn sweep_sessions(app: Arc<App>) {
    let mut every = tokio::time::interval(SWEEP_SESSIONS_INTERVAL);
    loop {
        every.tick().await;
        app.mcp.sweep();
    }
}

async fn sweep(app: Arc<App>) {
    let mut every = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        every.tick().await;
        app.limits.sweep();
        match app.events.forget_old().await {
            Ok(0) => {}
            Ok(forgotten) => tracing::debug!(forgotten, "removed old events"),
            Err(error) => log_failure!(error, "failed to remove old events"),
        }
        if let Err(error) = cardinal_store::identity_changes::sweep(&app.pools.core).await {
            log_failure!(error, "failed to remove old changes of rights");
        }
        if let Err(error) = cardinal_store::approvals::sweep(&app.pools.core).await {
            log_failure!(error, "failed to remove old approvals");
        }
        if let Err(error) = cardinal_store::login_failures::sweep(&app.pools.core).await {
            log_failure!(error, "failed to remove old records of failed logins");
        }
        if let Err(error) = cardinal_store::rate_budgets::sweep(&app.pools.core).await {
            log_failure!(error, "failed to remove unused rate budgets");
        }
    }
}

/// Keeps count of who opens files and sockets.
async fn count_descriptors(app: Arc<App>) {
    let mut every = tokio::time::interval(COUNT_INTERVAL);
    loop {
        every.tick().await;
        let Some((open, limit)) = process::descriptors() else { return };
        let pooled: u64 = api::system::pools(&app).iter().map(|pool| pool.size).sum();
        app.plugins.note_descriptors(open, limit, app.telemetry.connections.read() + pooled);
    }
}

/// Keeps what was counted when, for charts of the last hour.
async fn sample_traffic(app: Arc<App>) {
    let mut every = tokio::time::interval(SAMPLE_INTERVAL);
    loop {
        every.tick().await;
        app.telemetry.traffic.note(Sample::take(&app.telemetry.requests, app.clock.now()));
    }
}

/// Says that plugins have written more than they may.
async fn report_dropped_lines(app: Arc<App>) {
    app.log.tails().report_dropped().await;
}

/// Takes changed log levels back when their time has come.
async fn revert_log_levels(app: Arc<App>) {
    loop {
        let wait = app.log.revert_levels().map(|until| until - app.clock.now());
        let time_comes = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait.try_into().unwrap_or_default()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time_comes => {}
            () = app.log.level_changed() => {}
        }
    }
}
