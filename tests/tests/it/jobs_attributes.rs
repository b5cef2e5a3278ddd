//! Bulk actions on one attribute: set whole or removed, counted beforehand, within the bounds of a card.

use cardinal_tests::{Host, unique};
use serde_json::{Value, json};

use super::jobs::{over, start};

#[tokio::test]
async fn an_attribute_is_set_whole_and_removed() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("attribute");
    let make = async |n: u32, attributes: Value| {
        let card = json!({"title": word, "sku": format!("{word}-{n}"), "attributes": attributes});
        owner.post("/v1/admin/master-cards", &card).await.expect(201)["item"]["id"].as_str().unwrap().to_owned()
    };
    let value = json!({"amount": "9.90", "note": null});
    let other = make(1, json!({"price": {"amount": "1", "net": true}, "brand": "Acme"})).await;
    let same = make(2, json!({"price": value})).await;
    let wanted = |action: &str, args: Value, dry_run: bool| {
        let mut body = json!({"action": action, "filter": {"q": word}, "expected_count": 2, "dry_run": dry_run});
        body["args"] = args;
        body
    };
    let set = json!({"key": "price", "value": value});
    let tried = over(owner, &start(owner, wanted("set_attribute", set.clone(), true)).await).await;
    assert_eq!((&tried["done"], &tried["counts"]), (&json!(2), &json!({"changed": 1, "unchanged": 1})), "{tried}");
    assert_eq!((&tried["args"]["dry_run"], &owner.read_card(&other).await["version"]), (&json!(true), &json!(1)));
    let id = start(owner, wanted("set_attribute", set.clone(), false)).await;
    let job = over(owner, &id).await;
    assert_eq!((&job["counts"], &job["args"]), (&tried["counts"], &set), "{job}");
    let card = owner.read_card(&other).await;
    assert_eq!((&card["attributes"]["price"], &card["version"]), (&value, &json!(2)), "{card}");
    assert_eq!((&card["attributes"]["brand"], &card["attributes"]["sources"]), (&json!("Acme"), &json!({})), "{card}");
    assert_eq!(owner.read_card(&same).await["version"], 1);
    let history = format!("/v1/admin/master-cards/{other}/history");
    let line = owner.get(&history).await.expect(200)["items"][0].clone();
    assert_eq!(
        (&line["action"], &line["change"]),
        (&json!("update"), &json!({"attributes": {"price": value}, "job": id})),
        "{line}"
    );
    let gone = over(owner, &start(owner, wanted("remove_attribute", json!({"key": "price"}), false)).await).await;
    assert_eq!(gone["counts"], json!({"changed": 2}), "{gone}");
    assert_eq!(owner.read_card(&other).await["attributes"], json!({"brand": "Acme", "sources": {}}));
    // What was set merges with nothing when an earlier version comes back, either.
    owner.post(&format!("/v1/admin/master-cards/{other}/restore"), &json!({"version": 2})).await.expect(200);
    assert_eq!(owner.read_card(&other).await["attributes"], card["attributes"]);
}

#[tokio::test]
async fn a_card_that_an_attribute_would_make_too_large_is_a_failure_of_the_job() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let small = owner.card("Small").await["id"].clone();
    let large = owner.card("Large").await["id"].clone();
    let fill = "UPDATE public.master_cards SET attributes = attributes || jsonb_build_object('x', repeat('y', 8380000)) \
                WHERE id = $1::text::uuid";
    host.database().await.execute(fill, &[&large.as_str().unwrap()]).await.unwrap();
    for dry_run in [true, false] {
        let args = json!({"key": "note", "value": "z".repeat(60_000)});
        let body = json!({"action": "set_attribute", "ids": [small, large], "args": args, "dry_run": dry_run});
        let job = over(owner, &start(owner, body).await).await;
        assert_eq!((&job["state"], &job["done"], &job["failed"]), (&json!("done"), &json!(1), &json!(1)), "{job}");
        let error = &job["errors"][0];
        assert_eq!((&error["id"], &error["code"]), (&large, &json!("card-too-large")), "{job}");
    }
    assert_eq!(owner.read_card(small.as_str().unwrap()).await["version"], 2);
    assert_eq!(owner.read_card(large.as_str().unwrap()).await["version"], 1);
}
