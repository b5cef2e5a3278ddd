//! The plugin as a host runs it, in this process. What needs tables is left out where there is no PostgreSQL.

use std::io::Cursor;

use cardinal_plugin::serde_json::Value;
use cardinal_plugin::testing::{ServerAnswer, TestHost, TestReply, TestRequest, lacks_database, test_card, test_user};
use cardinal_plugin::{HttpFailure, Uuid, block_on, json};
use image::{ImageFormat, Rgb, RgbImage};

const MANIFEST: &str = include_str!("../manifest.json");
const SCHEMA: &str = include_str!("../schema.sql");

fn host(settings: Value) -> TestHost {
    TestHost::builder(MANIFEST).settings(settings).database(SCHEMA).start(crate::routes::routes)
}

fn send(host: &TestHost, request: TestRequest) -> TestReply {
    block_on(host.send(request))
}

/// A card with these pictures, written by a plugin of any name.
fn add_card(host: &TestHost, images: &Value) -> Uuid {
    let sources = json!({
        "other:shop": { "kind": "supplier", "data": { "images": images } },
        "other:text": { "kind": "text", "data": { "images": ["https://a.example/never.png"] } },
    });
    host.add_card(test_card("Lamp", json!({ "attributes": { "sources": sources } })))
}

const PICTURE: &str = "http://shop.example/lamp.png";

/// Lets a site answer everything with one picture.
fn serve(host: &TestHost) {
    let mut png = Cursor::new(Vec::new());
    RgbImage::from_pixel(800, 400, Rgb([9, 99, 199])).write_to(&mut png, ImageFormat::Png).unwrap();
    host.answer_http(move |_| ServerAnswer::new(200).body(png.get_ref().clone()));
}

/// How often the plugin has asked another server.
fn visits(host: &TestHost) -> usize {
    host.journal().iter().filter(|line| line.starts_with("http ")).count()
}

fn thumbnail(card: Uuid) -> String {
    format!("/cards/{card}/thumbnail?url={}", PICTURE.replace(':', "%3A").replace('/', "%2F"))
}

#[test]
fn pictures_are_read_by_kind_once_each_and_odd_data_is_passed_over() {
    let host = host(Value::Null);
    let images = json!([
        "https://a.example/1.png",
        7,
        null,
        "javascript:alert(1)",
        "//a.example/x",
        "https://a.example/1.png",
        "https://a.example/2.png"
    ]);
    let card = add_card(&host, &images);
    let list = send(&host, TestRequest::get(&format!("/cards/{card}"))).json();
    let urls: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["url"].clone()).collect();
    assert_eq!(urls, ["https://a.example/1.png", "https://a.example/2.png"], "{list}");
    assert_eq!(list["main"], json!({ "url": "https://a.example/1.png", "is_chosen": false, "is_gone": false }));
    for odd in [json!(null), json!("https://a.example/1.png"), json!({ "0": "https://a.example/1.png" })] {
        let card = add_card(&host, &odd);
        let list = send(&host, TestRequest::tool("plugin_gallery_list", &json!({ "card_id": card }))).json();
        assert_eq!(list, json!({ "items": [], "main": null }), "{odd}");
    }
    assert_eq!(send(&host, TestRequest::get(&format!("/cards/{}", Uuid::nil()))).status(), 404);
    assert_eq!(send(&host, TestRequest::get("/cards/7")).status(), 404);
}

