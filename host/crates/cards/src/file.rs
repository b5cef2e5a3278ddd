//! Rows out of a file that comes in pieces: nothing is kept but the row at hand.

mod csv;
mod lines;
mod report;

use serde::Serialize;
use serde_json::Value;

use self::{csv::Records, lines::Lines};
use super::row::{Fields, ROW_LIMIT, Row, Terms};
use crate::error::CardError;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Csv,
}

/// What becomes of the columns of a CSV file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Columns {
    pub imported: Vec<String>,
    pub ignored: Vec<String>,
}

/// A row, or the errors of one.
pub type Read = Result<Row, Value>;

/// A file that is being read.
pub struct File {
    /// What came before the first bytes could be told from a mark of byte order.
    start: Option<Vec<u8>>,
    reader: Reader,
    terms: Terms,
}

enum Reader {
    Lines(Lines),
    Records(Records),
}

impl File {
    pub fn new(format: Format, terms: Terms) -> Self {
        let reader = match format {
            Format::Ndjson => Reader::Lines(Lines::new(ROW_LIMIT)),
            Format::Csv => Reader::Records(Records::new(terms)),
        };
        Self { start: Some(Vec::new()), reader, terms }
    }

    /// Reads on; an error is about the file as a whole.
    pub fn push(&mut self, bytes: &[u8], found: &mut Vec<Read>) -> Result<(), CardError> {
        let Some(start) = &mut self.start else { return self.read(bytes, found) };
        start.extend_from_slice(bytes);
        if start.len() < BOM.len() {
            return Ok(());
        }
        let start = self.start.take().unwrap_or_default();
        self.begin(&start, found)
    }

    /// The file is over.
    pub fn finish(&mut self, found: &mut Vec<Read>) -> Result<(), CardError> {
        if let Some(start) = self.start.take() {
            self.begin(&start, found)?;
        }
        match &mut self.reader {
            Reader::Lines(lines) => lines.finish(|at, line| found.push(row(at, line, &self.terms))),
            Reader::Records(records) => records.finish(found)?,
        }
        Ok(())
    }

    /// Whether it is known that the file has what every file of its format has.
    pub fn has_head(&self) -> bool {
        match &self.reader {
            Reader::Lines(_) => true,
            Reader::Records(records) => records.has_head(),
        }
    }

    /// The columns of a CSV file whose head was read.
    pub fn columns(&self) -> Option<Columns> {
        match &self.reader {
            Reader::Lines(_) => None,
            Reader::Records(records) => records.columns(),
        }
    }

    fn begin(&mut self, start: &[u8], found: &mut Vec<Read>) -> Result<(), CardError> {
        if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
            return Err(CardError::field("", "The file is UTF-16; save it as UTF-8."));
        }
        self.read(start.strip_prefix(BOM).unwrap_or(start), found)
    }

    fn read(&mut self, bytes: &[u8], found: &mut Vec<Read>) -> Result<(), CardError> {
        match &mut self.reader {
            Reader::Lines(lines) => lines.push(bytes, |at, line| found.push(row(at, line, &self.terms))),
            Reader::Records(records) => records.push(bytes, found)?,
        }
        Ok(())
    }
}

