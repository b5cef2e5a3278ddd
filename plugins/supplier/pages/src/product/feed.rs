//! From a feed or a sitemap to products or addresses. Pure, as all of [`product`](super).
//!
//! CSV, JSON and XML give the same records, fields by name; one place knows what shops call their fields.

mod csv;
mod json;
mod xml;

use url::Url;

use super::{Facts, address, availability, gtin, price, text};

/// Entries that are read of a feed or a sitemap; the rest is passed over, and the count says so.
pub const MAX_ENTRIES: usize = 50_000;

/// What a file turned out to be.
#[derive(Debug)]
pub enum Feed {
    /// Products, of each what it says.
    Products(Vec<Entry>),
    /// A sitemap: pages that show products, perhaps.
    Pages(Vec<Url>),
    /// A list of sitemaps.
    Sitemaps(Vec<Url>),
}

/// A product of a feed.
#[derive(Debug, PartialEq)]
pub struct Entry {
    pub facts: Facts,
    /// Its page, when it names one.
    pub url: Option<Url>,
}

/// Why a file is none.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("the file is no feed: neither CSV with a header row, nor JSON, nor XML")]
    Format,
    #[error("the feed is damaged: {0}")]
    Damaged(String),
    #[error("the feed has no product with an SKU")]
    Empty,
}

/// Reads a file that was found at `base`.
///
/// # Errors
/// When it is no feed, or none with products.
pub fn read(file: &str, base: &Url) -> Result<Feed, FeedError> {
    let file = file.trim_start_matches('\u{feff}').trim_start();
    let records = match file.as_bytes().first() {
        Some(b'<') => match xml::read(file)? {
            xml::Found::Records(records) => records,
            xml::Found::Pages(addresses) => return Ok(Feed::Pages(urls(&addresses, base))),
            xml::Found::Sitemaps(addresses) => return Ok(Feed::Sitemaps(urls(&addresses, base))),
        },
        Some(b'{' | b'[') => json::records(file)?,
        _ => csv::records(file)?,
    };
    let entries: Vec<Entry> = records.iter().filter_map(|record| record.entry(base)).collect();
    if entries.is_empty() { Err(FeedError::Empty) } else { Ok(Feed::Products(entries)) }
}

/// Those of the web, each as the address that it is from `base`.
fn urls(addresses: &[String], base: &Url) -> Vec<Url> {
    let addresses = addresses.iter().filter_map(|address| base.join(address.trim()).ok());
    addresses.filter(|url| matches!(url.scheme(), "http" | "https")).collect()
}

/// Fields of an entry by their names, in lower case without anything but letters and digits.
#[derive(Debug, Default)]
struct Record {
    fields: Vec<(String, String)>,
}

impl Record {
    fn add(&mut self, name: &str, value: &str) {
        let name: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        if !value.trim().is_empty() {
            self.fields.push((name, value.trim().to_owned()));
        }
    }

    /// The first of these fields that there is.
    fn get(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.fields.iter().find(|(own, _)| own == name)).map(|(_, value)| value.as_str())
    }

    /// The product, when it has an SKU: without one no card is found for it.
    fn entry(&self, base: &Url) -> Option<Entry> {
        let sku = self.get(&["sku", "vendorcode", "article", "itemnumber", "id", "gid", "productid", "mpn"])?;
        let asked = self.get(&["saleprice", "price", "offersprice", "priceamount", "pricevalue"]);
        let currency = ["currency", "currencyid", "pricecurrency", "offerspricecurrency"];
        let facts = Facts {
            title: self.get(&["title", "name", "productname", "model"]).and_then(text::plain),
            brand: self.get(&["brand", "brandname", "vendor", "manufacturer"]).and_then(text::plain),
            sku: Some(text::words(sku)),
            gtin: self.get(&["gtin", "gtin13", "ean", "barcode", "upc", "isbn"]).and_then(gtin::normal),
            description: self.get(&["description", "summary", "text"]).and_then(text::plain),
            price: asked.and_then(price::decimal),
            currency: self.get(&currency).or(asked).and_then(currency_in),
            availability: self.get(&["availability", "offersavailability"]).and_then(availability::normal),
            images: address::images(&self.images(), base),
        };
        let url = self.get(&["link", "url", "producturl", "offersurl"]).and_then(|link| base.join(link).ok());
        Some(Entry { facts, url: url.filter(|url| matches!(url.scheme(), "http" | "https")) })
    }

    fn images(&self) -> Vec<String> {
        const NAMES: [&str; 8] =
            ["image", "images", "imagelink", "imageurl", "picture", "pictures", "additionalimagelink", "imagesurl"];
        let named = self.fields.iter().filter(|(name, _)| NAMES.contains(&name.as_str()));
        named.flat_map(|(_, value)| split(value)).map(str::to_owned).collect()
    }
}

/// `EUR`, `49.90 EUR` and `€ 49.90`.
fn currency_in(text: &str) -> Option<String> {
    text.split_whitespace().find_map(price::currency)
}

