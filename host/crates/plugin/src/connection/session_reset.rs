//! Which statements leave nothing on a session, so that it need not be cleaned after them.
//!
//! Cleaning costs a round trip and nine commands at the server: several times what a small query
//! does. Most checkouts run nothing but plain reads and writes of tables. This module knows those
//! that cannot change their session: one SELECT, INSERT, UPDATE, DELETE, VALUES or WITH, all of
//! whose calls are built-in functions known to be harmless. Whatever it does not know it doubts,
//! and the session is cleaned as ever. It is asked once for each prepared statement.
//!
//! Out of its sight is what a table does by itself: a trigger, a default, a view. Sessions of a
//! schema that has functions of its own are therefore always cleaned; the rest is built-in.

/// Whether `sql`, run by itself, leaves its session as it was.
pub(super) fn leaves_no_trace(sql: &str) -> bool {
    let mut words = Words::new(sql);
    let Some(Token::Word(first)) = words.next() else { return false };
    if !BEGINNINGS.iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return false;
    }
    // What stands before: `f(` is a call of `f`, but not in `INSERT INTO t (a, b)`.
    let (mut before, mut last) = (Token::Other, Token::Word(first));
    for token in words {
        match (&token, &last) {
            (Token::Doubtful, _) => return false,
            (Token::Open, Token::Word(name)) if !is_harmless(name) && !before.is("into") => return false,
            // A table that is filled is the plugin's own affair; SELECT ... INTO makes one, perhaps on this session.
            (Token::Word(into), last) if into.eq_ignore_ascii_case("into") && !last.is("insert") => return false,
            _ => {}
        }
        // `schema.name` is one name: what stood before it stays.
        if matches!(token, Token::Dot) || matches!(last, Token::Dot) {
            last = token;
            continue;
        }
        before = std::mem::replace(&mut last, token);
    }
    !matches!(last, Token::Doubtful)
}

const BEGINNINGS: [&str; 6] = ["select", "insert", "update", "delete", "values", "with"];

/// Words of the language that a bracket may follow, built-in types with a length, and built-in functions that read
/// and change nothing but their arguments. `pg_catalog` is searched before any schema of the plugin's, so these names
/// mean what they say.
const HARMLESS: &str = "\
    abs age all and any array array_agg array_append array_length array_position array_remove as avg between \
    bit_length bool_and bool_or btrim by cardinality case cast ceil char_length coalesce concat concat_ws conflict \
    count date_part date_trunc decode dense_rank distinct else encode every except exists extract filter first_value \
    floor from gen_random_uuid generate_series greatest group having ilike in intersect interval is join json_agg \
    json_build_array json_build_object jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length \
    jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_object_agg jsonb_object_keys \
    jsonb_path_exists jsonb_set jsonb_strip_nulls jsonb_typeof lag last_value lateral lead least left length like \
    limit lower ltrim max md5 min mod not now nullif numeric octet_length on or over position power rank replace \
    returning right round row row_number rtrim select set split_part string_agg substring sum then to_char to_jsonb \
    trim union unnest upper using values varchar when where";

fn is_harmless(name: &str) -> bool {
    HARMLESS.split(' ').any(|word| word.eq_ignore_ascii_case(name))
}

/// As little of SQL's lexis as it takes to see names and brackets.
#[derive(Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Open,
    Dot,
    Other,
    /// What this lexer does not read: then it is unknown what the statement does.
    Doubtful,
}

impl Token<'_> {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(found) if found.eq_ignore_ascii_case(word))
    }
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn new(sql: &'a str) -> Self {
        Self { rest: sql }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// A literal or a quoted name up to its closing mark; doubled marks are two literals in a row, which does no harm.
    /// A backslash may or may not escape the mark.
    fn quoted(&mut self, delimiter: char) -> Token<'a> {
        let end = self.rest[1..].find(delimiter);
        match end.filter(|end| !self.rest[1..=*end].contains('\\')) {
            Some(end) => {
                self.take(end + 2);
                Token::Other
            }
            None => self.doubt(),
        }
    }

    fn doubt(&mut self) -> Token<'a> {
        self.rest = "";
        Token::Doubtful
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_ascii_start();
        let first = self.rest.chars().next()?;
        Some(match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'));
                Token::Word(self.take(end.unwrap_or(self.rest.len())))
            }
            '\'' => self.quoted('\''),
            // A name in quotes may be anybody's: before a bracket it would have to be looked at.
            '"' => match self.quoted('"') {
                Token::Other if self.rest.trim_ascii_start().starts_with('(') => self.doubt(),
                token => token,
            },
            '(' => {
                self.take(1);
                Token::Open
            }
            '.' => {
                self.take(1);
                Token::Dot
            }
            // Dollar quotes, comments, a second statement, letters that lower-case their own way.
            '\\' | ';' => self.doubt(),
            '$' if !self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.doubt(),
            '-' if self.rest.starts_with("--") => self.doubt(),
            '/' if self.rest.starts_with("/*") => self.doubt(),
            c if !c.is_ascii() => self.doubt(),
            _ => {
                self.take(1);
                Token::Other
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_reads_and_writes_leave_nothing() {
        for sql in [
            "SELECT 42::int8",
            "select id, url from items where (id > $1 and host = 'it''s (here)') order by id limit 50",
            "INSERT INTO items (url, data) VALUES ($1, $2) ON CONFLICT (url) DO UPDATE SET data = excluded.data",
            "INSERT INTO plugin_x.items (url) VALUES ($1)",
            "INSERT INTO \"items\" VALUES ($1)",
            "UPDATE items SET n = n + 1, at = now() WHERE id = ANY($1) RETURNING id",
            "DELETE FROM items WHERE at < now() - interval '1 day'",
            "WITH gone AS (DELETE FROM items RETURNING id) SELECT count(*) FROM gone",
            "SELECT c.id, s.value->>'kind' FROM public.master_cards c, jsonb_each(c.attributes->'sources') s",
            "SELECT EXISTS (SELECT FROM items WHERE id IN (1, 2)), row_number() OVER (ORDER BY id), x::numeric(10, 2)",
        ] {
            assert!(leaves_no_trace(sql), "{sql}");
        }
    }

    #[test]
    fn whatever_could_leave_something_is_doubted() {
        for sql in [
            "",
            "BEGIN",
            "SET search_path = public",
            "SELECT set_config('search_path', 'public', false)",
            "SELECT pg_catalog.set_config('a.b', 'c', false)",
            "SELECT now(), pg_advisory_lock(7)",
            "SELECT pg_advisory_lock /* why */ (7)",
            "SELECT pg_advisory_lock\n(7)",
            "SELECT \"pg_advisory_lock\"(7)",
            "SELECT pg_catalog . \"pg_advisory_lock\" (7)",
            "SELECT 'a\\' || set_config('a.b', 'c', false)",
            "SELECT E'\\'', set_config('a.b', 'c', false)",
            "SELECT E'\\'', set_config('a.b', 'c', false), ''",
            "SELECT $$ $$, my_function()",
            "SELECT * INTO TEMP mine FROM items",
            "WITH a AS (SELECT 1) SELECT a.* INTO mine FROM a",
            "SELECT nextval('items_id_seq')",
            "SELECT 1; SET ROLE x",
            "SELECT 1 -- (\n, my_function()",
            "INSERT INTO items SELECT my_function()",
            "INSERT INTO items (a) VALUES (my_function())",
            "CALL p()",
            "EXPLAIN ANALYZE SELECT 1",
            "SELECT 'open",
            "SELECT fünf(1)",
        ] {
            assert!(!leaves_no_trace(sql), "{sql}");
        }
    }
}
