//! Every page in `pages/` gives exactly the product in the `.json` beside it (`null` = none).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use supplier::product::{self, charset};
use url::Url;

const FIELDS: [&str; 9] =
    ["title", "brand", "sku", "gtin", "description", "price", "currency", "availability", "images"];

#[test]
fn every_page_gives_the_expected_product() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    let url = Url::parse("https://shop.example/product").unwrap();
    let mut pages: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let mut wrong = Vec::new();
    for page in pages.iter().filter(|path| path.extension().is_some_and(|kind| kind == "html")) {
        let body = fs::read(page).unwrap();
        let found = product::find(&charset::decode(&body, Some("text/html")), &url);
        let found = serde_json::to_value(found).unwrap();
        let expected = expected(&fs::read_to_string(page.with_extension("json")).unwrap());
        if found != expected {
            wrong.push(format!("{}\n   found: {found}\nexpected: {expected}", page.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pages.len() >= 30, "the folder of pages was not found whole");
}

/// Fields that the file leaves out are null, so that nothing may be found that is not expected.
fn expected(json: &str) -> Value {
    match serde_json::from_str(json).unwrap() {
        Value::Object(known) => {
            assert!(known.keys().all(|key| FIELDS.contains(&key.as_str())), "{json}");
            let field = |name: &str| known.get(name).cloned().unwrap_or_default();
            Value::Object(FIELDS.iter().map(|name| (name.to_string(), field(name))).collect::<Map<_, _>>())
        }
        other => other,
    }
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
    assert_eq!(product::find(&html, &url).unwrap().price, None);
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
