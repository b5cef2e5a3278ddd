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
                    open = opened(&tag);
                    match tag.name.as_slice() {
                        b"meta" => page.meta.extend(meta(&tag)),
                        b"base" if base.is_none() => base = attribute(&tag, b"href"),
                        _ => {}
                    }
                }
                Token::EndTag(_) => open = None,
                Token::String(string) => match open {
                    Some(Open::JsonLd) => page.json_ld.push(utf8(&string)),
                    Some(Open::Title) if page.title.is_none() => {
                        page.title = text::plain(&utf8(&string));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        if let Some(base) = base.and_then(|href| url.join(&href).ok()) {
            page.base = base;
        }
        page
    }
}

fn opened(tag: &StartTag<()>) -> Option<Open> {
    match tag.name.as_slice() {
        b"title" => Some(Open::Title),
        b"script" => {
            let kind = attribute(tag, b"type")?;
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/ld+json").then_some(Open::JsonLd)
        }
        _ => None,
    }
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
