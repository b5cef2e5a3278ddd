//! The crashes that are remembered, and the rule by which plugins are set aside for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::record::{ActivePlugin, Cause, Crash};
use cardinal_base::schema::DateTime;

/// A second crash of the same package within this time sets it aside.
const WINDOW: Duration = Duration::minutes(10);
/// A second unattributed crash within this time sets the one package aside that had code running, or calls under way,
/// at each of them. Where there are several such packages, or none, nobody is set aside.
const UNKNOWN_WINDOW: Duration = Duration::seconds(60);
/// The oldest are forgotten beyond.
const CRASHES: usize = 200;
const QUARANTINED: usize = 200;

/// What a host remembers, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashHistory {
    #[serde(default)]
    pub crashes: Vec<CrashEntry>,
    #[serde(default)]
    pub quarantined: Vec<QuarantinedPackage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashEntry {
    #[serde(flatten)]
    pub crash: Crash,
    /// An operator has released the plugin since: it counts no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgiven: bool,
}

/// A package that is not loaded until an operator releases it. Another package of the same plugin is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuarantinedPackage {
    pub plugin: String,
    pub version: String,
    pub sha256: String,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub since: OffsetDateTime,
    /// Nobody saw it do anything: it alone had code running, or calls under way, at each of several unattributed
    /// crashes.
    pub suspected: bool,
    /// The crash that did it.
    pub crash: Crash,
}

impl CrashHistory {
    /// Writes a crash down; gives the package that is set aside for it.
    pub fn add(&mut self, crash: Crash) -> Option<QuarantinedPackage> {
        let aside = match &crash.plugin {
            // The next worker would stand still for as long, and whatever serves with it.
            Some(culprit)
                if crash.cause == Cause::Hang
                    || self.has_crashed(&culprit.name, &culprit.sha256, crash.at - WINDOW) =>
            {
                Some((culprit.name.clone(), culprit.version.clone(), culprit.sha256.clone()))
            }
            None if crash.cause.is_fault() => self
                .suspect(&crash)
                .filter(|it| self.quarantine(&it.plugin, &it.sha256).is_none())
                .map(|it| (it.plugin.clone(), it.version.clone(), it.sha256.clone())),
            _ => None,
        };
        let suspected = crash.plugin.is_none();
        let aside = aside.map(|(plugin, version, sha256)| {
            let since = crash.at;
            QuarantinedPackage { plugin, version, sha256, since, suspected, crash: crash.clone() }
        });
        self.crashes.push(CrashEntry { crash, forgiven: false });
        self.quarantined.extend(aside.clone());
        let too_many = |length: usize, limit: usize| length.saturating_sub(limit);
        self.crashes.drain(..too_many(self.crashes.len(), CRASHES));
        self.quarantined.drain(..too_many(self.quarantined.len(), QUARANTINED));
        aside
    }

    fn counted(&self, since: OffsetDateTime) -> impl Iterator<Item = &Crash> {
        self.crashes.iter().filter(move |it| !it.forgiven && it.crash.at > since).map(|it| &it.crash)
    }

    fn has_crashed(&self, plugin: &str, sha256: &str, since: OffsetDateTime) -> bool {
        let mut culprits = self.counted(since).filter_map(|crash| crash.plugin.as_ref());
        culprits.any(|it| it.name == plugin && it.sha256 == sha256)
    }

