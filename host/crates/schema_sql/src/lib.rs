//! What a plugin's `schema.sql` may say: a short list, and nothing else.
//!
//! The file is read with PostgreSQL's grammar, every node of the tree is looked up in the list of [`syntax`], and what
//! PostgreSQL gets to see is the text that [`print`] writes from the tree, never the text as the author wrote it. A
//! statement, clause, function or type that is not on a list cannot be written, so whatever a newer grammar brings is
//! refused until somebody adds it here. Names are printed in quotes and with their schema: no search path decides what
//! they mean.
//!
//! This module is pure: the provisioner runs it before the database sees a byte, and `cardinal plugin check` says the
//! same without a database. What the catalog holds afterwards is checked by `cardinal_schema::plugin_schema::catalog`,
//! which shares nothing with this module.

use std::ops::Range;
use std::time::Duration;

use squawk_syntax::syntax_error::SyntaxError;
use squawk_syntax::{SourceFile, SyntaxKind, SyntaxNode};

mod actions;
mod calls;
mod cost;
mod error;
mod keys;
mod late_checks;
mod lexis;
mod mistakes;
mod names;
mod new_keys;
mod new_types;
mod operations;
mod overwrites;
mod print;
mod quadratic;
pub mod repeats;
mod syntax;
#[cfg(test)]
mod tests;
mod totals;
pub mod used_types;
mod work;

pub use error::{Position, SchemaError};
pub use keys::{CardKey, KeyPlace};
pub use late_checks::{LateCheck, LateChecks};
pub use new_keys::PARTITION_FIX;
pub use new_types::NewType;
pub use overwrites::Overwrite;
use print::Printer;
use repeats::{Repeats, Unrepeatable};
use used_types::UsedType;
pub use work::{LockedBy, Work};

/// Characters of a schema.sql; the largest that we know of have some 30,000.
pub const MAX_BYTES: usize = 1024 * 1024;
/// Words, names, values and signs of a file.
pub(crate) const MAX_TOKENS: usize = 200_000;
/// Of brackets, CASE and signs within one another.
pub const MAX_DEPTH: usize = 64;
/// Of one statement; a tree leans by as much as a chain of operators is long.
pub(crate) const MAX_STATEMENT_TOKENS: usize = 20_000;
/// Reading the largest file that the bounds above let through takes a tenth of it.
pub const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The parser calls itself for what is nested; within the bounds above it needs less than half of this. Only what is
/// used is taken from the machine.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// One statement, as PostgreSQL gets to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Without its keys to the cards: each has a place in it, and does not run without something in that place.
    pub sql: String,
    /// In the order of their places.
    pub card_keys: Vec<CardKey>,
    /// Of a statement that adds nothing but checks, which may be made NOT VALID and validated later.
    pub late_checks: Option<LateChecks>,
    pub work: Work,
    /// What makes it take the lock on the cards, although it is not quick.
    pub locked_by: Vec<LockedBy>,
    /// That the statement gives, keys to the cards among them.
    pub constraint_names: Vec<String>,
    /// Values of rows that it may write over.
    pub overwrites: Vec<Overwrite>,
    /// Whether it gives columns another type.
    pub changes_types: bool,
    /// That it makes.
    pub new_type: Option<NewType>,
    /// Where in the text the names of types stand that it makes: its own, and that of a range's multirange.
    pub type_names: Vec<Range<usize>>,
    /// Types that are none of PostgreSQL's.
    pub used_types: Vec<UsedType>,
    /// Why it cannot run again.
    pub unrepeatable: Option<Unrepeatable>,
    /// Of tables, views, types and domains, renamed ones among them.
    pub made_names: Vec<String>,
    /// The type or domain that it alters.
    pub altered_type: Option<String>,
    /// Where it begins in the file.
    pub position: Position,
}

impl Statement {
    pub fn may_lock_cards(&self) -> bool {
        self.work == Work::Drops || !self.locked_by.is_empty()
    }

    /// The text, with what this writes in the places of the keys.
    pub fn with_keys(&self, mut write: impl FnMut(usize, &CardKey) -> String) -> String {
        let mut text = self.sql.clone();
        for (number, key) in self.card_keys.iter().enumerate().rev() {
            text.insert_str(key.at, &format!(" {}", write(number, key)));
        }
        text
    }

