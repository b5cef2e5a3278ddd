//! How long functions are, read off the indentation that rustfmt gives them.

use super::{nothing_breaks, sources};

/// Lines between a function's head and its end that are neither empty nor comments: what fits on a screen.
const MAX_FUNCTION: usize = 60;

#[test]
fn every_function_fits_on_a_screen() {
    let mut long = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let lines: Vec<&str> = source.code().map(|(_, code)| code).collect();
        for (at, length) in lengths(&lines) {
            if length > MAX_FUNCTION {
                long.push(format!("{}:{at}: {length} lines", source.path));
            }
        }
    }
    nothing_breaks("give a part of it a name", &long);
}

/// Of each function: the line where it begins, and the lines inside it.
fn lengths(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_head(line)) {
        let indent = line.len() - line.trim_start().len();
        let is_end = |line: &str| {
            line.get(indent..).is_some_and(|rest| rest.starts_with('}')) && line[..indent].trim().is_empty()
        };
        let is_only_declared =
            |line: &str| line.get(..=indent).is_some_and(|head| !head.trim().is_empty()) && line.ends_with(';');
        let body = &lines[at..];
        let Some(end) = body.iter().skip(1).position(|line| is_end(line) || is_only_declared(line)) else { continue };
        if line.ends_with([';', '}']) || is_only_declared(body[end + 1]) {
            continue;
        }
        // A long head ends with a line `) -> T {` or `{` of its own.
        let first = body.iter().position(|line| line.ends_with('{')).unwrap_or_default();
        found.push((at + 1, body[first + 1..=end].iter().filter(|line| !line.trim().is_empty()).count()));
    }
    found
}

fn is_head(line: &str) -> bool {
    let words: Vec<&str> =
        line.split_whitespace().take_while(|word| !word.contains('(') || word.starts_with("pub(")).collect();
    let is_keyword = |word: &&str| {
        ["fn", "pub", "const", "async", "unsafe", "extern", "\"C\"", "default"].contains(word)
            || word.starts_with("pub(")
    };
    line.contains("fn ")
        && words.iter().all(|word| is_keyword(word) || word.ends_with(')') || *word == "in")
        && words.last() == Some(&"fn")
}

#[test]
fn the_lines_inside_a_function_are_counted() {
    let text = "fn a() {\n    b();\n\n    if c {\n        d();\n    }\n}\nstruct S;\nimpl S {\n    pub(in crate::x) async fn long(\n        \
        a: u8,\n    ) -> u8 {\n        a\n    }\n    fn short() {}\n}\ntrait T {\n    fn f();\n    fn g(\n        a: u8,\n    );\n}\n";
    assert_eq!(lengths(&text.lines().collect::<Vec<_>>()), [(1, 4), (10, 1)]);
}
