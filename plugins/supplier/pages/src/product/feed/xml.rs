//! XML: RSS and Atom with Google's fields, YML, lists of products, sitemaps. Read event by event; entities that the
//! document declares itself are left out.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::{FeedError, MAX_ENTRIES, Record};

const MAX_DEPTH: usize = 64;
/// Elements that are a product each.
const ENTRIES: [&str; 5] = ["item", "entry", "product", "offer", "shopitem"];

pub(super) enum Found {
    Records(Vec<Record>),
    Pages(Vec<String>),
    Sitemaps(Vec<String>),
}

#[derive(Default)]
struct Document {
    /// The elements around the place that is read.
    path: Vec<String>,
    /// The text of the innermost element so far.
    text: String,
    /// The entry that is read, and how deep it stands.
    entry: Option<(Record, usize)>,
    records: Vec<Record>,
    addresses: Vec<String>,
    root: String,
}

pub(super) fn read(file: &str) -> Result<Found, FeedError> {
    let mut reader = Reader::from_str(file);
    let mut document = Document::default();
    loop {
        let event = reader.read_event().map_err(|error| FeedError::Damaged(error.to_string()))?;
        match event {
            Event::Start(tag) => document.start(&tag)?,
            Event::Empty(tag) => {
                document.start(&tag)?;
                document.end();
            }
            Event::End(_) => document.end(),
            Event::Text(text) => document.text.push_str(&text),
            Event::CData(text) => document.text.push_str(&text),
            Event::GeneralRef(entity) => document.entity(&entity),
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
        if document.records.len().max(document.addresses.len()) >= MAX_ENTRIES {
            return Ok(document.found());
        }
    }
    if document.path.is_empty() { Ok(document.found()) } else { Err(FeedError::Damaged("it ends too early".into())) }
}

impl Document {
    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), FeedError> {
        if self.path.len() >= MAX_DEPTH {
            return Err(FeedError::Format);
        }
        let name = tag.local_name().as_ref().to_ascii_lowercase();
        if self.path.is_empty() {
            self.root.clone_from(&name);
        }
        self.text.clear();
        self.path.push(name);
        let name = self.path.last().map(String::as_str).unwrap_or_default();
        if self.entry.is_none() && ENTRIES.contains(&name) {
            self.entry = Some((Record::default(), self.path.len()));
        }
        if let Some((record, _)) = &mut self.entry {
            for attribute in tag.attributes().flatten() {
                let key = attribute.key.local_name();
                // `<offer id="7">`, and Atom's `<link href="...">`.
                let name = if key.as_ref() == "href" { name } else { key.as_ref() };
                if matches!(name, "id" | "link" | "sku") {
                    record.add(name, &attribute.value);
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        let depth = self.path.len();
        let name = self.path.pop().unwrap_or_default();
        match &mut self.entry {
            Some((_, begun)) if *begun == depth => {
                self.records.extend(self.entry.take().map(|(record, _)| record));
            }
            // Only its own fields: the price of its shipping is another one's.
            Some((record, begun)) if *begun + 1 == depth => record.add(&name, &self.text),
            Some(_) => {}
            None if name == "loc" && self.path.len() == 2 => self.addresses.push(std::mem::take(&mut self.text)),
            None => {}
        }
        self.text.clear();
    }

    /// `&amp;` and `&#38;`; others have no meaning without the document's own declarations.
    fn entity(&mut self, entity: &BytesRef<'_>) {
        match entity.resolve_char_ref() {
            Ok(Some(letter)) => self.text.push(letter),
            _ => self.text.push_str(resolve_predefined_entity(entity).unwrap_or_default()),
        }
    }

    fn found(self) -> Found {
        match self.root.as_str() {
            "urlset" => Found::Pages(self.addresses),
            "sitemapindex" => Found::Sitemaps(self.addresses),
            _ => Found::Records(self.records),
        }
    }
}