    /// The text with other names for the types that it makes.
    pub fn with_type_names(&self, mut write: impl FnMut(usize) -> String) -> String {
        let mut text = self.sql.clone();
        for (number, place) in self.type_names.iter().enumerate().rev() {
            text.replace_range(place.clone(), &format!(" {}", write(number)));
        }
        text
    }

    /// The text of a statement with late checks, which leaves the rows that are there unchecked.
    pub fn with_checks_not_valid(&self) -> String {
        let mut text = self.sql.clone();
        for check in self.late_checks.iter().flat_map(|late| late.checks.iter().rev()) {
            text.insert_str(check.end, " not valid");
        }
        text
    }
}

/// Reads the `schema.sql` of the plugin that `schema` belongs to. Blocks for as long as that takes.
///
/// # Errors
/// The first thing in the file that is no SQL or not on the list.
pub fn read(schema: &str, text: &str) -> Result<Vec<Statement>, SchemaError> {
    lexis::check_bounds(text)?;
    let (schema, owned) = (schema.to_owned(), text.to_owned());
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let work = move || drop(sender.send(parse(&schema, &owned)));
    let thread = std::thread::Builder::new().name("schema-sql".to_owned()).stack_size(STACK_BYTES);
    let Ok(thread) = thread.spawn(work) else {
        return Err(SchemaError::unreadable("this machine has no memory to read the file"));
    };
    match receiver.recv_timeout(READ_TIMEOUT) {
        // The tree is gone already: joining takes no time.
        Ok(read) => {
            let _ = thread.join();
            read
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(SchemaError::unreadable("reading it takes too long")),
        // The parser panicked.
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            Err(SchemaError::unreadable("the parser of this host cannot read it"))
        }
    }
}

fn parse(schema: &str, text: &str) -> Result<Vec<Statement>, SchemaError> {
    let parsed = SourceFile::parse(text);
    let mistakes = parsed.errors();
    let mut statements: Vec<Statement> = Vec::new();
    let (mut actions, mut new_keys) = (actions::Actions::default(), new_keys::NewKeys::default());
    let (mut totals, mut repeats) = (totals::Totals::default(), Repeats::default());
    let inheriting = late_checks::Inheriting::in_file(&parsed.syntax_node(), text)?;
    for node in parsed.syntax_node().children() {
        let position = Position::in_text(text, start(&node));
        syntax::check_statement(&node, text)?;
        if let Some(mistake) = first_within(&mistakes, &node) {
            return Err(SchemaError::not_sql(text, mistake));
        }
        if node.kind() == SyntaxKind::EMPTY_STMT {
            continue;
        }
        let first = statements.len();
        let may_check_later = inheriting.allows(&node, text)?;
        for part in work::parts(&node, may_check_later) {
            statements.push(Printer::new(schema, text, &node, part).print(position)?);
        }
        if let Some(statement) = statements.get_mut(first) {
            statement.unrepeatable = repeats.read(text, &node)?;
        }
        mistakes::check(&node, text)?;
        quadratic::check(&node, text)?;
        totals.read(text, &node, statements[first..].iter().flat_map(|it| &it.card_keys))?;
        new_keys.read(text, &node, statements[first..].iter().flat_map(|it| &it.card_keys))?;
        actions.read(text, &node)?;
        calls::check(&node, text)?;
    }
    match mistakes.first() {
        Some(mistake) => Err(SchemaError::not_sql(text, mistake)),
        None => actions.check(text).map(|()| statements),
    }
}

/// Mistakes at the end of a statement lie behind its last character.
fn first_within<'a>(mistakes: &'a [SyntaxError], node: &SyntaxNode) -> Option<&'a SyntaxError> {
    mistakes.iter().find(|mistake| mistake.range().start() <= node.text_range().end())
}

fn start(node: &SyntaxNode) -> usize {
    let first = node.descendants_with_tokens().filter_map(|it| it.into_token()).find(|it| !lexis::is_trivia(it.kind()));
    first.map_or(node.text_range().start(), |token| token.text_range().start()).into()
}
