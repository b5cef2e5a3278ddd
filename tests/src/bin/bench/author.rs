//! What an author waits for: from the save of a file to the version that serves, with `cardinal plugin dev` and the small
//! crate that `cardinal plugin new` makes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cardinal_tests::{Program, cardinal, cardinal_program, exited, repository};
use rustix::process::Signal;
use serde_json::json;

use crate::Options;

pub(crate) const NAME: &str = "author";
/// The first one builds the SDK.
const FIRST_BUILD: Duration = Duration::from_secs(900);
const EDIT_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const LIVE: &str = " is live: edit → live ";

/// An edit that is made again and again: a text of a file, and one that stands in its place every other time.
struct Edit {
    name: &'static str,
    file: &'static str,
    texts: [&'static str; 2],
}

const EDITS: [Edit; 2] = [
    Edit { name: "a line of Rust", file: "src/service.rs", texts: ["A note has a text.", "Write something, please."] },
    Edit { name: "a line of the frontend", file: "frontend/plugin.js", texts: ["'Noted'", "'Kept'"] },
];

pub(crate) fn measure(options: &Options) {
    let folder = tempfile::tempdir().unwrap();
    exited(&cardinal(["plugin", "new", "small", "--with", "tab", "--into", folder.path().to_str().unwrap()]), 0);
    let made = folder.path().join("small");
    let target = repository().join("target/bench-author");
    let mut build = Command::new("cargo");
    build.args(["build", "--lib", "--quiet"]).current_dir(&made).env("CARGO_TARGET_DIR", &target);
    assert!(build.status().unwrap().success());
    let dev = Dev::start(&made, &target, folder.path().join("printed"));
    println!("| what | edit → live, median | lowest to highest | of it build | of it swap |\n|---|--:|--:|--:|--:|");
    let rows: Vec<_> = EDITS.iter().map(|edit| row(&dev, edit, options.rounds)).collect();
    println!("\n`cardinal plugin dev`, a debug build, {} edits each; at most 3 s are promised.", options.rounds);
    if let Some(file) = &options.json {
        std::fs::write(file, json!({"rounds": options.rounds, "edits": rows}).to_string()).unwrap();
    }
    dev.program.signal(Signal::INT);
}

fn row(dev: &Dev, edit: &Edit, rounds: usize) -> serde_json::Value {
    let times: Vec<(f64, String)> = (0..rounds).map(|round| dev.make(edit, round)).collect();
    let part = |name: &str| median(times.iter().filter_map(|(_, told)| number_behind(told, name)).collect());
    let all: Vec<f64> = times.iter().map(|(seconds, _)| *seconds).collect();
    let (lowest, highest) = all.iter().fold((f64::MAX, 0.0_f64), |(low, high), s| (low.min(*s), high.max(*s)));
    let (live, build, swap) = (median(all), part("build "), part("swap "));
    println!("| {} | **{live:.2} s** | {lowest:.2} to {highest:.2} s | {build:.1} s | {swap:.1} s |", edit.name);
    json!({"name": edit.name, "live_s": live, "lowest_s": lowest, "highest_s": highest, "build_s": build, "swap_s": swap})
}

struct Dev {
    program: Program,
    made: PathBuf,
}

impl Dev {
    fn start(made: &Path, target: &Path, log: PathBuf) -> Self {
        let environment = [("CARGO_TARGET_DIR", target.as_os_str().to_owned())].into_iter();
        let kept = ["PATH", "HOME", "POSTGRES_BIN_DIR", "CARGO_HOME", "RUSTUP_HOME", "TMPDIR"];
        let kept = kept.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let arguments = ["plugin", "dev", made.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let program = Program::start(&cardinal_program(), &arguments, environment.chain(kept), &log);
        let dev = Self { program, made: made.to_owned() };
        dev.wait_for("Watching for edits", 0, FIRST_BUILD);
        dev
    }

    /// Seconds from the save to the line that says that the version serves, and that line.
    fn make(&self, edit: &Edit, round: usize) -> (f64, String) {
        let (file, printed) = (self.made.join(edit.file), self.program.printed().len());
        let text = std::fs::read_to_string(&file).unwrap();
        let (from, to) = (edit.texts[round % 2], edit.texts[(round + 1) % 2]);
        assert!(text.contains(from), "{text}");
        let begun = Instant::now();
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let told = self.wait_for(LIVE, printed, EDIT_TIMEOUT);
        (begun.elapsed().as_secs_f64(), told)
    }

    /// The first line with this text behind what was printed before.
    fn wait_for(&self, text: &str, printed_before: usize, timeout: Duration) -> String {
        let begun = Instant::now();
        loop {
            let printed = self.program.printed();
            let new = printed.get(printed_before..).unwrap_or_default();
            if let Some(line) = new.split_inclusive('\n').find(|line| line.contains(text) && line.ends_with('\n')) {
                return line.to_owned();
            }
            assert!(begun.elapsed() < timeout, "waited {timeout:?} in vain for {text:?}: {printed}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// `1.3` of `build 1.3, swap 0.4`.
fn number_behind(told: &str, name: &str) -> Option<f64> {
    let (_, after) = told.split_once(name)?;
    after.split([',', '\n']).next()?.trim().parse().ok()
}

/// 0 of nothing, as where there was nothing to build.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
