//! From the text of a page to the product it shows. Pure: no network, no clock, no database.

mod availability;
pub mod charset;
mod gtin;
mod json;
mod json_ld;
mod open_graph;
mod page;
mod price;
mod text;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use url::Url;

use page::Page;

/// More images than this are never shown, and a source of a card may weigh 256 KiB at most.
const MAX_IMAGES: usize = 50;
const MAX_ADDRESS_LENGTH: usize = 2048;

/// What a card's source holds (kind `supplier`), and what every route of this plugin answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Product {
    #[serde(flatten)]
    pub facts: Facts,
    /// Where the page was finally read, after redirects.
    pub url: Url,
    #[serde(with = "time::serde::rfc3339")]
    pub fetched_at: OffsetDateTime,
}

/// What a page says about a product. `None` = the page does not say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub title: Option<String>,
    pub brand: Option<String>,
    pub sku: Option<String>,
    pub gtin: Option<String>,
    pub description: Option<String>,
    /// A decimal string, digit for digit as the shop wrote it: money never passes through a float.
    pub price: Option<String>,
    pub currency: Option<String>,
    /// The short schema.org name, `InStock`.
    pub availability: Option<String>,
    /// Absolute http or https addresses, each once.
    pub images: Vec<String>,
}

impl Facts {
    /// Takes from `other` what is not known here.
    fn fill_from(&mut self, other: Facts) {
        fn fill(known: &mut Option<String>, other: Option<String>) {
            if known.is_none() {
                *known = other;
            }
        }
        // A currency belongs to its price: another source's would relabel the money.
        if self.price.is_none() || self.price == other.price {
            fill(&mut self.currency, other.currency);
        }
        fill(&mut self.price, other.price);
        fill(&mut self.title, other.title);
        fill(&mut self.brand, other.brand);
        fill(&mut self.sku, other.sku);
        fill(&mut self.gtin, other.gtin);
        fill(&mut self.description, other.description);
        fill(&mut self.availability, other.availability);
        if self.images.is_empty() {
            self.images = other.images;
        }
    }

    /// How much is known, to choose between several products on one page.
    fn weight(&self) -> usize {
        let texts =
            [&self.title, &self.brand, &self.sku, &self.gtin, &self.description, &self.price, &self.availability];
        texts.into_iter().flatten().count() + usize::from(!self.images.is_empty())
    }
}

/// The product that the page at `url` shows: from JSON-LD, what is missing there from OpenGraph.
pub fn find(html: &str, url: &Url) -> Option<Facts> {
    let page = Page::read(html, url);
    let open_graph = open_graph::read(&page.meta);
    let mut facts = match json_ld::read(&page.json_ld, url) {
        Some(mut facts) => {
            facts.fill_from(open_graph.facts);
            facts
        }
        None if open_graph.is_product => open_graph.facts,
        None => return None,
    };
    facts.title = facts.title.or(page.title);
    facts.images = absolute(&facts.images, &page.base);
    facts.title.is_some().then_some(facts)
}

fn absolute(addresses: &[String], base: &Url) -> Vec<String> {
    let mut images: Vec<String> = Vec::new();
    for address in addresses {
        let Ok(url) = base.join(address) else {
            continue;
        };
        let usable = matches!(url.scheme(), "http" | "https")
            && url.as_str().len() <= MAX_ADDRESS_LENGTH
            && !images.iter().any(|known| known == url.as_str());
        if usable && images.len() < MAX_IMAGES {
            images.push(url.into());
        }
    }
    images
}
