//! From the text of a page to the product it shows. Pure: no network, no clock, no database.

mod address;
mod availability;
pub mod charset;
mod elements;
pub mod feed;
mod gtin;
mod json;
mod microdata;
mod open_graph;
mod page;
mod price;
mod schema_org;
mod tag;
mod text;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use url::Url;

use address::Place;
use json::Json;
use page::Page;

/// What a card's source holds (kind `supplier`), and what every route of this plugin answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Product {
    #[serde(flatten)]
    pub facts: Facts,
    /// The page's own name for itself, else where it was finally read, after redirects.
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

/// The product of a page.
#[derive(Debug, PartialEq, Serialize)]
pub struct Found {
    #[serde(flatten)]
    pub facts: Facts,
    /// See [`Product::url`].
    pub url: Url,
}

/// The product that the page at `url` shows: from JSON-LD and microdata, what is missing there from
/// OpenGraph.
pub fn find(html: &str, url: &Url) -> Option<Found> {
    let page = Page::read(html, url);
    let named = [page.canonical.as_deref(), page.meta("og:url")].into_iter().flatten();
    let canonical = { named }.find_map(|written| address::canonical(written, &page.base, url));
    let mut nodes: Vec<Json> = page.json_ld.iter().filter_map(|block| Json::parse(block)).collect();
    nodes.extend(microdata::nodes(&page.elements, &page.language));
    let place = Place { url, canonical: canonical.as_ref(), base: &page.base };
    let described = schema_org::product(&nodes, &place);
    // What the address says about the variant is not in the page's name for all of them.
    let is_variant = described.as_ref().is_some_and(|described| described.is_variant_of_address);
    let mut facts = described.map(|described| described.facts);
    let open_graph = open_graph::read(&page);
    match &mut facts {
        Some(facts) => facts.fill_from(open_graph.facts),
        None => facts = Some(open_graph.facts).filter(|_| open_graph.is_product),
    }
    let mut facts = facts?;
    facts.title = facts.title.or(page.title);
    facts.images = address::images(&facts.images, &page.base);
    let canonical = canonical.filter(|_| !is_variant);
    facts.title.is_some().then(|| Found { facts, url: canonical.unwrap_or_else(|| url.clone()) })
}
