//! Types that a file uses without making them. Its own are found in the database alone, where an earlier version of the
//! file may have made one; so this is a hint, and no reason to refuse.

use std::collections::HashSet;

use super::{Position, Statement, names};

/// A type that is none of PostgreSQL's, where it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedType {
    pub name: String,
    pub position: Position,
}

/// Names of other databases, with PostgreSQL's.
const ELSEWHERE: [(&str, &str); 11] = [
    ("blob", "bytea"),
    ("clob", "text"),
    ("datetime", "timestamptz"),
    ("double", "double precision"),
    ("guid", "uuid"),
    ("longtext", "text"),
    ("number", "numeric"),
    ("nvarchar", "varchar"),
    ("string", "text"),
    ("tinyint", "smallint"),
    ("varchar2", "varchar"),
];

/// Those that no statement of the file makes, in their order; a table and a view are types, too.
pub fn unknown(statements: &[Statement]) -> Vec<&UsedType> {
    let made: HashSet<&str> = statements.iter().flat_map(|it| &it.made_names).map(String::as_str).collect();
    let is_made = |name: &str| made.contains(name) || multirange_of(name, &made);
    statements.iter().flat_map(|it| &it.used_types).filter(|used| !is_made(&used.name)).collect()
}

/// What PostgreSQL calls this type, when another database has it.
pub fn here(name: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, here)| *here)
}

/// PostgreSQL's own that a plugin may use.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    names::type_names()
}

/// PostgreSQL makes one with each range.
fn multirange_of(name: &str, made: &HashSet<&str>) -> bool {
    let is_made = |range: String| made.contains(range.as_str());
    name.strip_suffix("_multirange").is_some_and(|range| is_made(range.to_owned()))
        || is_made(name.replacen("multirange", "range", 1))
}
