//! The plugin `gallery`: pictures that another plugin has found, made small, and the one that stands for the product.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use cardinal_tests::{Host, Pages, PluginsFolder, User};
use http::{Method, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// One pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const GALLERY: &str = "/v1/admin/plugins/gallery/cards";

/// A shop: a page with these pictures, each of which is one pixel but for `/text.png`.
async fn shop(pictures: &str) -> Pages {
    let product = json!({"@type": "Product", "name": "Lamp", "image": pictures.split(' ').collect::<Vec<_>>()});
    let page = format!("<script type=\"application/ld+json\">{product}</script>");
    Pages::answering(move |request| {
        let (kind, body) = match request.uri.path() {
            "/lamp" => ("text/html", Bytes::from(page.clone())),
            "/text.png" => ("image/png", Bytes::from_static(b"no picture")),
            _ => ("image/png", BASE64_STANDARD.decode(PIXEL).unwrap().into()),
        };
        let body = Full::new(body).map_err(|never| match never {}).boxed();
        std::future::ready(Response::builder().header("content-type", kind).body(body).unwrap())
    })
    .await
}

/// A card that the plugin `supplier` has filled from the shop; its id.
async fn card_from(owner: &User, shop: &Pages) -> String {
    let card = owner.card("Lamp").await["id"].as_str().unwrap().to_owned();
    let enrich = format!("/v1/admin/plugins/supplier/enrich/{card}");
    owner.post(&enrich, &json!({"url": shop.url("/lamp")})).await.expect(200);
    card
}

fn thumbnail(card: &str, url: &str, more: &str) -> String {
    format!("{GALLERY}/{card}/thumbnail?url={}{more}", url.replace(':', "%3A").replace('/', "%2F"))
}

#[tokio::test]
async fn pictures_of_another_plugin_are_listed_made_small_and_kept() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let shop = shop("/1.png /2.png /text.png").await;
    let card = card_from(owner, &shop).await;
    let reader = owner.key(&["plugin:gallery:read"]).await;
    let list = reader.get(&format!("{GALLERY}/{card}")).await.expect(200);
    let urls: Vec<Value> = list["items"].as_array().unwrap().iter().map(|item| item["url"].clone()).collect();
    assert_eq!(urls, ["/1.png", "/2.png", "/text.png"].map(|path| json!(shop.url(path))), "{list}");
    let before = shop.served();
    for _ in 0..2 {
        let small = reader.get(&thumbnail(&card, &shop.url("/1.png"), "&size=160")).await;
        assert_eq!((small.status.as_u16(), small.header("content-type")), (200, Some("image/jpeg")), "{small}");
        assert!(small.body.starts_with(&[0xff, 0xd8]), "{small}");
        reader.get(&thumbnail(&card, &shop.url("/text.png"), "")).await.refused(422, "picture-unusable");
    }
    assert_eq!(shop.served() - before, 2, "each is read once, the unusable one too");
    let count = "SELECT count(*) FROM plugin_gallery.thumbnails WHERE (jpeg IS NULL) = (size = 320)";
    assert!(host.database().await.query_one(count, &[]).await.unwrap().get::<_, i64>(0) >= 2);
    reader.get(&thumbnail(&card, "http://127.0.0.1:1/other.png", "")).await.refused(404, "not-found");
    owner.key(&["cards:read"]).await.get(&format!("{GALLERY}/{card}")).await.refused(403, "insufficient-scope");
}

#[tokio::test]
async fn the_choice_is_a_source_of_the_card_and_tools_see_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let shop = shop("/1.png /2.png").await;
    let card = card_from(owner, &shop).await;
    let main = format!("{GALLERY}/{card}/main");
    let choose = |url: String| owner.call(Method::PUT, &main).json(&json!({"url": url})).send();
    choose(shop.url("/other.png")).await.refused(422, "validation-failed");
    choose(shop.url("/2.png")).await.expect(200);
    let source = owner.read_card(&card).await["attributes"]["sources"]["gallery:main"].clone();
    assert_eq!(
        (&source["kind"], &source["data"]["url"]),
        (&json!("main-picture"), &json!(shop.url("/2.png"))),
        "{source}"
    );
    let call = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    };
    let listed = owner.mcp(&call("plugin_gallery_list", json!({"card_id": card}))).await;
    assert!(listed.status == 200 && listed.text().contains("\"is_chosen\":true"), "{listed}");
    let shown = owner.mcp(&call("plugin_gallery_show", json!({"card_id": card, "url": shop.url("/1.png")}))).await;
    assert!(shown.text().contains("image/jpeg") && !shown.text().contains("\"isError\":true"), "{shown}");
    owner.call(Method::DELETE, &main).send().await.expect(200);
    let list = owner.get(&format!("{GALLERY}/{card}")).await.expect(200);
    assert_eq!(list["main"], json!({"url": shop.url("/1.png"), "is_chosen": false, "is_gone": false}));
}

#[tokio::test]
async fn private_addresses_stay_closed_unless_its_setting_opens_them() {
    // The plugin that finds the pictures may read this machine, the gallery may not.
    let settings = Host::settings().plugins(PluginsFolder::bundled());
    let allowed = json!({"allow_private_addresses": true}).to_string();
    let host = settings.set("PLUGIN_SETTINGS_SUPPLIER", allowed).start().await;
    let owner = host.owner().await;
    let shop = shop("/1.png http://localhost/x.png http://169.254.169.254/y.png").await;
    let card = card_from(owner, &shop).await;
    let before = shop.served();
    for url in [shop.url("/1.png"), "http://localhost/x.png".into(), "http://169.254.169.254/y.png".into()] {
        owner.get(&thumbnail(&card, &url, "")).await.refused(422, "address-refused");
    }
    assert_eq!(shop.served(), before);
}
