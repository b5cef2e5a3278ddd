//! Medians, ratios and spread, for people and for programs.

use std::time::Duration;

use serde_json::json;

use crate::Options;
use crate::measure::{Measured, Round};

/// Of one measurement: the medians of its rounds, and the ratio with its lowest and highest round.
struct Summary {
    per_second: f64,
    base_per_second: f64,
    ratio: f64,
    lowest: f64,
    highest: f64,
    cpu: Duration,
    base_cpu: Duration,
    p50: Duration,
    p99: Duration,
    base_p50: Duration,
    base_p99: Duration,
}

/// How long requests take beside something else, and by themselves.
pub(crate) fn beside(all: &[Measured]) {
    println!("\n| what | median | 99 % | against | its median | its 99 % | ratio of the 99 % |");
    println!("|---|--:|--:|---|--:|--:|--:|");
    for measured in all {
        let s = summary(measured);
        let [p50, p99, base_p50, base_p99] =
            [s.p50, s.p99, s.base_p50, s.base_p99].map(|time| time.as_secs_f64() * 1e3);
        println!(
            "| {} | {p50:.2} ms | {p99:.2} ms | {} | {base_p50:.2} ms | {base_p99:.2} ms | **{:.2}** |",
            measured.name,
            measured.baseline,
            p99 / base_p99,
        );
    }
}

pub(crate) fn table(all: &[Measured], options: &Options) {
    println!(
        "| what | requests/s | against | its requests/s | ratio (lowest to highest round) | CPU a request | its CPU | median | 99 % |"
    );
    println!("|---|--:|---|--:|--:|--:|--:|--:|--:|");
    for measured in all {
        let s = summary(measured);
        println!(
            "| {} | {:.0} | {} | {:.0} | **{:.2}** ({:.2} to {:.2}) | {:.1} µs | {:.1} µs | {:.2} ms | {:.2} ms |",
            measured.name,
            s.per_second,
            measured.baseline,
            s.base_per_second,
            s.ratio,
            s.lowest,
            s.highest,
            s.cpu.as_secs_f64() * 1e6,
            s.base_cpu.as_secs_f64() * 1e6,
            s.p50.as_secs_f64() * 1e3,
            s.p99.as_secs_f64() * 1e3,
        );
    }
    println!(
        "\nwrk, one thread, 32 connections, {} rounds of {} s of subject and baseline in turns, medians. CPU: of the server's own process, without PostgreSQL. Client, server and database share the machine.",
        options.rounds, options.seconds
    );
}

pub(crate) fn json(all: &[Measured], options: &Options) -> String {
    let subjects: Vec<_> = all
        .iter()
        .map(|measured| {
            let s = summary(measured);
            json!({
                "name": measured.name,
                "against": measured.baseline,
                "requests_per_second": s.per_second,
                "base_requests_per_second": s.base_per_second,
                "ratio": s.ratio,
                "ratio_lowest": s.lowest,
                "ratio_highest": s.highest,
                "cpu_us": s.cpu.as_secs_f64() * 1e6,
                "base_cpu_us": s.base_cpu.as_secs_f64() * 1e6,
                "p50_ms": s.p50.as_secs_f64() * 1e3,
                "p99_ms": s.p99.as_secs_f64() * 1e3,
                "base_p50_ms": s.base_p50.as_secs_f64() * 1e3,
                "base_p99_ms": s.base_p99.as_secs_f64() * 1e3,
                "rounds": measured.subject.iter().map(|round| round.per_second).collect::<Vec<_>>(),
                "base_rounds": measured.against.iter().map(|round| round.per_second).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"rounds": options.rounds, "seconds": options.seconds, "subjects": subjects}).to_string()
}

fn summary(measured: &Measured) -> Summary {
    let ratios = measured.subject.iter().zip(&measured.against).map(|(ours, base)| ours.per_second / base.per_second);
    let ratios: Vec<f64> = ratios.collect();
    let per_second = |rounds: &[Round]| median(rounds.iter().map(|round| round.per_second));
    let time = |rounds: &[Round], of: fn(&Round) -> Duration| {
        Duration::from_secs_f64(median(rounds.iter().map(|round| of(round).as_secs_f64())))
    };
    Summary {
        per_second: per_second(&measured.subject),
        base_per_second: per_second(&measured.against),
        ratio: median(ratios.iter().copied()),
        lowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        highest: ratios.iter().copied().fold(0.0, f64::max),
        cpu: time(&measured.subject, |round| round.cpu),
        base_cpu: time(&measured.against, |round| round.cpu),
        p50: time(&measured.subject, |round| round.p50),
        p99: time(&measured.subject, |round| round.p99),
        base_p50: time(&measured.against, |round| round.p50),
        base_p99: time(&measured.against, |round| round.p99),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
