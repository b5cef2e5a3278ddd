//! Records of CSV below a head that names the columns.

mod head;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde_json::{Number, Value, value::RawValue};

use self::head::{Column, Head};
use super::{Columns, Read, lines::too_long, report};
use crate::{
    error::CardError,
    row::{Fields, ROW_LIMIT, Terms},
};
use cardinal_base::exact::Object;

/// Bytes within which the head has to end.
const HEAD_LIMIT: usize = 256 << 10;
/// What a record begins with; it grows up to the limit of rows.
const INITIAL_CAPACITY: usize = 8 << 10;
const COLUMNS: usize = 1_024;
/// Longer numbers are texts: article and shipping numbers are, and no reader of JSON keeps more digits.
const DIGITS: usize = 15;

/// Cuts what comes into records.
pub(super) struct Records {
    terms: Terms,
    state: State,
    room: Vec<u8>,
    /// Bytes of the record at hand.
    filled: usize,
    ends: Vec<usize>,
    fields: usize,
    /// The record is over a limit and passed over.
    passed: bool,
    has_begun: bool,
    /// Of the line that is read, and the one on which the record began.
    line: i64,
    first_line: i64,
    after_return: bool,
}

enum State {
    /// What there is of the first line.
    Head(Vec<u8>),
    Rows(Box<Reader>, Head),
}

impl Records {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            state: State::Head(Vec::new()),
            room: vec![0; INITIAL_CAPACITY],
            filled: 0,
            ends: vec![0; COLUMNS],
            fields: 0,
            passed: false,
            has_begun: false,
            line: 1,
            first_line: 1,
            after_return: false,
        }
    }

    pub(super) fn has_head(&self) -> bool {
        matches!(self.state, State::Rows(..))
    }

    pub(super) fn columns(&self) -> Option<Columns> {
        let State::Rows(_, head) = &self.state else { return None };
        let is_ignored = |column: &&Column| match column {
            Column::Passed(_) | Column::Ignored(_) => true,
            Column::Id => !self.terms.keeps_sources,
            _ => false,
        };
        let (ignored, imported): (Vec<_>, Vec<_>) = head.columns.iter().partition(is_ignored);
        let names = |columns: Vec<&Column>| columns.iter().map(|column| column.name().to_owned()).collect();
        Some(Columns { imported: names(imported), ignored: names(ignored) })
    }

    pub(super) fn push(&mut self, bytes: &[u8], found: &mut Vec<Read>) -> Result<(), CardError> {
        let State::Head(start) = &mut self.state else {
            self.read(bytes, found);
            return Ok(());
        };
        start.extend_from_slice(bytes);
        let end = start.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        match end {
            Some(end) => {
                let start = std::mem::take(start);
                self.begin(&start[..end])?;
                self.read(&start[end..], found);
                Ok(())
            }
            None if start.len() > HEAD_LIMIT => {
                Err(CardError::field("", format!("The first {HEAD_LIMIT} bytes contain no header row.")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn finish(&mut self, found: &mut Vec<Read>) -> Result<(), CardError> {
        if let State::Head(start) = &mut self.state {
            let start = std::mem::take(start);
            self.begin(&start)?;
        }
        // An empty input is the end for the reader.
        self.read(&[], found);
        if self.has_begun {
            self.give(found);
        }
        Ok(())
    }

    fn begin(&mut self, head: &[u8]) -> Result<(), CardError> {
        let (delimiter, head) = Head::read(head, &self.terms)?;
        let reader = ReaderBuilder::new().delimiter(delimiter).build();
        self.state = State::Rows(Box::new(reader), head);
        Ok(())
    }

    fn read(&mut self, mut bytes: &[u8], found: &mut Vec<Read>) {
        let ends_here = bytes.is_empty();
        loop {
            if !self.has_begun {
                bytes = self.between(bytes);
                self.first_line = self.line;
            }
            if bytes.is_empty() && !(ends_here && self.has_begun) {
                return;
            }
            let State::Rows(reader, _) = &mut self.state else { return };
            let room = &mut self.room[self.filled..];
            let (result, read, filled, fields) = reader.read_record(bytes, room, &mut self.ends[self.fields..]);
            self.count_lines(&bytes[..read]);
            bytes = &bytes[read..];
            self.has_begun = true;
            self.filled += filled;
            self.fields += fields;
            match result {
                ReadRecordResult::Record => self.give(found),
                ReadRecordResult::OutputFull => self.grow(),
                ReadRecordResult::OutputEndsFull => self.pass(),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return,
            }
        }
    }

    /// Passes over line breaks between records, so that a record's line is its own.
    fn between<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let breaks = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        self.count_lines(&bytes[..breaks]);
        &bytes[breaks..]
    }

    fn count_lines(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => self.line += 1,
                _ => {}
            }
            self.after_return = *byte == b'\r';
        }
    }

    fn grow(&mut self) {
        if self.room.len() >= ROW_LIMIT || self.passed {
            return self.pass();
        }
        self.room.resize((self.room.len() * 2).min(ROW_LIMIT), 0);
    }

    /// What is there of the record is forgotten, and what comes of it, too.
    fn pass(&mut self) {
        self.passed = true;
        self.filled = 0;
        self.fields = 0;
        self.room.truncate(INITIAL_CAPACITY);
        self.room.shrink_to_fit();
    }

    fn give(&mut self, found: &mut Vec<Read>) {
        let State::Rows(_, head) = &self.state else { return };
        let at = self.first_line;
        let record = Record { head, bytes: &self.room[..self.filled], ends: &self.ends[..self.fields] };
        found.push(match self.passed {
            true => Err(report::describe(&too_long(ROW_LIMIT), at, None, |_| None)),
            false => fields(&record).and_then(|fields| fields.check(at, &self.terms)).map_err(|error| {
                let cell = |column: &str| record.cell(column).map(|cell| String::from_utf8_lossy(cell).into_owned());
                report::describe(&error, at, cell("sku").as_deref(), |pointer| cell(&pointer[1..]))
            }),
        });
        (self.filled, self.fields, self.passed, self.has_begun) = (0, 0, false, false);
    }
}

/// The cells of a row below their columns.
struct Record<'a> {
    head: &'a Head,
    bytes: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Record<'a> {
    fn cells(&self) -> impl Iterator<Item = (&'a Column, &'a [u8])> {
        let bytes = self.bytes;
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        self.head
            .columns
            .iter()
            .zip(starts.zip(self.ends))
            .map(move |(column, (start, end))| (column, &bytes[start..*end]))
    }

    fn cell(&self, name: &str) -> Option<&'a [u8]> {
        self.cells().find(|(column, _)| column.name() == name).map(|(_, cell)| cell)
    }
}

