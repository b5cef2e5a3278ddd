//! schema.org products in JSON-LD, <https://schema.org/Product>.

use std::cell::Cell;
use std::collections::HashMap;

use url::Url;

use super::json::{Json, short_name};
use super::{Facts, availability, gtin, price, text};

const PRODUCT_TYPES: [&str; 7] =
    ["Product", "ProductGroup", "ProductModel", "IndividualProduct", "SomeProducts", "Vehicle", "Car"];

/// Where a page names its main thing. Lists of other products (`itemListElement`, `isRelatedTo`)
/// are left out on purpose: a page that shows twenty products is not the page of one.
const WAYS_TO_THE_PRODUCT: [&str; 5] = ["@graph", "mainEntity", "mainEntityOfPage", "about", "itemReviewed"];

/// How deep products are looked for, and offers and prices below them.
const MAX_STEPS: usize = 8;

/// Bytes of text and nodes that may be looked at. References let a small page name one long node
/// again and again, in circles too, so that the page's own size is no bound.
const FUEL: usize = 8 << 20;

/// The first offer with a price counts; thousands of others add nothing.
const MAX_OFFERS: usize = 100;

/// The product of the page at `url` from its JSON-LD blocks; broken blocks are passed over.
pub fn read(blocks: &[String], url: &Url) -> Option<Facts> {
    let roots: Vec<Json> = blocks.iter().filter_map(|block| Json::parse(block)).collect();
    let graph = Graph::over(&roots);
    let mut products = Vec::new();
    for root in &roots {
        collect_products(root, MAX_STEPS, &mut products);
    }
    let mut best: Option<((bool, usize), Facts)> = None;
    for product in products {
        let facts = graph.facts(product, MAX_STEPS);
        let rank = (is_about(product, url), facts.weight());
        if best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, facts));
        }
    }
    best.map(|(_, facts)| facts)
}

fn collect_products<'a>(json: &'a Json, steps: usize, found: &mut Vec<&'a Json>) {
    if steps == 0 {
        return;
    }
    for item in json.items() {
        if is_product(item) {
            found.push(item);
            continue;
        }
        match item {
            Json::List(_) => collect_products(item, steps - 1, found),
            _ => {
                for way in WAYS_TO_THE_PRODUCT {
                    collect_products(item.get(way), steps - 1, found);
                }
            }
        }
    }
}

fn is_product(json: &Json) -> bool {
    json.get("@type").items().iter().any(|kind| match kind {
        Json::Text(kind) => PRODUCT_TYPES.contains(&short_name(kind)),
        _ => false,
    })
}

fn is_about(product: &Json, url: &Url) -> bool {
    ["url", "@id", "mainEntityOfPage"].iter().any(|key| match product.get(key) {
        Json::Text(address) => url
            .join(address)
            .is_ok_and(|address| address[..url::Position::AfterQuery] == url[..url::Position::AfterQuery]),
        _ => false,
    })
}

/// All values of a page, so that `{"@id": "#offer"}` leads to the offer that stands elsewhere.
struct Graph<'a> {
    nodes: HashMap<&'a str, &'a Json>,
    fuel: Cell<usize>,
}

