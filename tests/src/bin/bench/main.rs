//! The figures of the performance page (host/docs/performance.md). Every figure is a ratio to a bare server of the same run: wrk asks the
//! subject and its baseline in turns, so that whatever else the machine does hits both alike.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod author;
mod baseline;
mod catalogue;
mod guard;
mod lists;
mod measure;
mod memory;
mod report;
mod starts;
mod subjects;
mod transfer;
mod usage;

use std::path::PathBuf;

const USAGE: &str =
    "bench [--rounds N] [--seconds N] [--only PART-OF-NAME] [--cards N] [--json FILE] [--authentication]";

/// What the command line asks for.
pub struct Options {
    pub rounds: usize,
    pub seconds: u64,
    pub only: Option<String>,
    /// How many the large catalogue has.
    pub cards: i64,
    pub json: Option<PathBuf>,
    /// Only what authentication costs; the host is a build that needs none.
    pub authentication: bool,
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if arguments.peek().map(String::as_str) == Some("serve-bare") {
        return runtime.block_on(baseline::serve(std::env::var("BENCH_DATABASE").ok()));
    }
    let options = parse(arguments);
    if options.only.as_deref() == Some(author::NAME) {
        return author::measure(&options);
    }
    runtime.block_on(async {
        if options.only.as_deref() == Some(memory::NAME) {
            return memory::measure(options.json.as_deref()).await;
        }
        if options.only.as_deref() == Some(lists::NAME) {
            return lists::measure(&options).await;
        }
        if options.only.as_deref() == Some(starts::NAME) {
            return starts::measure(options.json.as_deref()).await;
        }
        if options.wants_guard() {
            let measured = guard::measure(&options).await;
            report::table(&measured, &options);
            report::beside(&measured);
            return write_json(&measured, &options);
        }
        let bench = subjects::Bench::start(options.authentication).await;
        let mut measured = measure::all(&bench.subjects, &options);
        if options.wants_catalogue() {
            let large = catalogue::subjects(&bench, options.cards).await;
            measured.extend(measure::all(&large, &options));
            measured.extend(transfer::measure(&bench, &options).await);
        }
        report::table(&measured, &options);
        write_json(&measured, &options);
    });
}

fn write_json(measured: &[measure::Measured], options: &Options) {
    if let Some(file) = &options.json {
        std::fs::write(file, report::json(measured, options)).expect("the file for --json can be written");
    }
}

impl Options {
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }

    /// It needs another build of the host: only when it is asked for by name.
    fn wants_guard(&self) -> bool {
        self.only.as_ref().is_some_and(|part| part.starts_with(guard::NAME.trim_end_matches(": ")))
    }

    /// Filling it takes minutes: only when one of its subjects may be asked for.
    fn wants_catalogue(&self) -> bool {
        let named =
            |part: &String| part.starts_with(catalogue::NAME.trim_end()) || catalogue::NAME.contains(part.as_str());
        !self.authentication && self.only.as_ref().is_none_or(named)
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Options {
    let mut options =
        Options { rounds: 5, seconds: 3, only: None, cards: 1_000_000, json: None, authentication: false };
    while let Some(name) = arguments.next() {
        if name == "--authentication" {
            options.authentication = true;
            continue;
        }
        let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value\nusage: {USAGE}"));
        match name.as_str() {
            "--rounds" => options.rounds = value.parse().expect("--rounds takes a number"),
            "--seconds" => options.seconds = value.parse().expect("--seconds takes a number"),
            "--cards" => options.cards = value.parse().expect("--cards takes a number"),
            "--only" => options.only = Some(value),
            "--json" => options.json = Some(value.into()),
            _ => panic!("unknown flag {name}\nusage: {USAGE}"),
        }
    }
    assert!(options.cards >= 10_000, "there are at least 10,000 cards");
    assert!(options.rounds > 0 && options.seconds > 0, "rounds and seconds are at least 1");
    options
}