/// The fields of a record. An empty cell says nothing.
fn fields(record: &Record<'_>) -> Result<Fields, CardError> {
    let (cells, columns) = (record.ends.len(), record.head.columns.len());
    if cells != columns {
        return Err(CardError::field("", format!("The header names {columns} columns; this row has {cells}.")));
    }
    let mut fields = Fields::default();
    for (column, cell) in record.cells().filter(|(column, _)| !matches!(column, Column::Ignored(_))) {
        let cell = std::str::from_utf8(cell)
            .map_err(|_| CardError::field(format!("/{}", column.name()), "This is not UTF-8."))?;
        if !cell.is_empty() {
            take(&mut fields, column, cell)?;
        }
    }
    Ok(fields)
}

fn take(fields: &mut Fields, column: &Column, cell: &str) -> Result<(), CardError> {
    let invalid = |detail: &str| CardError::field(format!("/{}", column.name()), detail);
    match column {
        Column::Title => fields.title = Some(Some(cell.to_owned())),
        Column::Sku => fields.sku = Some(Some(cell.to_owned())),
        Column::Status => {
            let status = serde_json::from_value(Value::from(cell));
            fields.status = Some(Some(status.map_err(|_| invalid("A status is draft, active or archived."))?));
        }
        Column::Attributes => {
            fields.attributes = Some(serde_json::from_str(cell).map_err(|_| invalid("This is not valid JSON."))?);
        }
        Column::Id => fields.id = Some(serde_json::value::to_raw_value(cell)?),
        Column::Attribute { path, .. } => {
            value(cell).and_then(|value| put(&mut fields.set, path, value))?;
        }
        Column::Passed(_) | Column::Ignored(_) => {}
    }
    Ok(())
}

/// What a cell means: numbers, true, false, null, objects, arrays and quoted texts are what they are in JSON;
/// everything else is a text, numbers with leading zeros and long ones among them.
fn value(cell: &str) -> serde_json::Result<Box<RawValue>> {
    let text = || serde_json::value::to_raw_value(cell);
    let digits = cell.bytes().filter(u8::is_ascii_digit).count();
    let first = cell.as_bytes().first().copied().unwrap_or_default();
    let is_json = match first {
        b'{' | b'[' | b'"' => true,
        b'-' | b'0'..=b'9' => digits <= DIGITS && cell.parse::<Number>().is_ok(),
        _ => ["true", "false", "null"].contains(&cell),
    };
    if !is_json {
        return text();
    }
    serde_json::from_str(cell).or_else(|_| text())
}

fn put(members: &mut Object, path: &[String], value: Box<RawValue>) -> serde_json::Result<()> {
    let [name, rest @ ..] = path else { return Ok(()) };
    if rest.is_empty() {
        members.insert(name, value);
        return Ok(());
    }
    let mut inner = members.object(name)?;
    put(&mut inner, rest, value)?;
    members.insert(name, inner.to_raw()?);
    Ok(())
}

/// A head that can't be read.
fn not_a_head() -> CardError {
    CardError::Columns { detail: "The first line of the file must be a header row, in UTF-8.", columns: Vec::new() }
}
