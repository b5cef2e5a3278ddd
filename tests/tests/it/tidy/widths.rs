//! How wide each line of a source is, and what of it nothing can break.

/// Of one line, in characters.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Width {
    /// Without a comment at its end.
    pub(super) code: usize,
    /// The longest string literal, or the part of one, that stands in it.
    pub(super) longest_string: usize,
    /// Whether it begins within a string literal.
    pub(super) begins_in_string: bool,
    /// Its code alone, without strings and comments.
    pub(super) bare: String,
}

enum State {
    Code,
    LineComment,
    BlockComment,
    Text,
    /// A raw string, with so many `#`.
    Raw(usize),
}

pub(super) fn of_lines(source: &str) -> Vec<Width> {
    let text: Vec<char> = source.chars().collect();
    let (mut lines, mut width, mut state) = (Vec::new(), Width::default(), State::Code);
    let (mut at, mut column, mut string) = (0, 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let mut length = 1;
        let is_string = matches!(state, State::Text | State::Raw(_));
        match state {
            _ if rest[0] == '\n' => {
                width.longest_string = width.longest_string.max(string);
                lines.push(std::mem::take(&mut width));
                width.begins_in_string = is_string;
                (column, string) = (0, 0);
                if matches!(state, State::LineComment) {
                    state = State::Code;
                }
                at += 1;
                continue;
            }
            State::Code => match rest {
                ['/', '/', ..] => state = State::LineComment,
                ['/', '*', ..] => state = State::BlockComment,
                ['\'', '\\', _, ..] | ['\'', _, '\'', ..] => length = 3,
                ['"', ..] => state = State::Text,
                ['r', ..] if at.checked_sub(1).is_none_or(|before| !text[before].is_alphanumeric()) => {
                    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
                    if rest.get(1 + hashes) == Some(&'"') {
                        (state, length) = (State::Raw(hashes), 2 + hashes);
                    }
                }
                _ => {}
            },
            State::LineComment => {}
            State::BlockComment if rest.starts_with(&['*', '/']) => (state, length) = (State::Code, 2),
            State::BlockComment => {}
            State::Text => match rest[0] {
                '\\' if rest.get(1) != Some(&'\n') => length = 2,
                '"' => state = State::Code,
                _ => {}
            },
            State::Raw(hashes) if rest[0] == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes => {
                (state, length) = (State::Code, 1 + hashes);
            }
            State::Raw(_) => {}
        }
        let is_comment = matches!(state, State::LineComment | State::BlockComment);
        if length == 1 && !is_string && matches!(state, State::Code) {
            width.bare.push(rest[0]);
        }
        (at, column) = (at + length, column + length);
        if is_string {
            string += length;
        } else {
            width.longest_string = width.longest_string.max(string);
            string = 0;
        }
        if !is_comment && rest[0] != ' ' {
            width.code = column;
        }
    }
    lines.push(width);
    lines
}

#[test]
fn comments_are_not_counted_and_strings_apart() {
    let of = |line: &str| {
        let width = of_lines(line).remove(0);
        (width.code, width.longest_string)
    };
    assert_eq!(of("let a = 1; // \"why\""), (10, 0));
    assert_eq!(of("/// all of it"), (0, 0));
    assert_eq!(of("say(\"a\\\"b\", \"//\")"), (17, 5));
    assert_eq!(of("say(r#\"{\"a\": 1}\"#, '\"', 2)"), (26, 10));
    let lines = of_lines("say(\"one \\\n     two\", 3)");
    assert_eq!(lines.iter().map(|line| (line.code, line.longest_string)).collect::<Vec<_>>(), [(10, 5), (13, 9)]);
}
