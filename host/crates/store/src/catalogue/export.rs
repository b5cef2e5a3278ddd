//! Cards on their way out, all of them at one moment, in memory that does not grow with them.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde::Serialize;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::cards::export::Rows;
use crate::error::StoreError;
use cardinal_cards::{
    card::{Card, PartialCard},
    filter::ListQuery,
};
use cardinal_database::pool::Pool;

/// Exports that one host sends at the same time: each keeps a connection.
const MAX_EXPORTS: usize = 4;
/// When one who came too many may ask again.
const RETRY_SECONDS: u32 = 10;
/// Bytes that are put together before they are sent; a card may be larger.
const PIECE: usize = 64 << 10;
/// What an export sees is kept by the database until it is over, and what others delete meanwhile piles up there.
const MAX_DURATION: Duration = Duration::from_secs(6 * 3600);

/// How cards are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line of JSON each, as the API shows a card.
    Ndjson,
    /// Names of columns, then a record each; `attributes` is JSON.
    Csv,
    /// The same to be opened in a spreadsheet, which would compute some texts: these get an apostrophe, wherever a
    /// spreadsheet that separates by commas, semicolons or tabs begins a cell. An import takes it as part of the text,
    /// since a text may begin with one of its own. `attributes` stays the same data: JSON has escapes.
    CsvForSpreadsheets,
}

/// Who may export now.
pub(super) struct Exports(Arc<Semaphore>);

impl Default for Exports {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_EXPORTS)))
    }
}

struct Export {
    rows: Rows,
    format: Format,
    fields: Vec<&'static str>,
    started: Instant,
    over: bool,
    _permit: OwnedSemaphorePermit,
}

impl Exports {
    /// The cards that `query` picks, piece by piece. An error in the middle has to break the answer off: a file that
    /// merely ended would pass for a whole one.
    pub(super) async fn begin(
        &self,
        pool: &Pool,
        query: &ListQuery,
        ids: Option<Vec<Uuid>>,
        format: Format,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, StoreError> {
        let (filter, fields) = (query.filter()?, fields(query)?);
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let detail = format!("{MAX_EXPORTS} exports are running on this host, which is the maximum.");
            StoreError::Busy { detail, retry_after: RETRY_SECONDS }
        })?;
        let rows = Rows::open(pool, &filter, ids).await?;
        let mut export = Export { rows, format, fields, started: Instant::now(), over: false, _permit: permit };
        // What goes wrong before the first bytes is an answer of its own.
        let first = export.piece(true).await?;
        Ok(stream::unfold((Some(first), export), |(first, mut export)| async move {
            let piece = match first {
                Some(first) => Ok(first),
                None if export.over => return None,
                None => export.piece(false).await,
            };
            let piece = piece.map_err(|error| {
                tracing::error!(error = ?error, "an export was aborted");
                export.over = true;
                io::Error::other(error)
            });
            Some((piece, (None, export)))
        }))
    }
}

/// The members of a line, the columns of a record.
fn fields(query: &ListQuery) -> Result<Vec<&'static str>, StoreError> {
    const ALL: [&str; 8] = ["id", "sku", "title", "status", "attributes", "version", "created_at", "updated_at"];
    let deleted_at = query.filter()?.deleted.then_some("deleted_at");
    let wanted = query.fields()?;
    let is_wanted = |name: &&str| wanted.as_ref().is_none_or(|wanted| wanted.contains(name));
    Ok(ALL.into_iter().filter(is_wanted).chain(deleted_at).collect())
}

impl Export {
    async fn piece(&mut self, head: bool) -> Result<Bytes, StoreError> {
        let mut out = Vec::with_capacity(PIECE + PIECE / 4);
        if head && self.format != Format::Ndjson {
            let names = self.fields.iter().map(|name| (*name).to_owned());
            match self.format {
                Format::CsvForSpreadsheets => quoted_record(&mut out, names)?,
                _ => record(&mut out, names)?,
            }
        }
        while out.len() < PIECE {
            let Some(card) = self.rows.next().await? else {
                self.over = true;
                break;
            };
            match self.format {
                Format::Ndjson => self.line(&mut out, card)?,
                Format::Csv => record(&mut out, self.cells(&card)?)?,
                Format::CsvForSpreadsheets => {
                    let cells = self.fields.iter().zip(self.cells(&card)?);
                    quoted_record(&mut out, cells.map(|(name, cell)| guarded(name, cell)))?;
                }
            }
        }
        if self.started.elapsed() > MAX_DURATION {
            return Err(StoreError::internal(anyhow::anyhow!("an export was not finished after {MAX_DURATION:?}")));
        }
        Ok(out.into())
    }

    fn line(&self, out: &mut Vec<u8>, card: Card) -> Result<(), StoreError> {
        let whole = self.fields.len() >= 8;
        let written = if whole { write(out, &card) } else { write(out, &PartialCard::new(card, &self.fields)) };
        written.map_err(StoreError::internal)
    }

    fn cells(&self, card: &Card) -> Result<Vec<String>, StoreError> {
        let time = |at: time::OffsetDateTime| at.format(&Rfc3339).map_err(StoreError::internal);
        let cell = |name: &&str| {
            Ok(match *name {
                "id" => card.id.to_string(),
                "sku" => card.sku.clone(),
                "title" => card.title.clone(),
                "status" => card.status.clone(),
                "attributes" => card.attributes.get().to_owned(),
                "version" => card.version.to_string(),
                "created_at" => time(card.created_at)?,
                "updated_at" => time(card.updated_at)?,
                _ => card.deleted_at.map(time).transpose()?.unwrap_or_default(),
            })
        };
        self.fields.iter().map(cell).collect()
    }
}

