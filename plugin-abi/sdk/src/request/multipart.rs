//! Forms with files (`multipart/form-data`, RFC 7578), part by part as they arrive.

mod part;

use bytes::{Bytes, BytesMut};

pub use self::part::Part;
use crate::{ByteStream, Error, Result};

const MAX_PARTS: usize = 1_000;
const MAX_PART_HEADERS: usize = 8 << 10;
/// RFC 2046 allows no longer one.
const MAX_BOUNDARY: usize = 70;

/// The parts of a form, from [`Request::multipart`](crate::Request::multipart).
///
/// It belongs to the call: once the call is over, reading fails. Dropping it early leaves the rest of the body unread.
///
/// ```
/// # use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
/// # use cardinal_plugin::testing::{TestHost, TestRequest};
/// # async fn handler(ctx: PluginContext, req: Request) -> Result<Response> {
/// // of a form with the field `supplier`
/// let mut form = req.multipart()?;
/// while let Some(part) = form.next().await? {
///     let (name, value) = (part.name().to_owned(), part.text(100).await?);
///     assert_eq!((name.as_str(), value.as_str()), ("supplier", "oak-and-co"));
/// }
/// # Ok(Response::empty())
/// # }
/// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let reply = block_on(host.call(handler, TestRequest::post("/").body("multipart/form-data; boundary=x", FORM)));
/// # assert_eq!(reply.status(), 204, "{reply:?}");
/// # const FORM: &str = "--x\r\nContent-Disposition: form-data; name=\"supplier\"\r\n\r\noak-and-co\r\n--x--\r\n";
/// ```
pub struct Multipart {
    body: ByteStream,
    buffer: BytesMut,
    /// What stands between two parts: a line break, two hyphens and the boundary.
    delimiter: Vec<u8>,
    place: Place,
    parts: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Before a delimiter: in a part, or ahead of the first.
    Within,
    /// Right behind one.
    Behind,
    End,
}

impl Multipart {
    pub(super) fn open(body: ByteStream, content_type: &str) -> Result<Self> {
        let boundary = boundary(content_type).ok_or_else(|| {
            Error::with_code(415, "unsupported-media-type", "The body must be multipart/form-data with a boundary.")
        })?;
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // As if the first delimiter followed a line, like all others.
        Ok(Self { body, buffer: BytesMut::from("\r\n"), delimiter, place: Place::Within, parts: 0 })
    }

    /// Returns the next part; `None` at the end. It skips what was not read of the part before.
    ///
    /// ```
    /// use cardinal_plugin::{Request, Result};
    ///
    /// /// The names of the files, which are not read.
    /// async fn file_names(req: &Request) -> Result<Vec<String>> {
    ///     let (mut form, mut names) = (req.multipart()?, Vec::new());
    ///     while let Some(part) = form.next().await? {
    ///         names.extend(part.file_name().map(str::to_owned));
    ///     }
    ///     Ok(names)
    /// }
    /// # use cardinal_plugin::{PluginContext, Response, Router, block_on, testing::{TestHost, TestRequest}};
    /// # async fn handler(_: PluginContext, req: Request) -> Result<Response> {
    /// #     Ok(Response::text(file_names(&req).await?.join(",")))
    /// # }
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let form = "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"lamp.png\"\r\n\r\nGIF\r\n--x--\r\n";
    /// # let request = TestRequest::post("/").body("multipart/form-data; boundary=x", form);
    /// # let reply = block_on(host.call(handler, request));
    /// # assert_eq!(reply.text(), "lamp.png");
    /// ```
    ///
    /// # Errors
    /// * 400 for a form that is damaged or breaks off, has more than 1,000 parts, or a part with more than 8 KiB of
    ///   headers or without a name
    /// * the errors of [`ByteStream::next`]
    pub async fn next(&mut self) -> Result<Option<Part<'_>>> {
        while self.place == Place::Within {
            self.piece().await?;
        }
        if self.place == Place::End || self.is_last().await? {
            return Ok(None);
        }
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(malformed(&format!("it has more than {MAX_PARTS} parts")));
        }
        let head = self.head().await?;
        self.place = Place::Within;
        let (mut name, mut file_name, mut content_type) = (None, None, None);
        for line in head.split("\r\n") {
            let Some((header, value)) = line.split_once(':') else { continue };
            match header.trim().to_ascii_lowercase().as_str() {
                "content-disposition" => {
                    (name, file_name) = (parameter(value, "name"), parameter(value, "filename"));
                }
                "content-type" => content_type = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let name = name.ok_or_else(|| malformed("a part has no name"))?;
        Ok(Some(Part { form: self, name, file_name, content_type }))
    }

    /// Whether the delimiter that was just read ends the form; else its line ends here.
    async fn is_last(&mut self) -> Result<bool> {
        loop {
            if self.buffer.starts_with(b"--") {
                self.place = Place::End;
                return Ok(true);
            }
            let blank = self.buffer.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            if self.buffer[blank..].starts_with(b"\r\n") {
                // The line break stays: it may be half of the one that ends an empty head.
                let _ = self.buffer.split_to(blank);
                return Ok(false);
            }
            if self.buffer.len() > blank + 1 || blank > MAX_BOUNDARY {
                return Err(malformed("something stands behind a boundary"));
            }
            self.read().await?;
        }
    }

    async fn head(&mut self) -> Result<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.split_to(end + 4);
                return String::from_utf8(head.to_vec()).map_err(|_| malformed("the headers of a part are not UTF-8"));
            }
            if self.buffer.len() > MAX_PART_HEADERS {
                return Err(malformed("the headers of a part are too long"));
            }
            self.read().await?;
        }
    }

    /// What there is of the part up to its delimiter; `None` when that was reached.
    async fn piece(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.place != Place::Within {
                return Ok(None);
            }
            if let Some(at) = find(&self.buffer, &self.delimiter) {
                let piece = self.buffer.split_to(at).freeze();
                let _ = self.buffer.split_to(self.delimiter.len());
                self.place = Place::Behind;
                return Ok(Some(piece).filter(|piece| !piece.is_empty()));
            }
            // The end of what is here may be the beginning of a delimiter.
            let safe = self.buffer.len().saturating_sub(self.delimiter.len() - 1);
            if safe > 0 {
                return Ok(Some(self.buffer.split_to(safe).freeze()));
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<()> {
        match self.body.next().await {
            Some(piece) => {
                self.buffer.extend_from_slice(&piece?);
                Ok(())
            }
            None => Err(malformed("it breaks off")),
        }
    }
}

impl std::fmt::Debug for Multipart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Multipart").field("parts", &self.parts).field("place", &self.place).finish_non_exhaustive()
    }
}

