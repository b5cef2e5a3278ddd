//! Keys to the cards that the file itself writes. The host makes them when the rest of the file has run, so a statement
//! that is about such a key does not find it: it would lose the key, or fail in words about something else.
//!
//! This sees one file, by the names in it; the host looks at the catalog as well
//! (`cardinal_schema::plugin_schema::card_lock`).

use std::collections::{BTreeMap, BTreeSet};

use squawk_syntax::SyntaxKind::{self, *};
use squawk_syntax::SyntaxNode;

use super::CardKey;
use super::error::SchemaError;
use super::keys::{last_name, table_name};

/// What to do about a partition that comes or goes.
pub const PARTITION_FIX: &str = "Put it before the key: take REFERENCES out of the declaration of the table, and add the key \
    behind it: ALTER TABLE ... ADD FOREIGN KEY (card_id) REFERENCES public.master_cards (id).";
const ALTER_FIX: &str = "Declare the key as it is to be: DEFERRABLE and INITIALLY DEFERRED stand behind REFERENCES.";
const NAME_FIX: &str = "Give each constraint of a table a name of its own.";

/// Constraints whose names have to differ.
const NAMED: [SyntaxKind; 6] = [
    CHECK_CONSTRAINT,
    UNIQUE_CONSTRAINT,
    PRIMARY_KEY_CONSTRAINT,
    EXCLUDE_CONSTRAINT,
    REFERENCES_CONSTRAINT,
    FOREIGN_KEY_CONSTRAINT,
];

/// By name, the tables that the file makes or changes.
#[derive(Default)]
pub(super) struct NewKeys {
    tables: BTreeMap<String, Table>,
}

#[derive(Default)]
struct Table {
    has_key: bool,
    /// Of its keys to the cards, as the file gives them.
    names: BTreeSet<String>,
    /// What it is a partition of, as far as the file says.
    parent: Option<String>,
}

impl NewKeys {
    /// Takes a statement down, whose keys to the cards are these.
    pub(super) fn read<'a>(
        &mut self,
        text: &str,
        statement: &SyntaxNode,
        keys: impl Iterator<Item = &'a CardKey>,
    ) -> Result<(), SchemaError> {
        match statement.kind() {
            CREATE_TABLE | ALTER_TABLE => {}
            DROP_TABLE => {
                for name in children(statement, TABLE_NAME_REF) {
                    self.remove(&last_name(&name, text)?);
                }
                return Ok(());
            }
            // PostgreSQL renames a table so as well.
            ALTER_INDEX => return self.rename(statement, INDEX_RENAME_TO, INDEX_REF, text),
            _ => return Ok(()),
        }
        let table = table_name(statement, text)?;
        let known = self.tables.entry(table.clone()).or_default();
        for name in dropped_names(statement, text)? {
            known.names.remove(&name);
        }
        check_names(statement, &known.names, text)?;
        for key in keys {
            known.has_key = true;
            known.names.extend(key.name.clone());
        }
        if let Some(parent) = children(statement, PARTITION_OF).next() {
            known.parent = Some(last_name(&parent, text)?);
        }
        for action in statement.children() {
            self.check_action(&action, &table, text)?;
        }
        self.rename(statement, TABLE_RENAME_TO, TABLE_RELATION_NAME, text)
    }

    fn check_action(&mut self, action: &SyntaxNode, table: &str, text: &str) -> Result<(), SchemaError> {
        let what = match action.kind() {
            ATTACH_PARTITION => "an ATTACH PARTITION",
            DETACH_PARTITION => "a DETACH PARTITION",
            ALTER_CONSTRAINT => "an ALTER CONSTRAINT",
            _ => return Ok(()),
        };
        if self.has_key(table) {
            let what = format!("{what} on table {table}, which gets a key to the cards in this file,");
            let fix = if action.kind() == ALTER_CONSTRAINT { ALTER_FIX } else { PARTITION_FIX };
            return Err(SchemaError::node(text, action, &what, fix));
        }
        for name in children(action, TABLE_NAME_REF).chain(children(action, TABLE_RELATION_NAME)) {
            let parent = (action.kind() == ATTACH_PARTITION).then(|| table.to_owned());
            self.tables.entry(last_name(&name, text)?).or_default().parent = parent;
        }
        Ok(())
    }

    /// Whether it, or a table that it is a partition of, has a key.
    fn has_key(&self, table: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = Some(table);
        while let Some(table) = next.filter(|table| seen.insert(*table)) {
            let Some(known) = self.tables.get(table) else { return false };
            if known.has_key {
                return true;
            }
            next = known.parent.as_deref();
        }
        false
    }

    /// A table goes with its partitions.
    fn remove(&mut self, table: &str) {
        self.tables.remove(table);
        let is_below = |known: &Table| known.parent.as_deref() == Some(table);
        let below: Vec<String> =
            self.tables.iter().filter(|(_, known)| is_below(known)).map(|(name, _)| name.clone()).collect();
        below.iter().for_each(|name| self.remove(name));
    }

    fn rename(
        &mut self,
        statement: &SyntaxNode,
        action: SyntaxKind,
        old: SyntaxKind,
        text: &str,
    ) -> Result<(), SchemaError> {
        let Some(new) = children(statement, action).next() else { return Ok(()) };
        let Some(old) = children(statement, old).next() else { return Ok(()) };
        let (old, new) = (last_name(&old, text)?, last_name(&new, text)?);
        let Some(known) = self.tables.remove(&old) else { return Ok(()) };
        for below in self.tables.values_mut().filter(|below| below.parent.as_ref() == Some(&old)) {
            below.parent = Some(new.clone());
        }
        self.tables.insert(new, known);
        Ok(())
    }
}

/// Names that an ALTER TABLE takes from constraints. PostgreSQL finds a constraint that gets the new name of another.
fn dropped_names(statement: &SyntaxNode, text: &str) -> Result<Vec<String>, SchemaError> {
    let actions = statement.children().filter(|it| matches!(it.kind(), DROP_CONSTRAINT | RENAME_CONSTRAINT));
    let names = actions.filter_map(|action| children(&action, CONSTRAINT_NAME_REF).next());
    names.map(|name| last_name(&name, text)).collect()
}

/// Refuses a name that two constraints of the statement have, or one of it and a key of the table.
fn check_names(statement: &SyntaxNode, taken: &BTreeSet<String>, text: &str) -> Result<(), SchemaError> {
    let mut own = BTreeSet::new();
    for (node, name) in names(statement, text)? {
        // What IF NOT EXISTS leaves out gets no name.
        let is_added = statement.kind() == ALTER_TABLE
            && !node.ancestors().any(|it| children(&it, IF_NOT_EXISTS).next().is_some());
        if (is_added && taken.contains(&name)) || !own.insert(name.clone()) {
            return Err(SchemaError::at(text, super::start(&node), &format!("constraint {name} once more"), NAME_FIX));
        }
    }
    Ok(())
}

/// The names that the statement gives to constraints.
pub(super) fn names(statement: &SyntaxNode, text: &str) -> Result<Vec<(SyntaxNode, String)>, SchemaError> {
    let constraints = statement.descendants().filter(|it| NAMED.contains(&it.kind()));
    let clauses = constraints.filter_map(|it| children(&it, CONSTRAINT_NAME_CLAUSE).next()?.first_child());
    clauses.map(|node| last_name(&node, text).map(|name| (node, name))).collect()
}

fn children(node: &SyntaxNode, kind: SyntaxKind) -> impl Iterator<Item = SyntaxNode> {
    node.children().filter(move |child| child.kind() == kind)
}
