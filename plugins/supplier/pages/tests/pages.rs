//! Every page in `pages/` gives exactly the product in the `.json` beside it (`null` = none).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, proptest};
use proptest::sample::select;

use serde_json::{Map, Value, json};
use supplier_pages::product::{self, charset};
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

/// Made so that something in it grows faster than the page does.
#[test]
fn a_hostile_page_costs_little_more_than_an_honest_one_of_its_size() {
    const SIZE: usize = 1 << 20;
    let fill = |piece: &str| piece.repeat(SIZE / piece.len());
    let product =
        |inside: &str| format!("<div itemscope itemtype=http://schema.org/Product><b itemprop=name>x</b>{inside}");
    let one_id = "<i id=a itemprop=image>x</i>".repeat(1000);
    let json = |inside: &str| {
        format!(r#"<script type="application/ld+json">{{"@type":"Product","name":"x",{inside}}}</script>"#)
    };
    let pages = [
        product(&fill("<i itemprop=description>word ")),
        product(&fill("<div itemprop=offers itemscope>")),
        product(&(fill("<p itemprop=image itemscope itemref='a b c d e f'>") + &one_id)),
        fill("<div itemscope itemtype=http://schema.org/Product itemref=a id=a>"),
        "<i>".repeat(300) + &fill("<div></b></span></li>"),
        "<p>".to_owned() + &"<i>".repeat(300) + &fill("<li><td><tr><p>"),
        product(&format!("<i itemprop=price>{}</i>", fill("1 234."))),
        product(&format!("<i itemprop=price>{}</i>", fill("9"))),
        fill("<meta property=og:image content=a>"),
        fill("<meta property=og:title content=''>") + "<meta property=og:title content=x>",
        json(&format!(r#""offers":[{}{{}}]"#, fill(r#"{"price":"1","offers":[{"@id":"x"}]},"#))),
        json(&format!(r#""@id":"a","hasVariant":[{}{{}}]"#, fill(r#"{"@id":"a"},"#))),
        json(&format!(r#""image":[{}1]"#, fill(r#"{"@type":"ImageObject","url":"a"},"#))),
        format!(
            r#"<script type="application/ld+json">[{}]</script>"#,
            fill(r#"{"@type":"Product","@id":"a","name":"x","isVariantOf":{"@id":"a"},},"#)
        ),
        format!("<script type=application/ld+json>{}</script>", fill("{\"a\":[")),
        format!("<script type=application/ld+json>{}</script>", fill("/* \" // ")),
        fill("<script type=application/ld+json>{\"@type\":\"Product\",}</script>"),
    ];
    let url = Url::parse("https://shop.example/p?a=1").unwrap();
    for (number, page) in pages.iter().enumerate() {
        let begun = Instant::now();
        product::find(page, &url);
        // An honest page takes a tenth of a second here, without optimisation.
        assert!(begun.elapsed() < Duration::from_secs(20), "page {number}: {:?}", begun.elapsed());
    }
}

fn any_element() -> impl Strategy<Value = String> {
    let name = select(vec![
        "div", "p", "li", "span", "a", "img", "meta", "link", "td", "table", "svg", "script", "title", "b",
    ]);
    let attribute = select(vec![
        "itemscope",
        "itemtype=http://schema.org/Product",
        "itemtype=https://schema.org/Offer",
        "itemprop=name",
        "itemprop='offers image'",
        "itemprop=price",
        "itemref='a b'",
        "id=a",
        "id=b",
        "content='1.299,00 €'",
        "href=//x.example/",
        "src=data:x",
        "srcset='a 1w, b 2x'",
        "property=og:title",
        "type=application/ld+json",
    ]);
    (name, vec(attribute, 0..5), select(vec!["", "/"]), "[a-z0-9., €<&;]{0,8}")
        .prop_map(|(name, attributes, end, text)| format!("<{end}{name} {}>{text}", attributes.join(" ")))
}

proptest! {
    #[test]
    fn no_page_makes_it_panic(
        body in vec(any::<u8>(), 0..400),
        elements in vec(any_element(), 0..40),
        json in "[\\[\\]{}\",:a-z0-9.e@ -]{0,200}",
        price in "[0-9.,'eE+ €-]{0,24}",
    ) {
        let url = Url::parse("https://shop.example/").unwrap();
        product::find(&charset::decode(&body, None), &url);
        if let Some(found) = product::find(&elements.concat(), &url) {
            let decimal = |price: &str| {
                price.split('.').count() <= 2 && price.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            };
            prop_assert!(found.facts.price.as_deref().is_none_or(decimal), "{found:?}");
            prop_assert!(found.facts.images.iter().all(|image| image.starts_with("http")), "{found:?}");
        }
        let html = format!(
            r#"<meta property="og:price:amount" content="{price}"><script type="application/ld+json">
            {{"@type":"Product","name":"x","offers":[{{"price":"{price}"}},{json}]}}</script>{json}"#
        );
        product::find(&html, &url);
    }
}
