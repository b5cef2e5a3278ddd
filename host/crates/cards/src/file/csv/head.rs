//! The line that names the columns.

use csv_core::{ReadRecordResult, ReaderBuilder};

use super::{COLUMNS, not_a_head};
use crate::{
    error::{CardError, FieldError},
    row::{Mode, Terms},
};
use cardinal_base::input::escape;

const ATTRIBUTES: &str = "attributes";
/// What the name of a column begins with that is to be left out.
const IGNORED: &str = "ignored.";

/// What a column holds.
pub(super) enum Column {
    Title,
    Sku,
    Status,
    /// All of them, as JSON.
    Attributes,
    /// One of them.
    Attribute {
        name: String,
        path: Vec<String>,
    },
    Id,
    /// What an export has and an import can't bring back.
    Passed(String),
    /// What the file's owner leaves out.
    Ignored(String),
}

impl Column {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Title => "title",
            Self::Sku => "sku",
            Self::Status => "status",
            Self::Attributes => ATTRIBUTES,
            Self::Id => "id",
            Self::Attribute { name, .. } | Self::Passed(name) | Self::Ignored(name) => name,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "title" => Self::Title,
            "sku" => Self::Sku,
            "status" => Self::Status,
            ATTRIBUTES => Self::Attributes,
            "id" => Self::Id,
            passed @ ("version" | "created_at" | "updated_at" | "deleted_at") => Self::Passed(passed.to_owned()),
            _ if name.starts_with(IGNORED) => Self::Ignored(name.to_owned()),
            _ => {
                let path: Vec<String> = name.strip_prefix("attributes.")?.split('.').map(str::to_owned).collect();
                if path.iter().any(|part| part.is_empty() || part.contains('\0'))
                    || path[0] == "sources"
                    || path.len() > 60
                {
                    return None;
                }
                Self::Attribute { name: name.to_owned(), path }
            }
        })
    }

    /// Whether both say something of the same attribute.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Attribute { path: one, .. }, Self::Attribute { path: two, .. }) => {
                one.starts_with(two) || two.starts_with(one)
            }
            (Self::Ignored(_), _) | (_, Self::Ignored(_)) => false,
            _ => self.name() == other.name(),
        }
    }
}

pub(super) struct Head {
    pub columns: Vec<Column>,
}

impl Head {
    /// The columns and what stands between them; everything that is wrong, at once.
    pub(super) fn read(line: &[u8], terms: &Terms) -> Result<(u8, Self), CardError> {
        let text = std::str::from_utf8(line).map_err(|_| not_a_head())?;
        let delimiter = delimiter(text);
        let mut faults = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        for (at, name) in names(text, delimiter)?.iter().enumerate() {
            let pointer = format!("/{}", escape(name));
            let Some(column) = Column::named(name) else {
                let detail = match name.strip_prefix("attributes.") {
                    None if name.is_empty() => format!("Column {} has no name.", at + 1),
                    None => format!(
                        "Unknown column. Rename it to attributes.{name} to import it as an attribute, or to \
                         {IGNORED}{name} to leave it out."
                    ),
                    Some(_) => "Unknown column. No attribute can have this name: rename it, or remove it.".to_owned(),
                };
                faults.push((pointer, detail));
                continue;
            };
            if columns.iter().any(|other| other.meets(&column)) {
                faults.push((pointer, "Another column sets this, too.".to_owned()));
            }
            columns.push(column);
        }
        let has = |wanted: &str| columns.iter().any(|column| column.name() == wanted);
        for (name, needed) in [("sku", true), ("title", terms.mode == Mode::Create)] {
            if needed && !has(name) {
                faults.push((format!("/{name}"), "This column is required.".to_owned()));
            }
        }
        if faults.is_empty() {
            return Ok((delimiter, Self { columns }));
        }
        let columns = faults.into_iter().map(|(pointer, detail)| FieldError { pointer, detail }).collect();
        Err(CardError::Columns { detail: "The header row is not valid.", columns })
    }
}

/// Spreadsheets write commas, semicolons or tabs, whatever their country is used to.
fn delimiter(line: &str) -> u8 {
    let count = |byte: u8| line.bytes().filter(|found| *found == byte).count();
    let delimiter = [b'\t', b';', b','].into_iter().max_by_key(|byte| count(*byte));
    delimiter.filter(|byte| count(*byte) > 0).unwrap_or(b',')
}

fn names(line: &str, delimiter: u8) -> Result<Vec<String>, CardError> {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut out, mut ends) = (vec![0; line.len() + 1], vec![0; COLUMNS]);
    let (mut filled, mut fields, mut input) = (0, 0, line.as_bytes());
    loop {
        let (result, read, more, found) = reader.read_record(input, &mut out[filled..], &mut ends[fields..]);
        (filled, fields, input) = (filled + more, fields + found, &input[read..]);
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::Record | ReadRecordResult::End => break,
            ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => return Err(not_a_head()),
        }
    }
    let mut start = 0;
    let name = |end: &usize| {
        let cell = std::str::from_utf8(&out[start..*end]).map(|cell| cell.trim_matches(' ').to_owned());
        start = *end;
        cell.map_err(|_| not_a_head())
    };
    ends[..fields].iter().map(name).collect()
}
