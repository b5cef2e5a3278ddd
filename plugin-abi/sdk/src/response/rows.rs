//! A query's rows as a reply: JSON, lines of JSON, CSV.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;
use postgres_types::ToSql;
use serde_json::Value;

use super::Response;
use crate::{
    Connection, OwnedRows, Result, ToStatement,
    database::json::{self, Encoder},
};

/// A piece of the reply is sent when it has this size.
const PIECE: usize = 16 << 10;

/// How [`Response::rows`] writes rows.
///
/// ```
/// use cardinal_plugin::RowFormat;
///
/// fn format(req: &cardinal_plugin::Request) -> RowFormat {
///     match req.header("accept") {
///         Some("text/csv") => RowFormat::Csv,
///         Some("application/x-ndjson") => RowFormat::NdJson,
///         _ => RowFormat::Json,
///     }
/// }
/// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
/// # use cardinal_plugin::testing::{TestHost, TestRequest};
/// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
/// # assert_eq!(format(&req), RowFormat::Csv);
/// # Ok(Response::empty())
/// # }
/// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let reply = block_on(host.call(handler, TestRequest::get("/").header("accept", "text/csv")));
/// # assert_eq!(reply.status(), 204, "{reply:?}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowFormat {
    /// A JSON array of objects: `[{"id":1,"text":"a"},...]`.
    Json,
    /// A JSON object on each line (`application/x-ndjson`): a reader need not wait for the end.
    NdJson,
    /// Comma-separated values with a line of names (RFC 4180, UTF-8). NULL is an empty field, an empty text `""`. Texts
    /// stay as they are: spreadsheets take one that begins with `=` for a formula.
    Csv,
}

impl RowFormat {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::NdJson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

impl Response {
    /// Answers with the rows of a query, streamed in constant memory.
    ///
    /// The reply keeps the connection until its last row is sent, so it takes it whole. A client that reads slowly
    /// holds the connection that long; it is one of the plugin's 4.
    ///
    /// These types can be written: booleans, whole and floating numbers, texts, enums, `uuid`, `date`, `time`,
    /// `timestamp`, `timestamptz` (RFC 3339), `json`, `jsonb`, domains over them, and one-dimensional arrays of them.
    /// `numeric` is a text with every digit. For others say `::text` in the SQL.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest, lacks_database};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, RowFormat, block_on};
    ///
    /// async fn export(ctx: PluginContext, _req: Request) -> Result<Response> {
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let reply = Response::rows(conn, "SELECT id, text FROM notes ORDER BY id", &[], RowFormat::Csv).await?;
    ///     Ok(reply.header("content-disposition", "attachment; filename=\"notes.csv\""))
    /// }
    ///
    /// if lacks_database() {
    ///     return;
    /// }
    /// let schema = "CREATE TABLE notes (id int PRIMARY KEY, text text); INSERT INTO notes VALUES (1, 'check, then sell')";
    /// let routes = |_: &PluginContext| Router::new().get("/export", export);
    /// let host = TestHost::builder(r#"{ "name": "notes", "version": "1.0.0", "backend": {} }"#).database(schema).start(routes);
    /// assert_eq!(block_on(host.send(TestRequest::get("/export"))).text(), "id,text\r\n1,\"check, then sell\"\r\n");
    /// ```
    ///
    /// # Errors
    /// Those of [`Connection::query_stream`], and an internal error for a column whose type cannot be written; all
    /// before anything is sent. A later error cuts the reply off.
    pub async fn rows<T>(
        conn: Connection,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
        format: RowFormat,
    ) -> Result<Self>
    where
        T: ToStatement + ?Sized,
    {
        let rows = conn.into_rows(statement, params).await?;
        let encoders = rows.columns().iter().map(json::encoder).collect::<Result<Vec<_>>>()?;
        let names = rows.columns().iter().map(|column| column.name().to_owned()).collect();
        let writer = Writer { rows, encoders, names, format, state: State::Begin, piece: Vec::new() };
        Ok(Self::stream(format.content_type(), writer))
    }
}

enum State {
    Begin,
    Rows { is_first: bool },
    Over,
}

struct Writer {
    rows: OwnedRows,
    encoders: Vec<Encoder>,
    names: Vec<String>,
    format: RowFormat,
    state: State,
    piece: Vec<u8>,
}

impl Stream for Writer {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.piece.len() >= PIECE {
                return Poll::Ready(Some(Ok(std::mem::take(&mut this.piece).into())));
            }
            match this.state {
                State::Begin => {
                    this.begin();
                    this.state = State::Rows { is_first: true };
                }
                State::Rows { is_first } => match Pin::new(&mut this.rows).poll_next(cx) {
                    // What is there goes out while the next rows are on their way.
                    Poll::Pending if this.piece.is_empty() => return Poll::Pending,
                    Poll::Pending => return Poll::Ready(Some(Ok(std::mem::take(&mut this.piece).into()))),
                    Poll::Ready(Some(row)) => {
                        if let Err(error) = row.and_then(|row| this.row(&row, is_first)) {
                            this.state = State::Over;
                            this.piece.clear();
                            return Poll::Ready(Some(Err(error)));
                        }
                        this.state = State::Rows { is_first: false };
                    }
                    Poll::Ready(None) => {
                        this.state = State::Over;
                        if this.format == RowFormat::Json {
                            this.piece.push(b']');
                        }
                    }
                },
                State::Over if this.piece.is_empty() => return Poll::Ready(None),
                State::Over => return Poll::Ready(Some(Ok(std::mem::take(&mut this.piece).into()))),
            }
        }
    }
}

impl Writer {
    fn begin(&mut self) {
        match self.format {
            RowFormat::Json => self.piece.push(b'['),
            RowFormat::NdJson => {}
            RowFormat::Csv => {
                for at in 0..self.names.len() {
                    separate(&mut self.piece, at);
                    push_field(&mut self.piece, &self.names[at]);
                }
                self.piece.extend_from_slice(b"\r\n");
            }
        }
    }

    fn row(&mut self, row: &crate::Row, is_first: bool) -> Result<()> {
        if self.format == RowFormat::Csv {
            return self.csv_row(row);
        }
        if !is_first && self.format == RowFormat::Json {
            self.piece.push(b',');
        }
        self.piece.push(b'{');
        for (at, encoder) in self.encoders.iter().enumerate() {
            separate(&mut self.piece, at);
            serde_json::to_writer(&mut self.piece, &self.names[at])?;
            self.piece.push(b':');
            serde_json::to_writer(&mut self.piece, &encoder(row, at)?)?;
        }
        self.piece.push(b'}');
        if self.format == RowFormat::NdJson {
            self.piece.push(b'\n');
        }
        Ok(())
    }

    fn csv_row(&mut self, row: &crate::Row) -> Result<()> {
        for (at, encoder) in self.encoders.iter().enumerate() {
            separate(&mut self.piece, at);
            match encoder(row, at)? {
                Value::Null => {}
                Value::String(text) => push_field(&mut self.piece, &text),
                other => push_field(&mut self.piece, &other.to_string()),
            }
        }
        self.piece.extend_from_slice(b"\r\n");
        Ok(())
    }
}

fn separate(piece: &mut Vec<u8>, at: usize) {
    if at > 0 {
        piece.push(b',');
    }
}

/// A field, in quotes where it needs them.
fn push_field(piece: &mut Vec<u8>, text: &str) {
    if !text.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        return piece.extend_from_slice(text.as_bytes());
    }
    piece.push(b'"');
    piece.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    piece.push(b'"');
}