/// A cell as a spreadsheet may open it.
fn guarded(name: &str, cell: String) -> String {
    if name == "attributes" { without_separators(cell) } else { not_computed(cell) }
}

/// What ends a cell, or the line, for a spreadsheet that separates by something else than we do. A comma does not:
/// cells that hold one are quoted for readers that separate by commas.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];
/// What begins a text that is computed (OWASP, "CSV Injection"), the full-width ones in some languages.
const LEADS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// JSON in which a semicolon stands only as an escape; it has no tabs and line breaks outside of escapes.
fn without_separators(json: String) -> String {
    if json.contains(';') { json.replace(';', "\\u003b") } else { json }
}

/// The text with an apostrophe before each part that could become a cell and be computed. A plain number like -5 is
/// what it is, as a whole cell: as a part it runs on into what follows it.
fn not_computed(cell: String) -> String {
    let is_harmless = |part: &str| {
        let text = part.trim_end_matches(SEPARATORS).trim_start_matches([' ', '"', '\u{a0}']);
        !text.starts_with(LEADS)
    };
    let is_whole_harmless = !cell.starts_with(LEADS) && is_harmless(&cell) || is_number(&cell);
    if is_whole_harmless && !cell.contains(SEPARATORS) {
        return cell;
    }
    let mut safe = String::with_capacity(cell.len() + 4);
    for (index, part) in cell.split_inclusive(SEPARATORS).enumerate() {
        let is_safe = if index == 0 { is_whole_harmless } else { is_harmless(part) };
        if !is_safe {
            safe.push('\'');
        }
        safe.push_str(part);
    }
    safe
}

fn is_number(cell: &str) -> bool {
    let signed = cell.strip_prefix(['+', '-']).unwrap_or(cell);
    let (whole, part) = signed.split_once('.').unwrap_or((signed, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(part)
}

fn write(out: &mut Vec<u8>, card: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, card)?;
    out.push(b'\n');
    Ok(())
}

fn record(out: &mut Vec<u8>, cells: impl IntoIterator<Item = String>) -> Result<(), StoreError> {
    write_record(csv::Writer::from_writer(out), cells)
}

/// A spreadsheet that separates by several characters at once keeps a quoted cell whole.
fn quoted_record(out: &mut Vec<u8>, cells: impl IntoIterator<Item = String>) -> Result<(), StoreError> {
    write_record(csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(out), cells)
}

fn write_record(
    mut writer: csv::Writer<&mut Vec<u8>>,
    cells: impl IntoIterator<Item = String>,
) -> Result<(), StoreError> {
    writer.write_record(cells).map_err(StoreError::internal)?;
    writer.flush().map_err(StoreError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_computes_no_cell_and_keeps_its_numbers() {
        for cell in [
            "=1+1", "+A1", "-A1", "@SUM(1)", "\tx", "\rx", "\nx", "-1+2", "-5.", "-.5", "--5", "-", "+", "-5-", "＝1",
            " =1", "\"=1\"",
        ] {
            assert_eq!(not_computed(cell.to_owned()), format!("'{cell}"));
        }
        for cell in
            ["", "-5", "+49123", "-5.25", "007", "plain", "a=1", "'=1", "{\"a\":\"=1\"}", "2026-03-01T00:00:00Z"]
        {
            assert_eq!(not_computed(cell.to_owned()), cell);
        }
    }

    #[test]
    fn no_part_of_a_cell_is_computed_where_another_character_separates() {
        for (cell, safe) in [
            ("a;=1", "a;'=1"),
            ("a; \"=1", "a;' \"=1"),
            ("a;-5", "a;'-5"),
            ("-5;1", "'-5;1"),
            ("a\t@x\n+y", "a\t'@x\n'+y"),
            ("=a;=b", "'=a;'=b"),
            ("a;b;c", "a;b;c"),
            ("a\r\n\r\nb", "a\r\n\r\nb"),
            ("a,=1", "a,=1"),
        ] {
            assert_eq!(not_computed(cell.to_owned()), safe);
        }
        let attributes = r#"{"a": ";=1", "b": -5}"#;
        let safe = guarded("attributes", attributes.to_owned());
        assert!(!safe.contains(SEPARATORS), "{safe}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&safe), read(attributes));
    }

    /// Cells as a spreadsheet reads them: quotes count where they begin a cell, and `separators` end one.
    fn cells(line: &str, separators: &[char]) -> Vec<String> {
        let (mut cells, mut cell, mut quoted, mut keys) = (Vec::new(), String::new(), false, line.chars().peekable());
        while let Some(key) = keys.next() {
            match key {
                '"' if quoted && keys.peek() == Some(&'"') => cell.extend(keys.next()),
                '"' if quoted => quoted = false,
                '"' if cell.is_empty() => quoted = true,
                key if !quoted && separators.contains(&key) => cells.push(std::mem::take(&mut cell)),
                key => cell.push(key),
            }
        }
        cells.push(cell);
        cells
    }

    proptest::proptest! {
        #[test]
        fn whatever_separates_nothing_is_computed(texts in proptest::collection::vec("[-=+@a;,\t\n\r\" ']{0,12}", 1..4)) {
            let mut out = Vec::new();
            let id = std::iter::once("0199".to_owned());
            quoted_record(&mut out, id.chain(texts.into_iter().map(not_computed))).unwrap();
            let line = String::from_utf8(out).unwrap();
            for separators in [&[',', '\n'][..], &[';', '\n', '\r'], &['\t', '\n', '\r'], &[',', ';', '\t', '\n']] {
                for cell in cells(line.trim_end_matches('\n'), separators) {
                    let text = cell.trim_start_matches([' ', '"']);
                    proptest::prop_assert!(!text.trim_matches(SEPARATORS).starts_with(LEADS) || is_number(&cell), "{cell:?} of {line:?}");
                }
            }
        }
    }
}