/// Several addresses in one field: behind white space, `|`, `;` or `,` another one begins only with its scheme, for
/// these signs stand in addresses, too.
fn split(value: &str) -> Vec<&str> {
    let is_sign = |c: char| c.is_whitespace() || matches!(c, '|' | ';' | ',');
    let mut parts = Vec::new();
    let mut rest = value;
    let next = |rest: &str| {
        rest.match_indices(is_sign).map(|(at, _)| at).find(|at| {
            let behind = rest[*at..].trim_start_matches(is_sign);
            behind.starts_with("http://") || behind.starts_with("https://")
        })
    };
    while let Some(at) = next(rest) {
        parts.push(&rest[..at]);
        rest = rest[at..].trim_start_matches(is_sign);
    }
    parts.push(rest);
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use url::Url;

    use super::{Entry, Feed, FeedError, read};

    fn base() -> Url {
        Url::parse("https://shop.example/feeds/all").unwrap()
    }

    fn products(file: &str) -> Vec<Entry> {
        match read(file, &base()) {
            Ok(Feed::Products(entries)) => entries,
            other => panic!("{other:?}"),
        }
    }

    /// What the three formats must give alike.
    fn assert_lamp(entry: &Entry) {
        let facts = &entry.facts;
        assert_eq!((facts.sku.as_deref(), facts.title.as_deref()), (Some("L-1"), Some("Desk lamp & shade")));
        assert_eq!((facts.price.as_deref(), facts.currency.as_deref()), (Some("49.90"), Some("EUR")));
        assert_eq!((facts.gtin.as_deref(), facts.brand.as_deref()), (Some("4006381333931"), Some("Lumo")));
        assert_eq!(facts.images, ["https://shop.example/1.jpg", "https://shop.example/2.jpg?a,b"]);
        assert_eq!(entry.url.as_ref().unwrap().as_str(), "https://shop.example/lamp");
        assert_eq!(facts.availability.as_deref(), Some("InStock"));
    }

    #[test]
    fn csv_json_and_xml_give_the_same_product() {
        let head = "ID;Title;Price;GTIN;Brand;image_link;Link;availability";
        let csv = format!(
            "\u{feff}{head}\nL-1;\"Desk lamp &amp; shade\";\"49,90 EUR\";4006381333931;Lumo;https://shop.example/1.jpg,https://shop.example/2.jpg?a,b;/lamp;in stock\n;no SKU;;;;;;\n"
        );
        assert_eq!(products(&csv).len(), 1);
        assert_lamp(&products(&csv)[0]);
        let json = r#"{"version": 1, "products": [{"sku": "L-1", "name": "Desk lamp & shade", "brand": {"name": "Lumo"},
            "offers": {"price": 49.90, "priceCurrency": "EUR", "availability": "https://schema.org/InStock"},
            "ean": 4006381333931, "images": ["/1.jpg", "/2.jpg?a,b"], "url": "/lamp"}, 7, {"name": "no SKU"}]}"#;
        assert_lamp(&products(json)[0]);
        let google = r#"<?xml version="1.0"?><rss xmlns:g="http://base.google.com/ns/1.0"><channel><title>Shop</title>
            <item><g:id>L-1</g:id><title><![CDATA[Desk lamp & shade]]></title><g:price>49.90 EUR</g:price><g:gtin>4006381333931</g:gtin>
            <g:brand>Lumo</g:brand><g:image_link>/1.jpg</g:image_link><g:additional_image_link>/2.jpg?a,b</g:additional_image_link>
            <link>/lamp</link><g:availability>in_stock</g:availability><g:shipping><g:price>4.90 EUR</g:price></g:shipping></item></channel></rss>"#;
        assert_lamp(&products(google)[0]);
        let yml = r#"<yml_catalog><shop><name>Shop</name><offers><offer id="7" available="true"><name>Desk lamp &amp; shade</name>
            <vendorCode>L-1</vendorCode><price>49.90</price><currencyId>EUR</currencyId><barcode>4006381333931</barcode><vendor>Lumo</vendor>
            <picture>/1.jpg</picture><picture>/2.jpg?a,b</picture><url>/lamp</url><availability>InStock</availability></offer></offers></shop></yml_catalog>"#;
        assert_lamp(&products(yml)[0]);
    }

    #[test]
    fn sitemaps_are_told_from_feeds() {
        let pages = "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>https://shop.example/a?b&amp;c</loc></url>\
                     <url><loc> /d </loc></url><url><loc>ftp://x/</loc></url></urlset>";
        let Ok(Feed::Pages(pages)) = read(pages, &base()) else { panic!("no pages") };
        assert_eq!(
            pages.iter().map(Url::as_str).collect::<Vec<_>>(),
            ["https://shop.example/a?b&c", "https://shop.example/d"]
        );
        let index = "<sitemapindex><sitemap><loc>/s1.xml</loc></sitemap></sitemapindex>";
        assert!(matches!(read(index, &base()), Ok(Feed::Sitemaps(sitemaps)) if sitemaps.len() == 1));
    }

    #[test]
    fn what_is_no_feed_is_said_so() {
        for file in ["", "just a line", "a,b\n1,2\n", "{}", "[]", "<html><body>no</body></html>", "<rss/>"] {
            assert!(matches!(read(file, &base()), Err(FeedError::Empty | FeedError::Format)), "{file}");
        }
        for file in ["{\"products\": [", "<rss><item></rss>"] {
            assert!(matches!(read(file, &base()), Err(FeedError::Damaged(_))), "{file}");
        }
        // Entities of a document's own are not resolved: none grows, none reads a file.
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b SYSTEM \"file:///etc/passwd\">]><rss><item><sku>&a;&b;s</sku></item></rss>";
        assert_eq!(products(bomb)[0].facts.sku.as_deref(), Some("s"));
        let deep = format!("{}{}", "<a>".repeat(5000), "</a>".repeat(5000));
        assert!(read(&deep, &base()).is_err());
    }
}
