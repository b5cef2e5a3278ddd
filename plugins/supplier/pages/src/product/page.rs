//! One pass over a page, keeping the few things in which shops describe products.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use url::Url;

use super::elements::Elements;
use super::tag::attribute;
use super::text;

pub(super) struct Page {
    /// What relative addresses are relative to.
    pub base: Url,
    /// `<html lang>`, lower-cased.
    pub language: String,
    pub title: Option<String>,
    /// `<link rel="canonical">` as it was written.
    pub canonical: Option<String>,
    /// `<meta>` by lower-cased `property` or `name`, in the order of the page.
    pub meta: Vec<(String, String)>,
    /// The contents of `<script type="application/ld+json">`.
    pub json_ld: Vec<String>,
    /// What carries microdata.
    pub elements: Elements,
}

/// What to do with the text that comes next.
#[derive(Clone, Copy)]
enum Open {
    Title,
    JsonLd,
    /// Of a script, or of an element that browsers do not show.
    Hidden,
    Visible,
}

impl Page {
    pub(super) fn read(html: &str, url: &Url) -> Page {
        let mut page = Page {
            base: url.clone(),
            language: String::new(),
            title: None,
            canonical: None,
            meta: Vec::new(),
            json_ld: Vec::new(),
            elements: Elements::default(),
        };
        let mut base = None;
        let mut open = Open::Visible;
        // The tokenizer alone does not know that a script holds no tags.
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
            match token {
                Token::StartTag(tag) => {
                    open = page.open(&tag);
                    if tag.name.as_slice() == b"base" && base.is_none() {
                        base = attribute(&tag, b"href");
                    }
                    page.elements.start(&tag);
                }
                Token::EndTag(tag) => {
                    open = Open::Visible;
                    page.elements.end(&tag.name);
                }
                Token::String(string) => page.add_text(open, &String::from_utf8_lossy(&string)),
                _ => {}
            }
        }
        page.elements.finish();
        if let Some(base) = base.and_then(|href| url.join(&href).ok()) {
            page.base = base;
        }
        page.title = page.title.as_deref().and_then(text::plain);
        page
    }

    /// The first content of a `<meta>` of this name.
    pub(super) fn meta(&self, name: &str) -> Option<&str> {
        self.meta.iter().find(|(known, _)| known == name).map(|(_, content)| content.as_str())
    }

    /// Keeps what a tag says, and makes room for the text of an element that matters. Its text may
    /// come in several tokens.
    fn open(&mut self, tag: &StartTag<()>) -> Open {
        match tag.name.as_slice() {
            // Images of the SVG kind have titles of their own further down.
            b"title" if self.title.is_none() => {
                self.title = Some(String::new());
                return Open::Title;
            }
            b"script" if is_json_ld(tag) => {
                self.json_ld.push(String::new());
                return Open::JsonLd;
            }
            b"title" | b"script" | b"style" | b"noscript" | b"iframe" | b"textarea" | b"xmp" | b"noembed" => {
                return Open::Hidden;
            }
            b"html" if self.language.is_empty() => {
                self.language = attribute(tag, b"lang").unwrap_or_default().to_ascii_lowercase();
            }
            b"meta" => self.meta.extend(meta(tag)),
            b"link" if self.canonical.is_none() && has_word(tag, b"rel", "canonical") => {
                self.canonical = attribute(tag, b"href");
            }
            _ => {}
        }
        Open::Visible
    }

    fn add_text(&mut self, open: Open, text: &str) {
        let place = match open {
            Open::Title => self.title.as_mut(),
            Open::JsonLd => self.json_ld.last_mut(),
            Open::Hidden => None,
            Open::Visible => return self.elements.text(text),
        };
        if let Some(place) = place {
            place.push_str(text);
        }
    }
}

fn is_json_ld(script: &StartTag<()>) -> bool {
    let kind = attribute(script, b"type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/ld+json")
}

fn meta(tag: &StartTag<()>) -> Option<(String, String)> {
    let name = attribute(tag, b"property").or_else(|| attribute(tag, b"name"))?;
    let content = attribute(tag, b"content")?;
    Some((name.to_ascii_lowercase(), content))
}

fn has_word(tag: &StartTag<()>, name: &[u8], word: &str) -> bool {
    attribute(tag, name).is_some_and(|words| words.split_ascii_whitespace().any(|one| one.eq_ignore_ascii_case(word)))
}