fn row(at: i64, line: Result<&[u8], CardError>, terms: &Terms) -> Read {
    let line = line.map_err(|error| report::describe(&error, at, None, |_| None))?;
    let row = Fields::from_json(line).and_then(|fields| fields.check(at, terms));
    row.map_err(|error| report::describe_json(&error, at, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Mode;

    const TERMS: Terms = Terms { mode: Mode::Upsert, dry_run: false, atomic: false, keeps_sources: false };

    /// The file in pieces of `size` bytes: rows as `line sku attributes`, faults as `line code`.
    fn read(format: Format, text: &[u8], size: usize) -> Result<Vec<String>, CardError> {
        let (mut file, mut found) = (File::new(format, TERMS), Vec::new());
        for piece in text.chunks(size.max(1)) {
            file.push(piece, &mut found)?;
        }
        file.finish(&mut found)?;
        let describe = |read: Read| match read {
            Ok(row) => {
                let attributes = row.new_attributes().unwrap();
                format!("{} {} {}", row.line, row.sku, attributes.get().replace(r#""sources":{}"#, ""))
            }
            Err(error) => format!("{} {}", error["line"], error["code"].as_str().unwrap()),
        };
        Ok(found.into_iter().map(describe).collect())
    }

    /// However it is cut, it is the same file.
    #[track_caller]
    fn each_way(format: Format, text: &[u8], expected: &[&str]) {
        for size in [1, 2, 3, 7, 64, text.len()] {
            assert_eq!(read(format, text, size).unwrap(), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn lines_of_json() {
        let text = b"\xef\xbb\xbf{\"sku\":\"a\"}\r\n\n  \n{\"sku\":\"b\",\"attributes\":{\"x\":\"y\"}}\n{\"sku\":1}\n\xff\xff\n{\"sku\":\"c\"}";
        each_way(
            Format::Ndjson,
            text,
            &["1 a {}", "4 b {\"x\":\"y\",}", "5 validation-failed", "6 invalid-json", "7 c {}"],
        );
        each_way(Format::Ndjson, b"", &[]);
        each_way(Format::Ndjson, b"\n\r\n", &[]);
    }

    #[test]
    fn records_with_quotes_line_breaks_and_types() {
        let text = "\u{feff}sku,Title,attributes.size.w,attributes.note,attributes.on\r\n\
            a,\"one, \"\"two\"\"\nthree\",12,007,true\r\n\r\nb,t,,\"line\r\nbreak\",\"\"\"12\"\"\"\r\nc,t,1234567890123456,-0.5,nullx\r\n";
        each_way(
            Format::Csv,
            text.as_bytes(),
            &[
                r#"2 a {"note":"007","on":true,"size":{"w":12},}"#,
                "5 b {\"note\":\"line\\r\\nbreak\",\"on\":\"12\",}",
                r#"7 c {"note":-0.5,"on":"nullx","size":{"w":"1234567890123456"},}"#,
            ],
        );
    }

    #[test]
    fn records_that_are_none() {
        let text = b"sku,title\na\nb,c,d\n\xff,t\ne,t";
        each_way(Format::Csv, text, &["2 validation-failed", "3 validation-failed", "4 validation-failed", "5 e {}"]);
        each_way(Format::Csv, b"sku;title\ra;t\rb;t", &["2 a {}", "3 b {}"]);
        each_way(Format::Csv, b"sku\ttitle\na\tt\n", &["2 a {}"]);
        each_way(Format::Csv, b"sku,attributes,attributes.y\na,\"{\"\"x\"\":1}\",2\n", &[r#"2 a {"x":1,"y":2,}"#]);
    }

    #[test]
    fn a_head_says_what_each_column_is() {
        for (head, pointer) in [
            ("title\n", "/sku"),
            ("", "/sku"),
            ("sku,sku\n", "/sku"),
            ("sku,colour\n", "/colour"),
            ("sku,\n", "/"),
            ("sku,attributes.a,attributes.a.b\n", "/attributes.a.b"),
            ("sku,attributes.\n", "/attributes."),
            ("\u{1f}sku\n", "/\u{1f}sku"),
        ] {
            let error = read(Format::Csv, head.as_bytes(), 4).unwrap_err();
            assert!(error.fields().iter().any(|field| field.pointer == *pointer), "{head:?}: {error:?}");
        }
        assert!(read(Format::Csv, b"\xff\xfes\0k\0u\0", 64).is_err());
    }

    #[test]
    fn a_row_has_a_longest_length() {
        let long = "x".repeat(ROW_LIMIT);
        let json = format!("{{\"sku\":\"a\"}}\n{{\"sku\":\"{long}\"}}\n{{\"sku\":\"b\"}}\n");
        assert_eq!(
            read(Format::Ndjson, json.as_bytes(), 1 << 16).unwrap(),
            ["1 a {}", "2 payload-too-large", "3 b {}"]
        );
        let csv = format!("sku,title\na,t\nb,\"{long}\n\"\nc,t\n");
        assert_eq!(read(Format::Csv, csv.as_bytes(), 1 << 16).unwrap(), ["2 a {}", "3 payload-too-large", "5 c {}"]);
    }
}
