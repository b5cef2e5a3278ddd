//! Microdata, <https://html.spec.whatwg.org/multipage/microdata.html>, as the nodes that the same
//! content would be in JSON-LD: what is read from them is the same for both.

use std::collections::BTreeMap;

use super::elements::{Element, Elements, Item, Value};
use super::json::{Json, short_name};
use super::{price, text};

/// Items inside items. `itemref` can lead in circles.
const MAX_DEPTH: usize = 12;

/// One value under several names.
const MAX_NAMES: usize = 8;

/// Elements that are looked at on one page, and bytes of text in them: elements that nest, and several
/// references to one element, could make a small page large.
const MAX_STEPS: usize = 200_000;
const MAX_TEXT: usize = 4 << 20;

/// Properties whose value is an address or the name of something in schema.org: of a link they take
/// where it leads, all others take its text.
const ADDRESSES: [&str; 15] = [
    "additionalType",
    "availability",
    "contentUrl",
    "image",
    "isRelatedTo",
    "isSimilarTo",
    "itemCondition",
    "logo",
    "mainEntityOfPage",
    "photo",
    "sameAs",
    "thumbnail",
    "thumbnailUrl",
    "url",
    "priceType",
];

/// The items of the page that are no property of another one.
pub(super) fn nodes(elements: &Elements, language: &str) -> Vec<Json> {
    let mut reader = Reader { elements, language, steps: MAX_STEPS, text: MAX_TEXT };
    let mut nodes = Vec::new();
    let referred = referred(elements);
    for (at, element) in elements.list.iter().enumerate() {
        let is_property = |item: &Item| !element.names.is_empty() && (item.nested || referred[at]);
        if let Some(item) = &element.item
            && !is_property(item)
        {
            nodes.push(reader.node(at, element, item, MAX_DEPTH));
        }
    }
    nodes
}

/// Which elements some item has for its own by `itemref`.
fn referred(elements: &Elements) -> Vec<bool> {
    // Where references begin less where they end: one pass, however they overlap.
    let mut steps = vec![0_i64; elements.list.len() + 1];
    for id in elements.list.iter().filter_map(|element| element.item.as_ref()).flat_map(|item| &item.refs) {
        if let Some(at) = elements.by_id(id) {
            steps[at] += 1;
            steps[elements.list[at].end] -= 1;
        }
    }
    let depths = steps.iter().scan(0, |depth, step| {
        *depth += step;
        Some(*depth > 0)
    });
    depths.collect()
}

struct Reader<'a> {
    elements: &'a Elements,
    language: &'a str,
    steps: usize,
    text: usize,
}

type Fields = BTreeMap<String, Vec<Json>>;

impl Reader<'_> {
    fn node(&mut self, at: usize, element: &Element, item: &Item, depth: usize) -> Json {
        let mut fields = Fields::new();
        fields.insert("@type".to_owned(), item.types.iter().cloned().map(Json::Text).collect());
        fields.extend(item.id.clone().map(|id| ("@id".to_owned(), vec![Json::Text(id)])));
        self.collect(at + 1, element.end, depth, &mut fields);
        for id in &item.refs {
            if let Some(referred) = self.elements.by_id(id).filter(|referred| *referred != at) {
                self.collect(referred, self.elements.list[referred].end, depth, &mut fields);
            }
        }
        let single = |mut values: Vec<Json>| if values.len() == 1 { values.remove(0) } else { Json::List(values) };
        Json::Object(fields.into_iter().map(|(name, values)| (name, single(values))).collect())
    }

    /// The properties among the elements from `at` to `end`, but not those of items inside.
    fn collect(&mut self, mut at: usize, end: usize, depth: usize, fields: &mut Fields) {
        while at < end && depth > 0 && self.steps > 0 {
            self.steps -= 1;
            let element = &self.elements.list[at];
            for name in element.names.iter().take(MAX_NAMES) {
                let name = short_name(name);
                let value = match &element.item {
                    Some(item) => self.node(at, element, item, depth - 1),
                    None => Json::Text(self.value(name, element)),
                };
                fields.entry(name.to_owned()).or_default().push(value);
            }
            at = if element.item.is_some() { element.end.max(at + 1) } else { at + 1 };
        }
    }

    fn value(&mut self, name: &str, element: &Element) -> String {
        let value = match &element.value {
            Value::Given(value) | Value::Address(value) => value.clone(),
            Value::Link(address) if ADDRESSES.contains(&name) => address.clone(),
            Value::Link(_) | Value::Text => self.visible(name, element),
        };
        self.text = self.text.saturating_sub(value.len());
        value
    }

    fn visible(&self, name: &str, element: &Element) -> String {
        if self.text == 0 {
            return String::new();
        }
        let visible = text::words(self.elements.text_of(element));
        if name.to_ascii_lowercase().ends_with("price") { price::as_read(&visible, self.language) } else { visible }
    }
}
