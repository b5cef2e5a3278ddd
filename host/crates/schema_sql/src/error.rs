//! Why a `schema.sql` is refused: where, what stands there, and what to do instead.

use std::fmt;

use squawk_syntax::SyntaxNode;
use squawk_syntax::syntax_error::SyntaxError;

/// Characters of the file that a refusal quotes.
const EXCERPT: usize = 60;

/// A place in the file, both counted from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    pub(super) fn in_text(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What of the file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found}; {fix}")]
pub struct SchemaError {
    /// Whether it is SQL, but not on the list.
    pub is_forbidden: bool,
    /// `None` when it is the file as a whole.
    pub position: Option<Position>,
    /// With the position.
    pub found: String,
    pub expected: &'static str,
    pub fix: String,
}

const LIST: &str = "tables with their columns, constraints, indexes, sequences, plain views, enum, composite, range \
                    and domain types, comments, and rows of the plugin's own tables";
const READABLE: &str = "a text that PostgreSQL can read";

impl SchemaError {
    /// Something that the list does not have.
    pub(super) fn forbidden(text: &str, offset: usize, what: &str, fix: impl Into<String>) -> Self {
        let position = Position::in_text(text, offset);
        Self {
            is_forbidden: true,
            position: Some(position),
            found: format!("{what} at {position}: `{}`", excerpt(text, offset)),
            expected: LIST,
            fix: fix.into(),
        }
    }

    /// A node that the list does not have.
    pub(super) fn node(text: &str, node: &SyntaxNode, what: &str, fix: impl Into<String>) -> Self {
        Self::forbidden(text, super::start(node), what, fix)
    }

    pub(super) fn not_sql(text: &str, mistake: &SyntaxError) -> Self {
        let offset = usize::from(mistake.range().start()).min(text.len());
        let position = Position::in_text(text, offset);
        Self {
            is_forbidden: false,
            position: Some(position),
            found: format!("a mistake at {position}: {} near `{}`", in_signs(mistake.message()), excerpt(text, offset)),
            expected: READABLE,
            fix: "Correct schema.sql.".to_owned(),
        }
    }

    /// The file cannot be read, here.
    pub(super) fn at(text: &str, offset: usize, what: &str, fix: &str) -> Self {
        let position = Position::in_text(text, offset);
        Self {
            is_forbidden: false,
            position: Some(position),
            found: format!("{what} at {position}"),
            expected: READABLE,
            fix: fix.to_owned(),
        }
    }

    /// The file cannot be read at all.
    pub(super) fn unreadable(why: &str) -> Self {
        Self {
            is_forbidden: false,
            position: None,
            found: why.to_owned(),
            expected: READABLE,
            fix: "Make schema.sql shorter and simpler; the plugin can fill its tables when it runs.".to_owned(),
        }
    }
}

/// The parser's names of words and signs, as an author writes them.
fn in_signs(message: &str) -> String {
    let word = |word: &str| match word {
        "L_PAREN" => "`(`".to_owned(),
        "R_PAREN" => "`)`".to_owned(),
        "L_BRACK" => "`[`".to_owned(),
        "R_BRACK" => "`]`".to_owned(),
        "COMMA" => "`,`".to_owned(),
        "SEMICOLON" => "`;`".to_owned(),
        "EQ" => "`=`".to_owned(),
        "IDENT" => "a name".to_owned(),
        "EOF" => "the end of the file".to_owned(),
        other => other.trim_end_matches("_KW").to_owned(),
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The rest of the line, shortened; of the next line that has something where this one has ended.
fn excerpt(text: &str, offset: usize) -> String {
    let rest = text.get(offset..).unwrap_or_default().trim_start();
    let line = rest.lines().next().unwrap_or_default();
    let mut shown: String = line.chars().filter(|c| !c.is_control()).take(EXCERPT).collect();
    if shown.len() < line.len() && line.chars().count() > EXCERPT {
        shown.push('…');
    }
    shown.trim_end().to_owned()
}
