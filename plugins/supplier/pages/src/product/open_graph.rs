//! OpenGraph and the product properties that grew around it, <https://ogp.me>.

use super::page::Page;
use super::{Facts, availability, gtin, price, text};

pub(super) struct OpenGraph {
    pub facts: Facts,
    /// Nearly every page has OpenGraph; not every page is about a product.
    pub is_product: bool,
}

pub(super) fn read(page: &Page) -> OpenGraph {
    let first = |names: &[&str]| names.iter().find_map(|name| text::plain(page.meta(name)?));
    let written_price = first(&["product:sale_price:amount", "product:price:amount", "og:price:amount"]);
    let currency = first(&["product:sale_price:currency", "product:price:currency", "og:price:currency"]);
    let facts = Facts {
        title: first(&["og:title", "twitter:title"]),
        brand: first(&["product:brand", "og:brand"]),
        sku: first(&["product:retailer_item_id", "product:sku", "product:mfr_part_no"]),
        gtin: first(&["product:gtin", "product:ean", "product:upc", "product:isbn"])
            .and_then(|text| gtin::normal(&text)),
        description: first(&["og:description", "description", "twitter:description"]),
        price: written_price.as_deref().and_then(price::decimal),
        currency: currency
            .as_deref()
            .and_then(price::currency)
            .or_else(|| written_price.as_deref().and_then(price::currency)),
        availability: first(&["product:availability", "og:availability"]).and_then(|text| availability::normal(&text)),
        images: images(&page.meta),
    };
    let is_product = match first(&["og:type"]) {
        Some(kind) if kind.to_ascii_lowercase().contains("product") => true,
        // A page that forgot to say what it is, but shows a named thing.
        None if first(&["og:title"]).is_some() && !facts.images.is_empty() => true,
        _ => facts.price.is_some(),
    };
    OpenGraph { facts, is_product }
}

fn images(meta: &[(String, String)]) -> Vec<String> {
    const NAMES: [&str; 3] = ["og:image", "og:image:url", "og:image:secure_url"];
    let named = |name: &str| {
        let found = meta.iter().filter(|(known, _)| known == name);
        found.map(|(_, content)| content.clone()).collect::<Vec<_>>()
    };
    // `og:image:url` is another spelling of `og:image`, not a further image.
    NAMES.into_iter().chain(["twitter:image"]).map(named).find(|images| !images.is_empty()).unwrap_or_default()
}
