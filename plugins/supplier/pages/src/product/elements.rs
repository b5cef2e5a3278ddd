//! The elements of a page that matter for microdata, with the text inside each.
//!
//! No tree of the whole page is built. Which elements are open is tracked as browsers do, closely
//! enough for pages that leave end tags out; of those that carry microdata it is kept how they nest.

use std::collections::HashMap;

use html5gum::StartTag;

use super::tag::attribute;

/// Browsers have such a limit too (512): what nests deeper lies side by side.
const MAX_DEPTH: usize = 256;

/// Microdata of one product has some hundred elements. What comes after these is not looked at.
const MAX_ELEMENTS: usize = 50_000;

/// In the order of their start tags: those inside an element follow it, up to its `end`.
#[derive(Default)]
pub(super) struct Elements {
    pub list: Vec<Element>,
    /// For `itemref`; the first of an id counts.
    by_id: HashMap<String, usize>,
    /// All visible text of the page. Elements have ranges of it, so that nesting costs nothing.
    text: String,
    open: Vec<Open>,
}

pub(super) struct Element {
    /// Its properties' names, `itemprop`.
    pub names: Vec<String>,
    pub item: Option<Item>,
    /// What its attributes say; text when they say nothing.
    pub value: Value,
    /// Behind the last element inside it.
    pub end: usize,
    text: (usize, usize),
}

/// `itemscope`.
pub(super) struct Item {
    pub types: Vec<String>,
    pub id: Option<String>,
    pub refs: Vec<String>,
    /// Whether another item is around it.
    pub nested: bool,
}

pub(super) enum Value {
    /// Written for machines: `content`, `datetime`.
    Given(String),
    Address(String),
    /// The address that a link with a text leads to: which of both is meant depends on the name.
    Link(String),
    Text,
}

/// A start tag that waits for its end.
struct Open {
    name: Vec<u8>,
    kind: Kind,
    /// Its place in the list, when it is kept.
    kept: Option<usize>,
}

/// How far an end tag inside the element reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Inline,
    /// The end of an inline element does not reach out of it.
    Block,
    /// No end tag reaches out of it: a cell of a table.
    Scope,
}

impl Kind {
    fn from_name(name: &[u8]) -> Kind {
        if SCOPES.contains(&name) {
            Kind::Scope
        } else if BLOCKS.contains(&name) {
            Kind::Block
        } else {
            Kind::Inline
        }
    }
}

impl Elements {
    pub(super) fn start(&mut self, tag: &StartTag<()>) {
        let name = tag.name.as_slice();
        self.close_implied(name);
        if !INLINE.contains(&name) {
            self.text.push(' ');
        }
        let kept = self.keep(tag);
        let foreign = self.open.iter().rev().take(16).any(|open| matches!(open.name.as_slice(), b"svg" | b"math"));
        let empty = VOID.contains(&name) || (foreign && tag.self_closing);
        if !empty && self.open.len() < MAX_DEPTH {
            self.open.push(Open { name: name.to_vec(), kind: Kind::from_name(name), kept });
        } else if let Some(kept) = kept {
            self.close(kept);
        }
    }