impl<'a> Graph<'a> {
    fn over(roots: &'a [Json]) -> Graph<'a> {
        let mut graph = Graph { nodes: HashMap::new(), fuel: Cell::new(FUEL) };
        for root in roots {
            graph.index(root);
        }
        graph
    }

    fn index(&mut self, json: &'a Json) {
        match json {
            Json::List(items) => items.iter().for_each(|item| self.index(item)),
            Json::Object(fields) => {
                if let (Json::Text(id), true) = (json.get("@id"), fields.len() > 1) {
                    self.nodes.entry(id).or_insert(json);
                }
                fields.values().for_each(|value| self.index(value));
            }
            _ => {}
        }
    }

    fn follow(&self, json: &'a Json) -> &'a Json {
        match (json, json.get("@id")) {
            (Json::Object(fields), Json::Text(id)) if fields.len() == 1 => {
                self.nodes.get(id.as_str()).copied().unwrap_or(json)
            }
            _ => json,
        }
    }

    fn items(&self, json: &'a Json) -> impl Iterator<Item = &'a Json> {
        json.items().iter().take_while(|_| self.spend(1)).map(|item| self.follow(item))
    }

    fn spend(&self, amount: usize) -> bool {
        let left = self.fuel.get().saturating_sub(amount);
        self.fuel.set(left);
        left > 0
    }

    fn facts(&self, product: &'a Json, steps: usize) -> Facts {
        let mut facts = self.own_facts(product);
        let mut offers = Vec::new();
        self.collect_offers(product, steps, &mut offers);
        for offer in offers {
            // The first offer with a price is the one that the page shows.
            if facts.price.is_none() && offer.price.is_some() {
                facts.price = offer.price;
                facts.currency = offer.currency;
                facts.availability = offer.availability.or(facts.availability);
            } else {
                facts.availability = facts.availability.or(offer.availability);
            }
            facts.sku = facts.sku.or(offer.sku);
            facts.gtin = facts.gtin.or(offer.gtin);
        }
        // A group of variants often says the price on its variants only.
        if let Some(variant) = self.items(product.get("hasVariant")).next()
            && steps > 0
        {
            facts.fill_from(self.facts(variant, steps - 1));
        }
        facts
    }

    /// What stands on a product or an offer itself.
    fn own_facts(&self, json: &'a Json) -> Facts {
        const GTIN: [&str; 7] = ["gtin", "gtin13", "gtin14", "gtin12", "gtin8", "ean", "isbn"];
        Facts {
            title: self.text(json.get("name")),
            brand: ["brand", "manufacturer"].iter().find_map(|key| self.name(json.get(key))),
            sku: ["sku", "mpn"].iter().find_map(|key| self.text(json.get(key))),
            gtin: GTIN.iter().find_map(|key| self.text(json.get(key)).and_then(|text| gtin::normal(&text))),
            description: self.text(json.get("description")),
            images: self.addresses(json.get("image")),
            ..Facts::default()
        }
    }

    /// The offers below `json`, flattened: shops nest `offers` in an `AggregateOffer`.
    fn collect_offers(&self, json: &'a Json, steps: usize, found: &mut Vec<Facts>) {
        for offer in self.items(json.get("offers")) {
            if steps == 0 || found.len() == MAX_OFFERS {
                return;
            }
            let (price, currency) = self.price(offer, steps);
            let availability = self.schema_name(offer.get("availability"));
            found.push(Facts {
                price,
                currency,
                availability: availability.and_then(|text| availability::normal(&text)),
                ..self.own_facts(offer)
            });
            self.collect_offers(offer, steps - 1, found);
        }
    }

    fn price(&self, offer: &'a Json, steps: usize) -> (Option<String>, Option<String>) {
        let written = ["price", "lowPrice"].iter().find_map(|key| self.text(offer.get(key)));
        let currency = self
            .text(offer.get("priceCurrency"))
            .and_then(|text| price::currency(&text))
            .or_else(|| written.as_deref().and_then(price::currency));
        if let Some(price) = written.as_deref().and_then(price::decimal) {
            return (Some(price), currency);
        }
        let specified = self
            .items(offer.get("priceSpecification"))
            .filter(|specification| steps > 0 && !self.is_former_price(specification))
            .map(|specification| self.price(specification, steps - 1))
            .find(|(price, _)| price.is_some());
        match specified {
            Some((price, own_currency)) => (price, own_currency.or(currency)),
            None => (None, currency),
        }
    }

    /// The crossed-out price beside the one that counts.
    fn is_former_price(&self, specification: &'a Json) -> bool {
        self.schema_name(specification.get("priceType")).is_some_and(|kind| {
            matches!(short_name(&kind), "ListPrice" | "StrikethroughPrice" | "SRP" | "MSRP" | "MinimumAdvertisedPrice")
        })
    }

    fn text(&self, json: &'a Json) -> Option<String> {
        match json {
            Json::Text(words) if self.spend(words.len()) => text::plain(words),
            Json::Number(digits) if self.spend(digits.len()) => Some(digits.clone()),
            Json::List(items) => items.iter().find_map(|item| self.text(item)),
            Json::Object(_) => self.text(json.get("@value")),
            _ => None,
        }
    }

    /// A schema.org name such as `InStock`, which may stand as a reference.
    fn schema_name(&self, json: &'a Json) -> Option<String> {
        self.text(json).or_else(|| self.text(json.get("@id")))
    }

    /// A brand is a string, or an organisation with a name.
    fn name(&self, json: &'a Json) -> Option<String> {
        self.items(json).find_map(|item| self.text(item).or_else(|| self.text(item.get("name"))))
    }

    /// An image is an address, or an `ImageObject` with one.
    fn addresses(&self, json: &'a Json) -> Vec<String> {
        self.items(json)
            .filter_map(|item| match item {
                // Entities other than this one could be part of an address: `?a=1&copy=2`.
                Json::Text(address) => self.spend(address.len()).then(|| address.trim().replace("&amp;", "&")),
                _ => ["contentUrl", "url", "@id"].iter().find_map(|key| self.text(item.get(key))),
            })
            .filter(|address| !address.is_empty())
            .collect()
    }
}
