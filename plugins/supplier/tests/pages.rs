//! Every page in `pages/` gives exactly the product in the `.json` beside it (`null` = none).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use supplier::product::{self, charset};
use url::Url;

const FIELDS: [&str; 10] =
    ["title", "brand", "sku", "gtin", "description", "price", "currency", "availability", "images", "url"];

/// Where a page stands, unless its `.json` says otherwise in `$at`.
const PAGE: &str = "https://shop.example/product";

#[test]
fn every_page_gives_the_expected_product() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    let mut pages: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|kind| kind == "html"));
    pages.sort();
    let mut wrong = Vec::new();
    for page in &pages {
        let expected: Value = serde_json::from_str(&fs::read_to_string(page.with_extension("json")).unwrap()).unwrap();
        let setting = |name: &str, usual: &str| expected[name].as_str().unwrap_or(usual).to_owned();
        let url = Url::parse(&setting("$at", PAGE)).unwrap();
        let html = fs::read(page).unwrap();
        let html = charset::decode(&html, Some(&setting("$type", "text/html")));
        let found = serde_json::to_value(product::find(&html, &url)).unwrap();
        let expected = with_all_fields(expected, &url);
        if found != expected {
            wrong.push(format!("{}\n   found: {found}\nexpected: {expected}", page.display()));
        }
    }
    assert!(wrong.is_empty(), "{} pages:\n{}", wrong.len(), wrong.join("\n"));
    assert!(pages.len() >= 60, "the folder of pages was not found whole");
}

/// Fields that the file leaves out are null, so that nothing may be found that is not expected. The
/// product's address is the page's unless the file names one.
fn with_all_fields(expected: Value, url: &Url) -> Value {
    let Value::Object(known) = expected else {
        return expected;
    };
    assert!(known.keys().all(|key| FIELDS.contains(&key.as_str()) || key.starts_with('$')), "{known:?}");
    let usual = Map::from_iter([("images".to_owned(), json!([])), ("url".to_owned(), json!(url))]);
    let field = |name: &str| known.get(name).or(usual.get(name)).cloned().unwrap_or_default();
    Value::Object(FIELDS.iter().map(|name| (name.to_string(), field(name))).collect())
}

#[test]
fn a_page_that_refers_to_itself_in_circles_ends() {
    let many = r##"{"@id":"#a"},"##.repeat(2000);
    let long = "word ".repeat(20_000);
    let html = format!(
        r##"<script type="application/ld+json">{{"@type":"Product","@id":"#a","name":"{long}",
        "description":"{long}","hasVariant":{{"@id":"#a"}},
        "offers":[{many}{{"@id":"#a"}}],"priceSpecification":[{many}{{"@id":"#a"}}]}}</script>"##
    );
    let url = Url::parse("https://shop.example/").unwrap();
    assert_eq!(product::find(&html, &url).unwrap().facts.price, None);
    // Nodes of a few bytes, millions of ways round.
    assert!(product::find(&html.replace(&long, "x"), &url).is_some());
}

proptest::proptest! {
    #[test]
    fn no_page_makes_it_panic(
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
        json in "[\\[\\]{}\",:a-z0-9.e@ -]{0,200}",
        price in "[0-9.,'eE+ €-]{0,24}",
    ) {
        let url = Url::parse("https://shop.example/").unwrap();
        product::find(&charset::decode(&body, None), &url);
        let html = format!(
            r#"<meta property="og:price:amount" content="{price}"><script type="application/ld+json">
            {{"@type":"Product","name":"x","offers":[{{"price":"{price}"}},{json}]}}</script>{json}"#
        );
        product::find(&html, &url);
    }
}
