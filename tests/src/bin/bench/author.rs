//! What an author waits for, with `cardinal plugin dev` and the small crate that `cardinal plugin new` makes: once,
//! from nothing to the first answer of its route; then from the save of a file to the version that serves.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cardinal_tests::{Program, cardinal_program, cardinal_with, exited};
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
    let (dev, steps) = from_nothing(folder.path());
    println!("| step, to the first answer of a new plugin's route | seconds |\n|---|--:|");
    steps.iter().for_each(|(step, seconds)| println!("| {step} | {seconds:.1} |"));
    let total: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
    println!(
        "| **all** | **{total:.1}** |\n\nA cold build: the SDK and all its crates, which were downloaded before.\n"
    );
    println!("| what | edit → live, median | lowest to highest | of it build | of it swap |\n|---|--:|--:|--:|--:|");
    let rows: Vec<_> = EDITS.iter().map(|edit| row(&dev, edit, options.rounds)).collect();
    println!("\n`cardinal plugin dev`, a debug build, {} edits each; at most 3 s are promised.", options.rounds);
    if let Some(file) = &options.json {
        let first = json!({"total_s": total, "steps": steps});
        std::fs::write(file, json!({"rounds": options.rounds, "first_answer": first, "edits": rows}).to_string())
            .unwrap();
    }
    dev.program.signal(Signal::INT);
}

/// What a newcomer does, with an installed program and no crate compiled before: the plugin that serves then, and how
/// long each step took.
fn from_nothing(folder: &Path) -> (Dev, Vec<(&'static str, f64)>) {
    let (into, data) = (folder.to_str().unwrap(), folder.join("data"));
    let begun = Instant::now();
    let new = ["plugin", "new", "small", "--with", "tab", "--sdk", "builtin", "--into", into];
    exited(&cardinal_with(new, &[("XDG_DATA_HOME", data.to_str().unwrap())]), 0);
    let new = begun.elapsed().as_secs_f64();
    let made = folder.join("small");
    // How fast the registry answers is another matter.
    let mut fetch = Command::new("cargo");
    assert!(fetch.args(["fetch", "--quiet"]).current_dir(&made).status().unwrap().success());

    let begun = Instant::now();
    let dev = Dev::start(&made, &folder.join("target"), folder.join("printed"));
    let told = dev.wait_for(" is live: ", 0, FIRST_BUILD);
    let live = begun.elapsed().as_secs_f64();
    dev.wait_for("Watching for edits", 0, EDIT_TIMEOUT);
    dev.ask_as_printed();
    let answered = begun.elapsed().as_secs_f64();
    let part = |name: &str| number_behind(&told, name).unwrap();
    let (build, swap) = (part("build "), part("swap "));
    let steps = vec![
        ("`cardinal plugin new`", new),
        ("`cardinal plugin dev`: the manifest is checked, a host starts and makes its database", live - build - swap),
        ("the crate is built, cold", build),
        ("the library is checked and swapped in", swap),
        ("the `curl` lines that it prints: a card is made, the route answers 200", answered - live),
    ];
    (dev, steps)
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
        Self { program, made: made.to_owned() }
    }

    /// Runs the printed lines that make a card and ask for what it has, in a shell, as the author does.
    fn ask_as_printed(&self) {
        let printed = self.program.printed();
        let is_wanted = |line: &&str| line.starts_with("CARD=") || line.starts_with("curl ") && !line.contains(" -X ");
        let lines: Vec<&str> = printed.lines().filter(is_wanted).collect();
        let shell = Command::new("sh").arg("-c").arg(format!("set -eu\n{}", lines.join("\n"))).output().unwrap();
        let answers = String::from_utf8_lossy(&shell.stdout).into_owned();
        assert!(shell.status.success() && answers.contains(r#"{"items":[]}"#), "{lines:?}\n{answers}");
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
