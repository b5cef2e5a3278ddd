//! One pass over a page, keeping the few things in which shops describe products.
//!
//! Tokens are enough: nothing here depends on how elements nest, so no tree is built and a page of
//! a million open tags costs no more than its length.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use url::Url;

use super::text;

pub struct Page {
    /// What relative addresses are relative to.
    pub base: Url,
    pub title: Option<String>,
    /// `<meta>` by lower-cased `property` or `name`, in the order of the page.
    pub meta: Vec<(String, String)>,
    /// The contents of `<script type="application/ld+json">`.
    pub json_ld: Vec<String>,
}

/// The element whose text comes next.
#[derive(Clone, Copy)]
enum Open {
    Title,
    JsonLd,
}

impl Page {
    pub fn read(html: &str, url: &Url) -> Page {
        let mut page = Page { base: url.clone(), title: None, meta: Vec::new(), json_ld: Vec::new() };
        let mut base = None;
        let mut open = None;
        // The tokenizer alone does not know that a script holds no tags.
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
            match token {
                Token::StartTag(tag) => {
                    open = page.open(&tag);
                    match tag.name.as_slice() {
                        b"meta" => page.meta.extend(meta(&tag)),
                        b"base" if base.is_none() => base = attribute(&tag, b"href"),
                        _ => {}
                    }
                }
                Token::EndTag(_) => open = None,
                Token::String(string) => page.add_text(open, &utf8(&string)),
                _ => {}
            }
        }
        if let Some(base) = base.and_then(|href| url.join(&href).ok()) {
            page.base = base;
        }
        page.title = page.title.as_deref().and_then(text::plain);
        page
    }

    /// Makes room for the text of an element that matters. Its text may come in several tokens.
    fn open(&mut self, tag: &StartTag<()>) -> Option<Open> {
        match tag.name.as_slice() {
            // Images of the SVG kind have titles of their own further down.
            b"title" if self.title.is_none() => {
                self.title = Some(String::new());
                Some(Open::Title)
            }
            b"script" if is_json_ld(tag) => {
                self.json_ld.push(String::new());
                Some(Open::JsonLd)
            }
            _ => None,
        }
    }

    fn add_text(&mut self, open: Option<Open>, text: &str) {
        let place = match open {
            Some(Open::Title) => self.title.as_mut(),
            Some(Open::JsonLd) => self.json_ld.last_mut(),
            None => None,
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

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value = tag.attributes.get(name)?;
    Some(utf8(value).trim().to_owned())
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
