//! CSV in the body of a request, row by row as it arrives.

use bytes::Bytes;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde::de::DeserializeOwned;

use crate::{ByteStream, Error, Result, input::Fields};

/// Bytes of one row, and its fields.
const MAX_ROW: usize = 1 << 20;
const MAX_FIELDS: usize = 1_000;
/// What some programs write before the header row.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The rows of a CSV body, from [`Request::csv`](crate::Request::csv).
///
/// It belongs to the call: once the call is over, reading fails. Dropping it early leaves the rest of the body unread.
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Price {
///     sku: String,
///     cents: i64,
/// }
///
/// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
/// # use cardinal_plugin::testing::{TestHost, TestRequest};
/// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
/// // of `sku;cents` and `L1;990`
/// let mut rows = req.csv(b';').await?;
/// while let Some(price) = rows.next::<Price>().await? {
///     assert_eq!((price.sku.as_str(), price.cents), ("L1", 990));
/// }
/// # Ok(Response::empty())
/// # }
/// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let reply = block_on(host.call(handler, TestRequest::post("/").body("text/csv", "sku;cents\nL1;990\n")));
/// # assert_eq!(reply.status(), 204, "{reply:?}");
/// ```
pub struct CsvRows {
    body: ByteStream,
    parser: Reader,
    /// What has arrived and is not read yet.
    piece: Bytes,
    names: Vec<String>,
    /// Of the row that was read last.
    line: u64,
    /// Of what is read next.
    next_line: u64,
}

impl CsvRows {
    /// Reads the header row.
    pub(super) async fn open(body: ByteStream, separator: u8) -> Result<Self> {
        let parser = ReaderBuilder::new().delimiter(separator).build();
        let mut rows = Self { body, parser, piece: Bytes::new(), names: Vec::new(), line: 1, next_line: 1 };
        let Some(mut names) = rows.row().await? else {
            return Err(Error::unprocessable("The file is empty: it must have a header row."));
        };
        if let Some(first) = names.first_mut() {
            *first = first.trim_start_matches(BYTE_ORDER_MARK).to_owned();
        }
        for (at, name) in names.iter_mut().enumerate() {
            *name = name.trim().to_owned();
            if name.is_empty() {
                return Err(Error::unprocessable(format!("The header row is invalid: column {} has no name.", at + 1)));
            }
        }
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(Error::unprocessable(format!("The header row is invalid: two columns `{}`.", twice.1)));
        }
        rows.names = names;
        Ok(rows)
    }

    /// Returns the names of the columns, from the header row, without the blanks around them.
    ///
    /// ```
    /// use cardinal_plugin::{CsvRows, Error};
    ///
    /// fn check_columns(rows: &CsvRows) -> cardinal_plugin::Result<()> {
    ///     let lacks = |wanted: &&str| !rows.names().iter().any(|name| name == wanted);
    ///     match ["sku", "cents"].into_iter().find(lacks) {
    ///         Some(name) => Err(Error::unprocessable(format!("The file has no column `{name}`."))),
    ///         None => Ok(()),
    ///     }
    /// }
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// # check_columns(&req.csv(b',').await?)?;
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let reply = block_on(host.call(handler, TestRequest::post("/").body("text/csv", "sku, cents \n")));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the line in which the row that was read last begins; the file's first line is 1.
    ///
    /// ```
    /// #[derive(serde::Deserialize)]
    /// struct Price {
    ///     cents: i64,
    /// }
    ///
    /// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// # use cardinal_plugin::testing::{TestHost, TestRequest};
    /// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
    /// // of `sku,cents`, `L1,990` and `L2,0`
    /// let (mut rows, mut free) = (req.csv(b',').await?, Vec::new());
    /// while let Some(price) = rows.next::<Price>().await? {
    ///     if price.cents == 0 {
    ///         free.push(rows.line());
    ///     }
    /// }
    /// assert_eq!(free, [3]);
    /// # Ok(Response::empty())
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let file = TestRequest::post("/").body("text/csv", "sku,cents\nL1,990\nL2,0\n");
    /// # let reply = block_on(host.call(handler, file));
    /// # assert_eq!(reply.status(), 204, "{reply:?}");
    /// ```
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next row as `T`, whose fields have the names of the columns. Returns `None` at the end.
    ///
    /// Text becomes the numbers, booleans and enums that `T` has, and an empty cell is a field that is absent: give it
    /// an `Option` or `#[serde(default)]`. Columns that `T` does not have are ignored. Blank lines are skipped.
    ///
    /// An import that goes on after a bad row collects what is wrong:
    ///
    /// ```
    /// use cardinal_plugin::{Error, Request, Result};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Price {
    ///     sku: String,
    ///     price: f64,
    /// }
    ///
    /// async fn read(req: &Request) -> Result<(Vec<Price>, Vec<String>)> {
    ///     let (mut rows, mut good, mut bad) = (req.csv(b';').await?, Vec::new(), Vec::new());
    ///     loop {
    ///         match rows.next().await {
    ///             Ok(Some(price)) => good.push(price),
    ///             Ok(None) => return Ok((good, bad)),
    ///             Err(error) if error.status() == Some(422) => bad.push(error.message().to_owned()),
    ///             Err(error) => return Err(error),
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// * 422, with the line and the field, for a row that does not fit, has another number of fields, or is not UTF-8;
    ///   the rows after it can be read
    /// * 413 for a row of over 1 MiB or 1,000 fields
    /// * the errors of [`ByteStream::next`]
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some(cells) = self.row().await? else { return Ok(None) };
        let line = self.line;
        if cells.len() != self.names.len() {
            let detail = format!("has {} fields, the header row {}", cells.len(), self.names.len());
            return Err(Error::unprocessable(format!("Line {line} {detail}.")).field(&format!("/{line}"), &detail));
        }
        let mut fields = Fields::default();
        for (name, cell) in self.names.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            fields.set_text(name, cell);
        }
        fields.read_row(line).map(Some)
    }

    /// Passes over blank lines, and reads from the body what is needed for that.
    async fn skip_blank_lines(&mut self) -> Result<()> {
        loop {
            let blank = self.piece.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.advance(blank);
            if !self.piece.is_empty() {
                return Ok(());
            }
            let Some(piece) = self.body.next().await.transpose()? else { return Ok(()) };
            self.piece = piece;
        }
    }

    fn advance(&mut self, bytes: usize) {
        let read = self.piece.split_to(bytes);
        self.next_line += read.iter().filter(|byte| **byte == b'\n').count() as u64;
    }

    /// The cells of the next row.
    async fn row(&mut self) -> Result<Option<Vec<String>>> {
        let (mut text, mut ends) = (vec![0; 1 << 10], vec![0; 1 << 5]);
        let (mut written, mut cells) = (0, 0);
        self.skip_blank_lines().await?;
        self.line = self.next_line;
        loop {
            if self.piece.is_empty() {
                self.piece = self.body.next().await.transpose()?.unwrap_or_default();
            }
            // An empty piece tells the parser that this is the end.
            let (result, read, put, ended) =
                self.parser.read_record(&self.piece, &mut text[written..], &mut ends[cells..]);
            (written, cells) = (written + put, cells + ended);
            self.advance(read);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => grow(&mut text, MAX_ROW, "more than 1 MiB")?,
                ReadRecordResult::OutputEndsFull => grow(&mut ends, MAX_FIELDS, "more than 1,000 fields")?,
                ReadRecordResult::Record => return split(&text, &ends[..cells], self.line).map(Some),
                ReadRecordResult::End => return Ok(None),
            }
        }
    }
}

