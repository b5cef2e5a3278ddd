//! schema.org products, <https://schema.org/Product>, in the nodes of a page. JSON-LD and microdata
//! give the same nodes.

mod graph;
mod offers;

use super::address::{Closeness, Place};
use super::json::{Json, short_name};
use super::{Facts, gtin};
use graph::Graph;
use offers::Offer;

const PRODUCT_TYPES: [&str; 7] =
    ["Product", "ProductGroup", "ProductModel", "IndividualProduct", "SomeProducts", "Vehicle", "Car"];

/// Where a page names its main thing. Lists of other products (`itemListElement`, `isRelatedTo`)
/// are left out on purpose: a page that shows twenty products is not the page of one.
const WAYS_TO_THE_PRODUCT: [&str; 6] =
    ["@graph", "mainEntity", "mainEntityOfPage", "about", "itemReviewed", "itemOffered"];

/// How deep products are looked for, and offers and prices below them.
const MAX_STEPS: usize = 8;

/// Products of one page that are compared with each other.
const MAX_PRODUCTS: usize = 500;

/// From this many products on, of which each names a page of its own, a page is a list of them.
const LIST: usize = 3;

/// What was found, and how surely the page's address means exactly this.
#[derive(Default)]
pub(super) struct Described {
    pub facts: Facts,
    /// This variant was chosen by what the address says beyond the page's path.
    pub is_variant_of_address: bool,
    ids: Vec<String>,
    closeness: Closeness,
    /// It names an address for itself, which is another one than the page's.
    is_elsewhere: bool,
}

/// The product that the page at `place` is about, from all its nodes.
pub(super) fn product(nodes: &[Json], place: &Place) -> Option<Described> {
    let reader = Reader { graph: Graph::over(nodes), place };
    let mut products = Vec::new();
    for node in nodes {
        collect_products(node, None, MAX_STEPS, &mut products);
    }
    products.truncate(MAX_PRODUCTS);
    let found = products.into_iter().map(|(node, offer)| reader.describe(node, offer)).collect();
    choose(found)
}

/// The one of the page's address, else the best described; what others say of the same thing is
/// added.
fn choose(mut found: Vec<Described>) -> Option<Described> {
    let rank = |one: &Described| (one.closeness, one.facts.weight());
    // `max_by_key` would take the last of several that are equal.
    let best = (0..found.len()).reduce(|best, at| if rank(&found[at]) > rank(&found[best]) { at } else { best })?;
    let stands_out = (0..found.len()).all(|at| at == best || found[at].facts.weight() + 1 < found[best].facts.weight());
    if found.len() >= LIST && !stands_out && found.iter().all(|one| one.is_elsewhere) {
        return None;
    }
    let best = found.remove(prefer_first(&found, best));
    Some(with_the_same(best, found))
}

/// Of those that mean the same thing and tell its price alike the first, which JSON-LD is.
fn prefer_first(found: &[Described], best: usize) -> usize {
    let best_one = &found[best];
    let as_good = |one: &Described| {
        one.is_same_as(best_one)
            && one.closeness == best_one.closeness
            && one.facts.price.is_some() == best_one.facts.price.is_some()
    };
    found.iter().position(as_good).unwrap_or(best)
}

fn with_the_same(mut best: Described, found: Vec<Described>) -> Described {
    for other in found {
        if best.is_same_as(&other) {
            best.facts.fill_from(other.facts);
        }
    }
    best
}

impl Described {
    fn is_same_as(&self, other: &Described) -> bool {
        let same = |one: &Option<String>, other: &Option<String>| {
            one.as_ref().zip(other.as_ref()).map(|(one, other)| one.eq_ignore_ascii_case(other))
        };
        let (ours, theirs) = (&self.facts, &other.facts);
        let numbers = [same(&ours.sku, &theirs.sku), same(&ours.gtin, &theirs.gtin)];
        if self.ids.iter().any(|id| other.ids.contains(id)) || numbers.contains(&Some(true)) {
            return true;
        }
        !numbers.contains(&Some(false)) && same(&ours.title, &theirs.title) == Some(true)
    }
}