    pub(super) fn end(&mut self, name: &[u8]) {
        if !INLINE.contains(&name) {
            self.text.push(' ');
        }
        let barrier = if Kind::from_name(name) == Kind::Inline { Kind::Block } else { Kind::Scope };
        self.close_nearest(&[name], |open| open.kind >= barrier);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn finish(&mut self) {
        self.close_from(0);
    }

    pub(super) fn text_of(&self, element: &Element) -> &str {
        self.text.get(element.text.0..element.text.1).unwrap_or_default()
    }

    pub(super) fn by_id(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// The place of the element in the list, when it is one that matters.
    fn keep(&mut self, tag: &StartTag<()>) -> Option<usize> {
        let has = |name: &[u8]| tag.attributes.contains_key(name);
        let (id, scope) = (attribute(tag, b"id"), has(b"itemscope"));
        if !(scope || has(b"itemprop") || id.is_some()) || self.list.len() == MAX_ELEMENTS {
            return None;
        }
        let kept = self.list.len();
        if let Some(id) = id {
            self.by_id.entry(id).or_insert(kept);
        }
        let item = scope.then(|| Item {
            types: words(tag, b"itemtype"),
            id: attribute(tag, b"itemid"),
            refs: words(tag, b"itemref"),
            nested: self.open.iter().filter_map(|open| open.kept).any(|outer| self.list[outer].item.is_some()),
        });
        let text = (self.text.len(), self.text.len());
        self.list.push(Element { names: words(tag, b"itemprop"), item, value: value(tag), end: kept + 1, text });
        Some(kept)
    }

    /// Closes what a start tag closes without an end tag: a list item by the next one, a paragraph
    /// by a block.
    fn close_implied(&mut self, name: &[u8]) {
        let (closed, barriers): (&[&[u8]], &[&[u8]]) = match name {
            b"li" => (&[b"li"], &[b"ul", b"ol", b"menu"]),
            b"dt" | b"dd" => (&[b"dt", b"dd"], &[b"dl"]),
            b"td" | b"th" => (&[b"td", b"th"], &[b"tr", b"table"]),
            b"tr" => (&[b"tr"], &[b"table", b"tbody", b"thead", b"tfoot"]),
            b"option" => (&[b"option"], &[b"select"]),
            _ if Kind::from_name(name) == Kind::Block || name == b"table" => {
                return self.close_nearest(&[b"p"], |open| open.kind == Kind::Scope);
            }
            _ => return,
        };
        self.close_nearest(closed, |open| barriers.contains(&open.name.as_slice()));
    }

    /// Closes the innermost element of these names, and what is inside it, unless a barrier is in
    /// between.
    fn close_nearest(&mut self, names: &[&[u8]], is_barrier: impl Fn(&Open) -> bool) {
        for (at, open) in self.open.iter().enumerate().rev() {
            if names.contains(&open.name.as_slice()) {
                return self.close_from(at);
            }
            if is_barrier(open) {
                return;
            }
        }
    }

    fn close_from(&mut self, at: usize) {
        while self.open.len() > at {
            if let Some(kept) = self.open.pop().and_then(|open| open.kept) {
                self.close(kept);
            }
        }
    }

    fn close(&mut self, kept: usize) {
        let end = self.list.len();
        let element = &mut self.list[kept];
        element.end = end;
        element.text.1 = self.text.len();
    }
}

fn words(tag: &StartTag<()>, name: &[u8]) -> Vec<String> {
    let words = attribute(tag, name).unwrap_or_default();
    words.split_ascii_whitespace().take(16).map(str::to_owned).collect()
}

fn value(tag: &StartTag<()>) -> Value {
    // By the letter only `<meta>` has `content`; shops put it everywhere, and search engines read it.
    if let Some(content) = attribute(tag, b"content") {
        return Value::Given(content);
    }
    let address = |name| attribute(tag, name).map(Value::Address);
    let found = match tag.name.as_slice() {
        b"img" => image(tag).map(Value::Address),
        b"audio" | b"embed" | b"iframe" | b"source" | b"track" | b"video" => address(b"src"),
        b"object" => address(b"data"),
        b"link" => address(b"href"),
        b"a" | b"area" => attribute(tag, b"href").map(Value::Link),
        b"data" | b"meter" => attribute(tag, b"value").map(Value::Given),
        b"time" => attribute(tag, b"datetime").map(Value::Given),
        _ => None,
    };
    found.unwrap_or(Value::Text)
}

/// Pages that load images late have a placeholder in `src` and the image in one of the others.
fn image(tag: &StartTag<()>) -> Option<String> {
    const LATE: [&[u8]; 6] =
        [b"data-zoom-image", b"data-src", b"data-original", b"data-lazy-src", b"data-lazy", b"src"];
    let from_set = || [&b"data-srcset"[..], b"srcset"].into_iter().find_map(|name| largest(&attribute(tag, name)?));
    let given = LATE.into_iter().filter_map(|name| attribute(tag, name));
    let mut usable = given.filter(|address| !address.is_empty() && !address.starts_with("data:"));
    usable.next().or_else(from_set)
}

/// Of `small.jpg 400w, large.jpg 1200w` the large one.
fn largest(set: &str) -> Option<String> {
    let candidates = set.split(", ").filter_map(|candidate| {
        let mut parts = candidate.split_ascii_whitespace();
        let (address, size) = (parts.next()?, parts.next().unwrap_or("1x"));
        let size: f32 = size.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
        Some((size, address.trim_end_matches(',')))
    });
    candidates.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, address)| address.to_owned())
}

const VOID: [&[u8]; 14] = [
    b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"param", b"source",
    b"track", b"wbr",
];

/// Elements within a line: `<b>1</b><sup>99</sup>` is one word. (`br` is not one of them.)
const INLINE: [&[u8]; 32] = [
    b"a", b"abbr", b"acronym", b"b", b"bdi", b"bdo", b"big", b"cite", b"code", b"data", b"del", b"dfn", b"em", b"font",
    b"i", b"ins", b"kbd", b"label", b"link", b"mark", b"meta", b"q", b"s", b"samp", b"small", b"span", b"strong",
    b"sub", b"sup", b"time", b"u", b"wbr",
];

const BLOCKS: [&[u8]; 37] = [
    b"address",
    b"article",
    b"aside",
    b"blockquote",
    b"center",
    b"dd",
    b"details",
    b"dialog",
    b"dir",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"header",
    b"hgroup",
    b"hr",
    b"main",
    b"menu",
    b"nav",
    b"ol",
    b"p",
    b"pre",
    b"section",
    b"summary",
    b"table",
    b"ul",
    b"li",
];

/// What an end tag does not reach out of.
const SCOPES: [&[u8]; 8] = [b"html", b"table", b"td", b"th", b"caption", b"object", b"template", b"button"];