fn grow<T: Default + Clone>(buffer: &mut Vec<T>, most: usize, what: &str) -> Result<()> {
    if buffer.len() >= most {
        return Err(Error::with_code(413, "payload-too-large", format!("A row of the file has {what}.")));
    }
    buffer.resize((buffer.len() * 2).min(most), T::default());
    Ok(())
}

fn split(text: &[u8], ends: &[usize], line: u64) -> Result<Vec<String>> {
    let mut from = 0;
    let cell = |end: &usize| {
        let cell = text.get(from..*end).unwrap_or_default();
        from = *end;
        let not_text = |_| Error::unprocessable(format!("Line {line} is not UTF-8."));
        std::str::from_utf8(cell).map(str::to_owned).map_err(not_text)
    };
    ends.iter().map(cell).collect()
}

impl std::fmt::Debug for CsvRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvRows").field("names", &self.names).field("line", &self.line).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::block_on;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Price {
        sku: String,
        price: f64,
        stock: Option<u32>,
    }

    fn open(text: &str, separator: u8) -> Result<CsvRows> {
        block_on(CsvRows::open(ByteStream::from_bytes(Bytes::copy_from_slice(text.as_bytes())), separator))
    }

    fn price(sku: &str, price: f64, stock: Option<u32>) -> Price {
        Price { sku: sku.to_owned(), price, stock }
    }

    #[test]
    fn rows_become_the_authors_type() {
        let text = "\u{feff}sku; price ;stock\r\n\"A;\"\"1\"\"\n2\";1.5;7\n\nB;2;\n";
        let mut rows = open(text, b';').unwrap();
        assert_eq!(rows.names(), ["sku", "price", "stock"]);
        let mut next = || block_on(rows.next::<Price>());
        assert_eq!(next().unwrap(), Some(price("A;\"1\"\n2", 1.5, Some(7))));
        assert_eq!(next().unwrap(), Some(price("B", 2.0, None)));
        assert_eq!(next().unwrap(), None);
        assert_eq!(next().unwrap(), None);
    }

    #[test]
    fn a_row_that_does_not_fit_is_named_and_the_others_are_read() {
        let mut rows = open("sku,price,stock\nA,dear,\nB\nC,1,-1\n,1,\nD,4,4", b',').unwrap();
        for (line, pointer) in [(2, "/2/price"), (3, "/3"), (4, "/4/stock"), (5, "/5/sku")] {
            let error = block_on(rows.next::<Price>()).unwrap_err();
            assert!(error.status() == Some(422) && error.message().contains(&format!("Line {line}")), "{error:?}");
            assert!(format!("{error:?}").contains(&format!("\"pointer\":\"{pointer}\"")), "{pointer}: {error:?}");
            assert_eq!(rows.line(), line);
        }
        assert_eq!(block_on(rows.next()).unwrap(), Some(price("D", 4.0, Some(4))));
    }

    #[test]
    fn headers_and_rows_have_bounds() {
        for bad in ["", "a,a\n", "a,,b\n"] {
            assert_eq!(open(bad, b',').unwrap_err().status(), Some(422), "{bad}");
        }
        assert_eq!(open(&"x".repeat(MAX_ROW + 1), b',').unwrap_err().status(), Some(413));
        let header: Vec<String> = (0..=MAX_FIELDS).map(|n| n.to_string()).collect();
        assert_eq!(open(&header.join(","), b',').unwrap_err().status(), Some(413));
        assert!(open(&header[1..].join(","), b',').is_ok());
        let bytes = ByteStream::from_bytes(Bytes::from_static(b"a\n\xff\n"));
        let mut rows = block_on(CsvRows::open(bytes, b',')).unwrap();
        assert_eq!(block_on(rows.next::<Price>()).unwrap_err().status(), Some(422));
    }
}