/// Products, each with the offer that leads to it when that stands around it.
fn collect_products<'a>(
    json: &'a Json,
    offer: Option<&'a Json>,
    steps: usize,
    found: &mut Vec<(&'a Json, Option<&'a Json>)>,
) {
    if steps == 0 || found.len() >= MAX_PRODUCTS {
        return;
    }
    for item in json.items() {
        if is_product(item) {
            found.push((item, offer));
            continue;
        }
        match item {
            Json::List(_) => collect_products(item, offer, steps - 1, found),
            _ => {
                for way in WAYS_TO_THE_PRODUCT {
                    let offer = if way == "itemOffered" { Some(item) } else { None };
                    collect_products(item.get(way), offer, steps - 1, found);
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

struct Reader<'a> {
    graph: Graph<'a>,
    place: &'a Place<'a>,
}

impl<'a> Reader<'a> {
    fn describe(&self, product: &'a Json, offer: Option<&'a Json>) -> Described {
        let mut described = self.single(product, MAX_STEPS);
        if let Some(offer) = offer {
            described.facts.fill_from(self.graph.offer(offer, MAX_STEPS));
        }
        let variants: Vec<Described> = self.variants(product).map(|variant| self.single(variant, MAX_STEPS)).collect();
        // The first of those that are as close; of a page that means none, the first with a price.
        let closest = variants.iter().map(|one| (one.closeness, one.facts.price.is_some())).max();
        let picked = variants.into_iter().find(|one| Some((one.closeness, one.facts.price.is_some())) == closest);
        match picked {
            Some(mut variant) if variant.closeness > described.closeness.max(Closeness::Page) => {
                variant.facts.fill_from(described.facts.without_numbers());
                variant.is_variant_of_address = true;
                variant.ids.extend(described.ids);
                described = variant;
            }
            Some(variant) => described.facts.fill_from(variant.facts),
            None => {}
        }
        for group in self.graph.items(product.get("isVariantOf")).take(1) {
            let group = self.graph.own_facts(group);
            described.is_variant_of_address |= described.closeness > Closeness::Page;
            described.facts.fill_from(group.without_numbers());
        }
        described
    }

    fn variants(&self, group: &'a Json) -> impl Iterator<Item = &'a Json> {
        const MAX_VARIANTS: usize = 500;
        self.graph.items(group.get("hasVariant")).take(MAX_VARIANTS)
    }

    /// A product by itself, without its variants and its group.
    fn single(&self, product: &'a Json, steps: usize) -> Described {
        let graph = &self.graph;
        let mut facts = graph.own_facts(product);
        let mut offers = graph.offers(product, steps);
        let is_variant_of_address = self.put_first_what_is_meant(&mut offers);
        if is_variant_of_address {
            offers.truncate(1);
            facts.number_as(&offers);
        }
        facts.add_offers(offers.into_iter().map(|offer| offer.facts).collect());
        // By the letter a price belongs into an offer. In microdata many leave the offer out.
        let Facts { price, currency, availability, .. } = graph.offer(product, steps);
        facts.fill_from(Facts { price, currency, availability, ..Facts::default() });
        let addresses = self.addresses(product);
        let by_address = addresses.iter().map(|address| self.place.closeness(address)).max().unwrap_or_default();
        let numbers =
            ["sku", "mpn", "productID", "gtin13", "gtin"].iter().filter_map(|key| graph.text(product.get(key)));
        let by_number = numbers.map(|number| self.place.closeness_of_number(&number)).max().unwrap_or_default();
        Described {
            facts,
            is_variant_of_address,
            closeness: by_address.max(by_number),
            is_elsewhere: by_address == Closeness::Unknown && !addresses.is_empty(),
            ids: graph.text(product.get("@id")).into_iter().collect(),
        }
    }

    /// Shops without groups have an offer for each variant, with the address of the variant. Says
    /// whether the page's address means one of several.
    fn put_first_what_is_meant(&self, offers: &mut [Offer<'a>]) -> bool {
        let closeness = |offer: &Offer<'a>| {
            let address = self.graph.schema_name(offer.node.get("url")).map(|url| self.place.closeness(&url));
            address.max(offer.facts.sku.as_deref().map(|sku| self.place.closeness_of_number(sku))).unwrap_or_default()
        };
        let closeness: Vec<Closeness> = offers.iter().map(closeness).collect();
        let meant = closeness.iter().copied().max().filter(|one| *one > Closeness::Page).unwrap_or_default();
        let alone = closeness.iter().filter(|one| **one == meant).count() == 1;
        // Where all are alike, none is meant.
        let at = closeness.iter().position(|one| *one == meant).filter(|_| alone && offers.len() > 1);
        if let Some(at) = at.filter(|_| meant > Closeness::Page) {
            offers[..=at].rotate_right(1);
            return true;
        }
        false
    }

    /// What a product names as its own page. Its offer may name the page of the variant.
    fn addresses(&self, product: &'a Json) -> Vec<String> {
        let graph = &self.graph;
        let offers = graph.items(product.get("offers")).take(2).collect::<Vec<_>>();
        let offer = if let [only] = offers[..] { only.get("url") } else { &Json::Nothing };
        let own = ["url", "@id", "mainEntityOfPage"].map(|key| product.get(key));
        let named = own.into_iter().chain([offer]).filter_map(|json| graph.schema_name(json));
        named.filter(|address| !address.starts_with(['#', '_'])).collect()
    }
}

impl Facts {
    /// What a group says about each of its variants.
    fn without_numbers(self) -> Facts {
        Facts { sku: None, gtin: None, price: None, currency: None, availability: None, ..self }
    }

    /// Takes the numbers of the variant that was offered: the product's own are those of another one.
    fn number_as(&mut self, offers: &[Offer]) {
        for Offer { facts: variant, .. } in offers {
            if variant.sku.is_some() && variant.sku != self.sku {
                (self.sku, self.gtin) = (variant.sku.clone(), variant.gtin.clone());
            }
        }
    }

    /// What the offers say, where the product does not.
    fn add_offers(&mut self, offers: Vec<Facts>) {
        for offer in offers {
            // The first offer with a price is the one that the page shows.
            if self.price.is_none() && offer.price.is_some() {
                self.price = offer.price;
                self.currency = offer.currency;
                self.availability = offer.availability.or(self.availability.take());
            } else {
                self.availability = self.availability.take().or(offer.availability);
            }
            self.sku = self.sku.take().or(offer.sku);
            self.gtin = self.gtin.take().or(offer.gtin);
        }
    }
}

impl<'a> Graph<'a> {
    /// What stands on a product or an offer itself.
    fn own_facts(&self, json: &'a Json) -> Facts {
        const GTIN: [&str; 9] = ["gtin", "gtin13", "gtin14", "gtin12", "gtin8", "ean", "isbn", "isbn13", "productID"];
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
                _ => ["contentUrl", "url", "image", "@id"].iter().find_map(|key| self.text(item.get(key))),
            })
            .filter(|address| !address.is_empty())
            .collect()
    }
}