#[test]
fn a_choice_is_kept_in_the_card_until_it_is_forgotten() {
    let host = host(Value::Null);
    let card = add_card(&host, &json!(["https://a.example/1.png", "https://a.example/2.png"]));
    let main = format!("/cards/{card}/main");
    let choose = |url: &str| TestRequest::put(&main).json(&json!({ "url": url }));
    assert_eq!(send(&host, choose("https://elsewhere.example/x.png")).status(), 422);
    assert_eq!(send(&host, choose("https://a.example/2.png")).json(), json!({ "version": 2 }));
    let source = &host.card(card).sources()["gallery:main"];
    assert_eq!((&*source.kind, &source.data), ("main-picture", &json!({ "url": "https://a.example/2.png" })));
    let reader = test_user("Ada", &["plugin:gallery:read"]);
    let list = send(&host, TestRequest::get(&format!("/cards/{card}")).user(reader.clone())).json();
    assert_eq!((&list["main"]["is_chosen"], &list["items"][1]["is_main"]), (&json!(true), &json!(true)), "{list}");
    assert_eq!(send(&host, choose("https://a.example/1.png").user(reader)).status(), 403);
    assert_eq!(send(&host, TestRequest::delete(&main)).json(), json!({ "version": 3 }));
    assert_eq!(send(&host, TestRequest::delete(&main)).json(), json!({ "version": 3 }), "nothing is left to forget");
}

#[test]
fn only_pictures_of_the_card_are_asked_for() {
    let host = host(Value::Null);
    serve(&host);
    let path = thumbnail(add_card(&host, &json!([])));
    assert_eq!(send(&host, TestRequest::get(&path)).status(), 404);
    assert_eq!(send(&host, TestRequest::get(&format!("{path}&size=161"))).status(), 422);
    assert_eq!(visits(&host), 0);
}

#[test]
fn a_thumbnail_is_made_once_and_kept() {
    if lacks_database() {
        return;
    }
    let host = host(Value::Null);
    serve(&host);
    let card = add_card(&host, &json!([PICTURE]));
    let path = format!("{}&size=160", thumbnail(card));
    let reply = send(&host, TestRequest::get(&path));
    assert_eq!((reply.status(), reply.header("content-type")), (200, Some("image/jpeg")), "{reply:?}");
    let small = image::load_from_memory(reply.bytes()).unwrap();
    assert_eq!((small.width(), small.height()), (160, 80));
    let tag = reply.header("etag").unwrap().to_owned();
    assert_eq!(send(&host, TestRequest::get(&path).header("if-none-match", &tag)).status(), 304);
    let data = send(&host, TestRequest::get(&format!("{path}&as=data"))).json();
    assert_eq!((&data["width"], &data["height"]), (&json!(800), &json!(400)));
    assert!(data["data"].as_str().unwrap().starts_with("data:image/jpeg;base64,/9j/"));
    let tool = TestRequest::tool("plugin_gallery_show", &json!({ "card_id": card, "url": PICTURE, "size": 160 }));
    assert_eq!(send(&host, tool).header("content-type"), Some("image/jpeg"));
    assert_eq!(visits(&host), 1, "the picture was read once");
}

#[test]
fn a_refused_address_is_asked_for_again_once_it_may_be_open() {
    if lacks_database() {
        return;
    }
    let host = host(Value::Null);
    let path = thumbnail(add_card(&host, &json!([PICTURE])));
    for failure in [HttpFailure::AddressRefused, HttpFailure::NameNotFound] {
        host.answer_http(move |_| ServerAnswer::failed(failure));
        let reply = send(&host, TestRequest::get(&path));
        assert_eq!((reply.status(), &reply.json()["code"]), (422, &json!("address-refused")));
    }
    serve(&host);
    assert_eq!(send(&host, TestRequest::get(&path)).status(), 200);
}

#[test]
fn how_a_site_fails_is_told_and_not_kept() {
    if lacks_database() {
        return;
    }
    let host = host(Value::Null);
    let path = thumbnail(add_card(&host, &json!([PICTURE])));
    for (failure, status) in [(HttpFailure::TimedOut, 504), (HttpFailure::Connect, 502), (HttpFailure::Tls, 502)] {
        host.answer_http(move |_| ServerAnswer::failed(failure));
        assert_eq!(send(&host, TestRequest::get(&path)).status(), status, "{failure:?}");
    }
    host.answer_http(|_| ServerAnswer::new(200).body(vec![0; 9]).then_failed(HttpFailure::BrokenOff));
    assert_eq!(send(&host, TestRequest::get(&path)).status(), 502);
    serve(&host);
    assert_eq!(send(&host, TestRequest::get(&path)).status(), 200);
}
