//! Where rustfmt has given up: it leaves a whole statement as it was for one string that is too wide, and says nothing.

use std::process::Command;

use cardinal_tests::repository;

use super::widths;

/// Of each source the first line that rustfmt does not put back in its place when all indentation is gone.
pub(super) fn left_alone(sources: &[&str]) -> Vec<Option<usize>> {
    let folder = tempfile::tempdir().unwrap();
    let sources: Vec<String> = sources.iter().map(|source| without_modules(source)).collect();
    let files: Vec<_> = (0..sources.len()).map(|at| folder.path().join(format!("{at}.rs"))).collect();
    for (source, file) in sources.iter().zip(&files) {
        std::fs::write(file, flat(source)).unwrap();
    }
    let mut rustfmt = Command::new("rustfmt");
    let rustfmt = rustfmt.args(["--edition", "2024", "--config-path"]).arg(repository()).args(&files);
    assert!(rustfmt.status().expect("rustfmt is installed with the toolchain").success());
    let first = |(source, file): (&String, _)| {
        let formatted = std::fs::read_to_string(file).unwrap();
        let same = source.lines().zip(formatted.lines()).take_while(|(before, after)| before == after).count();
        (*source != formatted).then_some(same + 1)
    };
    sources.iter().zip(&files).map(first).collect()
}

/// rustfmt would look for the files of modules, so they become something else of one line.
fn without_modules(source: &str) -> String {
    let line = |line: &str| match (line.find("mod "), line.strip_suffix(';')) {
        (Some(at), Some(text)) if text[..at].is_empty() || text.starts_with("pub") => {
            format!("{}extern crate {};\n", &text[..at], &text[at + 4..])
        }
        _ => format!("{line}\n"),
    };
    source.lines().map(line).collect()
}

/// Without indentation, but for what rustfmt never touches: strings, and what stands in a macro's brackets.
fn flat(source: &str) -> String {
    let mut flat = String::with_capacity(source.len());
    let mut brackets = Brackets::default();
    for (line, of_line) in source.lines().zip(widths::of_lines(source)) {
        let is_kept = of_line.begins_in_string || brackets.macro_depth.is_some();
        flat.push_str(if is_kept { line } else { line.trim_start() });
        flat.push('\n');
        brackets.read(&of_line.bare);
    }
    flat
}

#[derive(Default)]
struct Brackets {
    depth: usize,
    /// How deep the outermost macro's brackets stand.
    macro_depth: Option<usize>,
    before: String,
}

impl Brackets {
    fn read(&mut self, code: &str) {
        for c in code.chars() {
            match c {
                '(' | '[' | '{' => {
                    if self.macro_depth.is_none() && is_macro(&self.before) {
                        self.macro_depth = Some(self.depth);
                    }
                    self.depth += 1;
                }
                ')' | ']' | '}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.macro_depth.is_some_and(|depth| depth >= self.depth) {
                        self.macro_depth = None;
                    }
                }
                _ => {}
            }
            self.before.push(c);
        }
        self.before.push(' ');
    }
}

/// Whether the code ends as `json!` or `macro_rules! name` do.
fn is_macro(before: &str) -> bool {
    let before = before.trim_end();
    let name = |c: char| c.is_alphanumeric() || c == '_';
    let is_call = |text: &str| text.strip_suffix('!').is_some_and(|text| text.ends_with(name));
    is_call(before) || before.ends_with(name) && is_call(before.trim_end_matches(name).trim_end())
}

#[test]
fn a_statement_that_rustfmt_gives_up_is_found() {
    let good = "mod a;\npub mod b;\n\nfn f() {\n    say(json!({\n      \"a\": 1,\n    }));\n}\n";
    let wide = "x".repeat(130);
    let given_up =
        format!("fn f() {{\n    a.b()\n        .say(\n            \"{wide}\",\n        )\n        .c();\n}}\n");
    assert_eq!(left_alone(&[good, &given_up]), [None, Some(3)]);
}
