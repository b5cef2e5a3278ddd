//! The plugin as a host runs it, in this process: `cardinal_plugin::testing`. What needs tables is left out where
//! there is no PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardinal_plugin::serde_json::Value;
use cardinal_plugin::testing::{
    JobEnd, ServerAnswer, TestHost, TestJob, TestJobRun, TestReply, TestRequest, lacks_database, test_card, test_user,
};
use cardinal_plugin::{Uuid, block_on, json};

const MANIFEST: &str = include_str!("../manifest.json");
const SCHEMA: &str = include_str!("../schema.sql");
const PAGE: &str = r#"<script type="application/ld+json">
    {"@type": "Product", "name": "Lamp", "sku": "L1", "offers": {"price": "9.90", "priceCurrency": "EUR"}}</script>"#;

fn host(settings: Value) -> TestHost {
    TestHost::builder(MANIFEST).settings(settings).database(SCHEMA).start(crate::routes::routes)
}

fn get(host: &TestHost, path: &str) -> TestReply {
    block_on(host.send(TestRequest::get(path)))
}

/// The site of a supplier, which answers each path with what `page` says.
const SITE: &str = "http://shop.example";

fn serve(host: &TestHost, page: impl Fn(&str) -> String + Send + Sync + 'static) {
    host.answer_http(move |request| {
        ServerAnswer::new(200).header("content-type", "text/html").body(page(request.path()))
    });
}

#[test]
fn an_address_that_is_none_is_refused_before_anything_is_asked() {
    let host = host(Value::Null);
    for path in ["/preview?url=ftp%3A%2F%2Fx", "/preview?url=nonsense", "/preview"] {
        let reply = get(&host, path);
        assert_eq!((reply.status(), &reply.json()["errors"][0]["pointer"]), (422, &json!("/url")), "{path}");
    }
    assert_eq!(get(&host, "/preview?url=x&other=1").status(), 422, "a parameter that nobody reads");
    assert_eq!(host.journal(), [""; 0], "neither a connection nor a card");
}

#[test]
fn pages_are_listed_within_limits_and_behind_cursors_of_ours() {
    let host = host(Value::Null);
    assert_eq!(get(&host, "/items?limit=0").status(), 400);
    assert_eq!(get(&host, "/items?limit=201").status(), 400);
    let reply = get(&host, "/items?cursor=nonsense");
    assert_eq!((reply.status(), &reply.json()["code"]), (400, &json!("invalid-cursor")));
}

#[test]
fn a_page_becomes_a_source_of_the_card_once() {
    if lacks_database() {
        return;
    }
    let url = format!("{SITE}/lamp");
    let host = host(json!({ "honour_robots": false, "delay_ms": 0 }));
    serve(&host, |_| PAGE.to_owned());
    let card = host.add_card(test_card("Card", json!({})));
    let enrich = || TestRequest::post(&format!("/enrich/{card}")).json(&json!({ "url": url }));
    let reply = block_on(host.send(enrich()));
    assert_eq!(reply.status(), 200, "{reply:?}");
    assert_eq!((&reply.json()["version"], &reply.json()["product"]["title"]), (&json!(2), &json!("Lamp")));
    assert_eq!(host.card(card).sources_of("supplier")["supplier:shop.example"].data["price"], "9.90");
    let tool = TestRequest::tool("plugin_supplier_enrich", &json!({ "card_id": card, "url": url }));
    let reply = block_on(host.send(tool));
    assert_eq!(reply.json()["version"], 3, "{reply:?}");
    let counted = host.metrics().into_iter().map(|metric| metric.name).collect::<Vec<_>>();
    assert_eq!(counted, ["pages_read", "cache_hits"], "the second time from the cache");
    let items = get(&host, "/items?limit=1").json();
    assert_eq!((&items["items"][0]["card_ids"], &items["next_cursor"]), (&json!([card]), &Value::Null));
    let reader = test_user("Ada", &["plugin:supplier:read"]);
    assert_eq!(block_on(host.send(enrich().user(reader))).status(), 403);
}