fn malformed(reason: &str) -> Error {
    Error::bad_request(format!("The form cannot be read: {reason}."))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn boundary(content_type: &str) -> Option<String> {
    let (kind, _) = content_type.split_once(';')?;
    let boundary = parameter(content_type, "boundary")?;
    let is_plain =
        (1..=MAX_BOUNDARY).contains(&boundary.len()) && boundary.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (kind.trim().eq_ignore_ascii_case("multipart/form-data") && is_plain).then_some(boundary)
}

/// A parameter behind a header's value: `name` of `form-data; name="a \"b\""`.
fn parameter(value: &str, wanted: &str) -> Option<String> {
    let mut rest = value.split_once(';')?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let (found, behind) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let (plain, behind) = after.split_once(';').unwrap_or((after, ""));
                (plain.trim().to_owned(), behind)
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(found);
        }
        rest = behind.trim_start().strip_prefix(';').unwrap_or(behind);
    }
}

/// The text up to the closing quote, and what is behind it. Browsers write a quote as `%22`, others as `\"`.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut found, mut letters) = (String::new(), text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((found.replace("%22", "\""), &text[at + 1..])),
            '\\' if text[at + 1..].starts_with(['"', '\\']) => found.extend(letters.next().map(|(_, letter)| letter)),
            _ => found.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{block_on, scope::Scope, stream::give};

    const TYPE: &str = "multipart/form-data; boundary=\"-x\"";
    const FORM: &str = "ahead\r\n---x\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nA \"lamp\"\r\n---x  \r\n\
        content-disposition: form-data; filename=\"a\\\"b%22.csv\"; name=file\r\nContent-Type: text/csv\r\n\r\na,b\r\n---y\r\n\
        ---x\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n---x--\r\nbehind";

    /// The form in pieces of this size.
    fn open(form: &'static str, size: usize) -> Multipart {
        let pieces: Vec<_> = form.as_bytes().chunks(size).map(|piece| Ok(Bytes::from_static(piece))).collect();
        let body = ByteStream::new(give(Scope { ctx: 0, call: 0, runtime: None }, futures_util::stream::iter(pieces)));
        Multipart::open(body, TYPE).unwrap()
    }

    async fn read(form: &mut Multipart) -> Result<Vec<(String, Option<String>, String)>> {
        let mut found = Vec::new();
        while let Some(part) = form.next().await? {
            let (name, file) = (part.name().to_owned(), part.file_name().map(str::to_owned));
            found.push((name, file, part.text(1_000).await?));
        }
        Ok(found)
    }

    #[test]
    fn parts_are_read_however_they_arrive() {
        let expected =
            [("title", None, "A \"lamp\""), ("file", Some("a\"b\".csv"), "a,b\r\n---y"), ("empty", None, "")];
        let expected = expected.map(|(name, file, text)| (name.to_owned(), file.map(str::to_owned), text.to_owned()));
        for size in [1, 2, 3, 7, 1_000] {
            assert_eq!(block_on(read(&mut open(FORM, size))).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn what_is_not_wanted_is_passed_over_and_what_is_too_large_refused() {
        let mut form = open(FORM, 5);
        block_on(async {
            assert_eq!(form.next().await.unwrap().unwrap().name(), "title");
            let file = form.next().await.unwrap().unwrap();
            assert_eq!(file.content_type(), Some("text/csv"));
            assert_eq!(file.bytes(4).await.unwrap_err().status(), Some(413));
            assert_eq!(form.next().await.unwrap().unwrap().name(), "empty");
            assert!(form.next().await.unwrap().is_none() && form.next().await.unwrap().is_none());
        });
    }

    #[test]
    fn damaged_forms_are_refused() {
        let long: &str = Box::leak(format!("---x\r\nA: {}", "a".repeat(MAX_PART_HEADERS + 10)).into_boxed_str());
        let many: &str = Box::leak(
            "---x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n".repeat(MAX_PARTS + 1).into_boxed_str(),
        );
        for bad in ["", "---x", "---x\r\n", "---xx\r\n\r\n", "---x\r\n\r\nno name\r\n---x--", &FORM[..60], long, many] {
            let error = block_on(read(&mut open(bad, 64))).unwrap_err();
            assert_eq!(error.status(), Some(400), "{bad}: {error:?}");
        }
        for kind in
            ["text/csv", "multipart/form-data", "multipart/form-data; boundary=\"\"", "multipart/mixed; boundary=a"]
        {
            assert_eq!(Multipart::open(ByteStream::default(), kind).unwrap_err().status(), Some(415), "{kind}");
        }
    }
}
