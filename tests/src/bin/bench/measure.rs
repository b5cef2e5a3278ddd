//! Runs wrk against a subject and its baseline in turns.

use std::process::Command;
use std::time::Duration;

use crate::Options;
use crate::subjects::{Subject, Target};
use crate::usage;

const CONNECTIONS: &str = "32";
pub(crate) const WARM_UP_SECONDS: u64 = 1;

/// One run of wrk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub per_second: f64,
    /// CPU time of the server's own process for one request.
    pub cpu: Duration,
    pub p50: Duration,
    pub p99: Duration,
}

/// A subject with all its rounds, and those of its baseline.
pub(crate) struct Measured {
    pub name: &'static str,
    pub baseline: &'static str,
    pub subject: Vec<Round>,
    pub against: Vec<Round>,
}

pub(crate) fn all(subjects: &[Subject], options: &Options) -> Vec<Measured> {
    subjects.iter().filter(|subject| options.wants(subject.name)).map(|subject| one(subject, options)).collect()
}

pub(crate) fn one(subject: &Subject, options: &Options) -> Measured {
    eprintln!("    {}", subject.name);
    run(&subject.target, WARM_UP_SECONDS);
    run(&subject.baseline, WARM_UP_SECONDS);
    let mut measured = Measured {
        name: subject.name,
        baseline: subject.baseline_name,
        subject: Vec::with_capacity(options.rounds),
        against: Vec::with_capacity(options.rounds),
    };
    for _ in 0..options.rounds {
        measured.against.push(run(&subject.baseline, options.seconds));
        measured.subject.push(run(&subject.target, options.seconds));
    }
    measured
}

/// One thread: client and server share the machine, and a second one would only take from the server.
pub(crate) fn run(target: &Target, seconds: u64) -> Round {
    let before = usage::cpu_time(target.pid);
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", "-c", CONNECTIONS, "-d", &format!("{seconds}s"), "--latency", "-s"]).arg(&target.script);
    let output = wrk.arg(&target.url).output().expect("wrk is installed");
    let used = usage::cpu_time(target.pid) - before;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "wrk failed: {text}{}", String::from_utf8_lossy(&output.stderr));
    // A server that answers quickly because it refuses is no result.
    assert!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "{}: {text}", target.url);
    let requests = number(&text, " requests in ", false);
    Round {
        per_second: number(&text, "Requests/sec:", true),
        cpu: Duration::from_secs_f64(used.as_secs_f64() / requests),
        p50: latency(&text, "50%"),
        p99: latency(&text, "99%"),
    }
}

/// The number that stands right after `label`, or right before it.
fn number(text: &str, label: &str, after: bool) -> f64 {
    let (left, right) = text.split_once(label).unwrap_or_else(|| panic!("wrk printed no {label:?}: {text}"));
    let word = if after { right.split_whitespace().next() } else { left.split_whitespace().next_back() };
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("wrk printed no number at {label:?}: {text}"))
}

fn latency(text: &str, label: &str) -> Duration {
    let line = text.lines().find(|line| line.trim_start().starts_with(label));
    let word = line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_else(|| panic!("no {label}: {text}"));
    let (digits, seconds) = if let Some(digits) = word.strip_suffix("us") {
        (digits, 1e-6)
    } else if let Some(digits) = word.strip_suffix("ms") {
        (digits, 1e-3)
    } else {
        (word.trim_end_matches('s'), 1.0)
    };
    Duration::from_secs_f64(digits.parse::<f64>().unwrap() * seconds)
}
