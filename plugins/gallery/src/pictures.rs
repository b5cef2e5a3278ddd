//! Which pictures a card has, and which of them is its main one. Data of other plugins is read by its kind alone.

use cardinal_plugin::{Card, json};
use serde::Serialize;
use serde_json::Value;
use url::Url;

/// The kind whose `data.images` is a list of addresses.
pub(crate) const READ_KIND: &str = "supplier";
/// The kind that the choice is kept as: `{"url": ...}`.
pub(crate) const MAIN_KIND: &str = "main-picture";

pub(crate) const MAX_PICTURES: usize = 500;
pub(crate) const MAX_URL: usize = 2048;

/// A picture of a card.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Picture {
    pub url: String,
    /// The sources that have it.
    pub source_keys: Vec<String>,
    pub is_main: bool,
}

/// The picture that stands for the product.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Main {
    pub url: String,
    /// Somebody chose it; else it is the first one.
    pub is_chosen: bool,
    /// It was chosen, and no source has it any more.
    pub is_gone: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Pictures {
    pub items: Vec<Picture>,
    pub main: Option<Main>,
}

impl Pictures {
    /// The pictures of the card's sources in the order of their keys, each once. `choice` is the key of the choice.
    pub(crate) fn from_card(card: &Card, choice: &str) -> Self {
        let mut items: Vec<Picture> = Vec::new();
        for (key, source) in card.sources_of(READ_KIND) {
            for url in images(&source.data) {
                let is_full = items.len() == MAX_PICTURES;
                match items.iter_mut().find(|item| item.url == url) {
                    Some(known) if known.source_keys.contains(&key) => {}
                    Some(known) => known.source_keys.push(key.clone()),
                    None if is_full => return Self::with_main(items, card, choice),
                    None => items.push(Picture { url, source_keys: vec![key.clone()], is_main: false }),
                }
            }
        }
        Self::with_main(items, card, choice)
    }

    fn with_main(mut items: Vec<Picture>, card: &Card, choice: &str) -> Self {
        let chosen = card.sources().remove(choice).filter(|source| source.kind == MAIN_KIND);
        let chosen = chosen.and_then(|source| web_address(source.data.get("url")?.as_str()?));
        let main = match chosen {
            Some(url) => {
                let is_gone = !items.iter().any(|item| item.url == url);
                Some(Main { url, is_chosen: true, is_gone })
            }
            None => items.first().map(|first| Main { url: first.url.clone(), is_chosen: false, is_gone: false }),
        };
        for item in &mut items {
            item.is_main = main.as_ref().is_some_and(|main| main.url == item.url);
        }
        Self { items, main }
    }

    pub(crate) fn has(&self, url: &str) -> bool {
        self.items.iter().any(|item| item.url == url)
    }
}

/// What is kept in the card.
pub(crate) fn choice(url: &str) -> Value {
    json!({ "url": url })
}

/// Other plugins' data may have any shape: what is no list of web addresses is passed over.
fn images(data: &Value) -> impl Iterator<Item = String> {
    let images = data.get("images").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    images.iter().filter_map(|image| web_address(image.as_str()?))
}

/// The address, when it is one of the web, as it was written: it is compared with what clients send back.
pub(crate) fn web_address(text: &str) -> Option<String> {
    let is_web = text.len() <= MAX_URL
        && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    is_web.then(|| text.to_owned())
}