/// The job of a feed.
fn feed(host: &TestHost, url: &str) -> TestJobRun {
    host.begin_job(TestJob::new("feed").args(&json!({ "url": url })))
}

/// Items in all, items done, what was said last, and the entries that failed.
fn report(run: &TestJobRun) -> (Option<u64>, u64, String, Vec<Value>) {
    let entries = run.failures().into_iter().map(|failure| failure["entry"].clone()).collect();
    (run.total(), run.done(), run.text(), entries)
}

fn counts(enriched: u64, unmatched: u64) -> String {
    format!("Enriched: {enriched}. Without a card: {unmatched}.")
}

#[test]
fn a_feed_and_a_sitemap_enrich_the_cards_with_their_skus() {
    if lacks_database() {
        return;
    }
    let (address, host) = (SITE, host(json!({ "honour_robots": false, "delay_ms": 0 })));
    serve(&host, |path| match path {
        "/feed.csv" => "sku,title,price,image\nL1,Lamp,\"9,90 EUR\",/1.jpg\nL2,Other,1,\nL9,Unknown,1,\n".to_owned(),
        "/sitemap.xml" => "<urlset><url><loc>/lamp</loc></url><url><loc>/none</loc></url>\
                           <url><loc>http://elsewhere.example/</loc></url></urlset>"
            .to_owned(),
        "/none" => "<html></html>".to_owned(),
        "/bad" => "nothing".to_owned(),
        _ => PAGE.to_owned(),
    });
    let lamp = host.add_card(test_card("Card", json!({ "sku": "L1" })));
    let other = host.add_card(test_card("Other", json!({ "sku": "L2" })));
    let mut run = feed(&host, &format!("{address}/feed.csv"));
    assert!(matches!(block_on(&mut run), JobEnd::Done));
    assert_eq!(report(&run), (Some(3), 3, counts(2, 1), vec![]));
    let source = host.card(lamp).sources()["supplier:shop.example:feed"].data.clone();
    assert_eq!(
        (&source["price"], &source["images"]),
        (&json!("9.90"), &json!([format!("{address}/1.jpg")])),
        "{source}"
    );
    assert_eq!(host.card(other).version, 2);
    let mut run = feed(&host, &format!("{address}/sitemap.xml"));
    assert!(matches!(block_on(&mut run), JobEnd::Done));
    assert_eq!(report(&run), (Some(2), 2, counts(1, 0), vec![json!(format!("{address}/none"))]));
    let JobEnd::Failed(error) = block_on(feed(&host, &format!("{address}/bad"))) else { panic!("it was no feed") };
    assert!(error.message().contains("no feed"), "{error:?}");
}

#[test]
fn a_feed_is_begun_as_a_job_by_the_route_and_by_the_tool() {
    let host = host(json!({}));
    let asked = json!({ "url": format!("{SITE}/feed.csv") });
    let begun = block_on(host.send(TestRequest::post("/feeds").json(&asked)));
    assert_eq!(begun.status(), 202, "{begun:?}");
    let by_tool = block_on(host.send(TestRequest::tool("plugin_supplier_feed", &asked)));
    let started = host.started_jobs();
    let ids: Vec<Value> = started.iter().map(|job| json!(job.id)).collect();
    assert_eq!(ids, [begun.json()["job"].clone(), by_tool.json()["job"].clone()]);
    assert!(started.iter().all(|job| (job.name.as_str(), &job.args) == ("feed", &asked)), "{started:?}");
    let refused = block_on(host.send(TestRequest::post("/feeds").json(&json!({ "url": "ftp://shop.example/" }))));
    assert_eq!((refused.status(), host.started_jobs().len()), (422, 2), "{refused:?}");
}