    /// The only package that was at work at this crash and at every other unattributed one of late.
    fn suspect<'c>(&self, crash: &'c Crash) -> Option<&'c ActivePlugin> {
        // Whoever closed a descriptor may have returned by the time that it is missed.
        let says_who = |it: &Crash| it.cause != Cause::Descriptors;
        let late = self.counted(crash.at - UNKNOWN_WINDOW);
        let others: Vec<&Crash> = late.filter(|it| it.is_unattributed() && says_who(it)).collect();
        if others.is_empty() || !says_who(crash) {
            return None;
        }
        [Crash::seen_running, Crash::seen_calling].into_iter().find_map(|at_work| {
            let was_there = |it: &ActivePlugin, crash: &Crash| {
                at_work(crash).any(|other| (&other.plugin, &other.sha256) == (&it.plugin, &it.sha256))
            };
            let mut always = at_work(crash).filter(|it| others.iter().all(|other| was_there(it, other)));
            always.next().filter(|_| always.next().is_none())
        })
    }

    /// Crashes that no plugin is known to have caused, the last one first.
    pub fn unattributed(&self) -> impl Iterator<Item = &Crash> {
        self.crashes.iter().rev().map(|it| &it.crash).filter(|crash| crash.is_unattributed())
    }

    /// Why a package is not loaded.
    pub fn quarantine(&self, plugin: &str, sha256: &str) -> Option<&QuarantinedPackage> {
        self.quarantined.iter().rev().find(|it| it.plugin == plugin && it.sha256 == sha256)
    }

    /// The last crash of a plugin, whatever its package.
    pub fn find_last(&self, plugin: &str) -> Option<&Crash> {
        let mut crashes = self.crashes.iter().rev().map(|it| &it.crash);
        crashes.find(|crash| crash.plugin.as_ref().is_some_and(|culprit| culprit.name == plugin))
    }

    /// Lets a plugin back in, with a clean record; says whether it was set aside.
    pub fn release(&mut self, plugin: &str) -> bool {
        let before = self.quarantined.len();
        let suspected = self.quarantined.iter().any(|it| it.plugin == plugin && it.suspected);
        self.quarantined.retain(|it| it.plugin != plugin);
        for it in &mut self.crashes {
            match &it.crash.plugin {
                Some(culprit) => it.forgiven |= culprit.name == plugin,
                None => it.forgiven |= suspected,
            }
        }
        before != self.quarantined.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::record::{Cause, Culprit};

    fn crash(seconds: i64, plugin: Option<(&str, &str)>) -> Crash {
        let culprit = |(name, sha256): (&str, &str)| Culprit {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            sha256: sha256.to_owned(),
            handler: None,
            offset: None,
        };
        let under_way = |plugin: &str, calls| ActivePlugin {
            plugin: plugin.to_owned(),
            version: "1.0.0".to_owned(),
            sha256: "a".to_owned(),
            calls,
        };
        Crash {
            at: OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds),
            cause: Cause::Segfault,
            ended: String::new(),
            plugin: plugin.map(culprit),
            thread: None,
            in_flight: vec![under_way("busy", 3), under_way("quiet", 0)],
            running: vec![],
            uptime_ms: 0,
        }
    }

    fn aside(history: &mut CrashHistory, crash: Crash) -> Option<(String, bool)> {
        history.add(crash).map(|it| (it.plugin, it.suspected))
    }

    #[test]
    fn the_second_crash_in_ten_minutes_sets_a_package_aside() {
        let mut history = CrashHistory::default();
        assert_eq!(aside(&mut history, crash(0, Some(("p", "a")))), None);
        assert_eq!(aside(&mut history, crash(700, Some(("p", "a")))), None, "the first is too long ago");
        assert_eq!(aside(&mut history, crash(710, Some(("p", "b")))), None, "another package of it");
        assert_eq!(aside(&mut history, crash(720, Some(("q", "a")))), None, "another plugin");
        assert_eq!(aside(&mut history, crash(730, Some(("p", "a")))), Some(("p".to_owned(), false)));
        assert!(history.quarantine("p", "a").is_some() && history.quarantine("p", "b").is_none());
        assert!(history.release("p") && !history.release("p"));
        assert_eq!(aside(&mut history, crash(740, Some(("p", "a")))), None, "released with a clean record");
        assert!(aside(&mut history, crash(750, Some(("p", "a")))).is_some());
    }

    #[test]
    fn a_library_that_does_not_finish_opening_sets_its_package_aside_at_once() {
        let mut history = CrashHistory::default();
        let hang = Crash { cause: Cause::Hang, ..crash(0, Some(("p", "a"))) };
        assert_eq!(aside(&mut history, hang), Some(("p".to_owned(), false)));
    }

    fn at_work(second: i64, calling: &[&str], running: &[&str]) -> Crash {
        let named = |names: &[&str], calls| {
            let one =
                |name: &&str| ActivePlugin { plugin: (*name).to_owned(), calls, ..crash(0, None).in_flight[0].clone() };
            names.iter().map(one).collect::<Vec<_>>()
        };
        let idle = named(&["idle"], 0);
        let in_flight = [named(calling, 2), idle].concat();
        Crash { in_flight, running: named(running, 1), ..crash(second, None) }
    }

    #[test]
    fn one_alone_that_was_at_work_at_each_unattributed_crash_is_suspected() {
        let mut history = CrashHistory::default();
        assert_eq!(aside(&mut history, crash(0, None)), None);
        assert_eq!(aside(&mut history, crash(90, None)), None, "the first is too long ago");
        assert_eq!(aside(&mut history, crash(100, None)), Some(("busy".to_owned(), true)));
        assert_eq!(aside(&mut history, crash(110, None)), None, "who had no calls is not next");
        assert!(history.release("busy"));
        assert_eq!(aside(&mut history, crash(130, None)), None, "that it was released wipes the slate");
    }

    #[test]
    fn without_evidence_against_one_alone_nobody_is_set_aside() {
        let mut history = CrashHistory::default();
        for second in 0..5 {
            assert_eq!(aside(&mut history, at_work(second, &[], &[])), None, "nobody had calls");
        }
        let mut history = CrashHistory::default();
        for second in 0..5 {
            assert_eq!(aside(&mut history, at_work(second, &["one", "other"], &[])), None, "two had calls");
        }
        assert_eq!(history.unattributed().count(), 5);
        let mut history = CrashHistory::default();
        assert_eq!(aside(&mut history, at_work(0, &["one"], &[])), None);
        assert_eq!(aside(&mut history, at_work(1, &["other"], &[])), None, "another one each time");
        let mut history = CrashHistory::default();
        assert_eq!(aside(&mut history, at_work(0, &["one", "other"], &["other"])), None);
        let found = aside(&mut history, at_work(1, &["one", "other"], &["one", "other"]));
        assert_eq!(found, Some(("other".to_owned(), true)), "its code ran each time");
    }

    #[test]
    fn a_standstill_counts_what_ran_and_a_stopped_worker_nothing() {
        let still = |second, cause, running: &[&str]| Crash { cause, ..at_work(second, &["busy"], running) };
        let mut history = CrashHistory::default();
        for second in 0..3 {
            assert_eq!(aside(&mut history, still(second, Cause::Hang, &[])), None, "calls alone stop nobody");
            assert_eq!(aside(&mut history, still(second, Cause::Stopped, &["busy"])), None);
            assert_eq!(
                aside(&mut history, still(second, Cause::Descriptors, &["busy"])),
                None,
                "its doer may have returned"
            );
        }
        let mut history = CrashHistory::default();
        assert_eq!(aside(&mut history, still(0, Cause::Hang, &["busy"])), None);
        assert_eq!(aside(&mut history, still(1, Cause::Hang, &["busy"])), Some(("busy".to_owned(), true)));
    }

    #[test]
    fn a_kill_from_outside_is_nobodys() {
        let mut history = CrashHistory::default();
        for second in 0..5 {
            assert_eq!(aside(&mut history, Crash { cause: Cause::Killed, ..crash(second, None) }), None);
        }
        assert_eq!(history.crashes.len(), 5);
    }

    #[test]
    fn the_book_does_not_grow_for_ever_and_reads_as_written() {
        let mut history = CrashHistory::default();
        for second in 0..1_000 {
            history.add(crash(second, Some(("p", &second.to_string()))));
        }
        assert_eq!(history.crashes.len(), CRASHES);
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<CrashHistory>(&text).unwrap(), history);
    }
}