#[test]
fn a_feed_that_is_stopped_goes_on_where_it_was() {
    if lacks_database() {
        return;
    }
    let host = host(json!({ "honour_robots": false, "delay_ms": 0 }));
    let rows: String = (0..250).map(|number| format!("N{number},Lamp\n")).collect();
    serve(&host, move |_| format!("sku,title\n{rows}"));
    let cards: Vec<Uuid> = ["N0", "N249"].map(|sku| host.add_card(test_card("Card", json!({ "sku": sku })))).to_vec();
    let mut run = feed(&host, &format!("{SITE}/feed.csv"));
    run.stop();
    assert!(matches!(block_on(&mut run), JobEnd::Stopped));
    let reached = run.checkpoint().unwrap();
    assert_eq!((&reached["entries"], run.total()), (&json!(100), Some(250)), "{reached}");
    let rest = TestJob::new("feed").args(&json!({ "url": format!("{SITE}/feed.csv") })).checkpoint(&reached);
    let mut run = host.begin_job(rest);
    assert!(matches!(block_on(&mut run), JobEnd::Done));
    assert_eq!(report(&run), (Some(250), 250, counts(2, 248), vec![]));
    assert!(cards.iter().all(|card| host.card(*card).version == 2), "each was written once");
}

#[test]
fn a_run_waits_as_long_as_an_overrun_site_asks() {
    if lacks_database() {
        return;
    }
    let settings = json!({ "honour_robots": false, "delay_ms": 40_000 });
    let host = TestHost::builder(MANIFEST).settings(settings).database(SCHEMA).paused().start(crate::routes::routes);
    let visits = Arc::new(AtomicUsize::new(0));
    let seen = visits.clone();
    host.answer_http(move |request| match (request.path(), seen.fetch_add(1, Ordering::SeqCst)) {
        ("/sitemap.xml", _) => ServerAnswer::new(200)
            .header("content-type", "text/html")
            .body("<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url><url><loc>/c</loc></url></urlset>"),
        (_, 1) => ServerAnswer::new(429).header("retry-after", "120"),
        _ => ServerAnswer::new(200).header("content-type", "text/html").body(PAGE),
    });
    let lamp = host.add_card(test_card("Card", json!({ "sku": "L1" })));
    let mut run = feed(&host, "http://overrun.example/sitemap.xml");
    // The pause after the sitemap is longer than a call would wait.
    assert!(run.is_waiting());
    block_on(host.advance(Duration::from_secs(30)));
    assert!(run.is_waiting() && visits.load(Ordering::SeqCst) <= 1, "still in the pause after the sitemap");
    while run.is_waiting() {
        block_on(host.advance(Duration::from_secs(10)));
    }
    assert!(matches!(block_on(&mut run), JobEnd::Done));
    assert_eq!(report(&run), (Some(3), 3, counts(3, 0), vec![]));
    assert_eq!((visits.load(Ordering::SeqCst), host.card(lamp).version), (5, 4));
}

#[test]
fn a_sitemap_that_is_away_is_an_error_of_the_job_and_not_its_end() {
    if lacks_database() {
        return;
    }
    let host = host(json!({ "honour_robots": false, "delay_ms": 0 }));
    host.answer_http(|request| {
        let page = |body: &str| ServerAnswer::new(200).header("content-type", "text/html").body(body.to_owned());
        let list = |path: &str| format!("<sitemap><loc>{path}</loc></sitemap>");
        match request.path() {
            "/index.xml" => page(&format!(
                "<sitemapindex>{}{}{}</sitemapindex>",
                list("/gone.xml"),
                list("/good.xml"),
                list("/index.xml")
            )),
            "/good.xml" => page("<urlset><url><loc>/lamp</loc></url></urlset>"),
            "/gone.xml" => ServerAnswer::new(404),
            _ => page(PAGE),
        }
    });
    host.add_card(test_card("Card", json!({ "sku": "L1" })));
    let mut run = feed(&host, "http://parts.example/index.xml");
    assert!(matches!(block_on(&mut run), JobEnd::Done));
    let away = ["gone", "index"].map(|name| json!(format!("http://parts.example/{name}.xml")));
    assert_eq!(report(&run), (Some(1), 1, counts(1, 0), away.to_vec()));
    assert!(run.failures()[0]["detail"].as_str().unwrap().contains("404"), "{run:?}");
}
