//! Contract 4: saved list views of the caller.

use cardinal_tests::{Answer, Host, User, unique};
use http::Method;
use serde_json::{Value, json};

const VIEWS: &str = "/v1/admin/views";

fn path(view: &Value) -> String {
    format!("{VIEWS}/{}", view["id"].as_str().unwrap())
}

async fn make(user: &User, name: &str) -> Value {
    let wanted = json!({"name": name, "filter": {"status": "active"}, "sort": "-updated_at"});
    user.post(VIEWS, &wanted).await.expect(201)["item"].clone()
}

#[tokio::test]
async fn a_view_is_kept_changed_and_removed() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    let wanted = json!({"name": "To do", "filter": {"status": "draft", "missing_kind": "supplier", "q": "chair"},
        "sort": "title", "columns": ["title", "sku", "attributes.brand"]});
    let answer = user.post(VIEWS, &wanted).await;
    let view = answer.expect(201)["item"].clone();
    assert_eq!(answer.header("location"), Some(path(&view).as_str()));
    assert_eq!(answer.header("etag"), Some("\"1\""));
    for member in ["name", "filter", "sort", "columns"] {
        assert_eq!(view[member], wanted[member], "{view}");
    }
    assert_eq!(user.get(&path(&view)).await.expect(200)["item"], view);
    let changed = user.patch(&path(&view), &json!({"filter": {"q": null, "status": "active"}, "columns": null})).await;
    let item = changed.expect(200)["item"].clone();
    assert_eq!(item["filter"], json!({"status": "active", "missing_kind": "supplier"}));
    assert_eq!((&item["columns"], &item["name"], &item["version"]), (&Value::Null, &json!("To do"), &json!(2)));
    let second = make(&user, "Another").await;
    let names: Vec<Value> = user.get(VIEWS).await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(names.iter().map(|view| view["name"].clone()).collect::<Vec<_>>(), ["Another", "To do"]);
    user.delete(&path(&second)).await.expect(204);
    user.get(&path(&second)).await.refused(404, "not-found");
    user.delete(&path(&second)).await.refused(404, "not-found");
}

#[tokio::test]
async fn what_a_view_filters_by_is_what_the_list_takes() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    for (wanted, pointer) in [
        (json!({"name": ""}), "/name"),
        (json!({"name": "x".repeat(121)}), "/name"),
        (json!({"name": "x", "filter": {"staus": "draft"}}), "/filter/staus"),
        (json!({"name": "x", "filter": {"status": "gone"}}), "/filter/status"),
        (json!({"name": "x", "filter": {"cursor": "abc"}}), "/filter/cursor"),
        (json!({"name": "x", "filter": {"q": ["a"]}}), "/filter/q"),
        (json!({"name": "x", "filter": []}), "/filter"),
        (json!({"name": "x", "sort": "price"}), "/sort"),
        (json!({"name": "x", "columns": ["price"]}), "/columns/0"),
        (json!({"name": "x", "colums": []}), "/colums"),
    ] {
        let refused = user.post(VIEWS, &wanted).await.refused(422, "validation-failed");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{wanted}: {refused}");
    }
    // And the list takes what a view was saved with.
    let view = make(&user, "Active").await;
    let filter = view["filter"].as_object().unwrap();
    let query: Vec<String> = filter.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect();
    let sort = view["sort"].as_str().unwrap();
    user.get(&format!("/v1/admin/master-cards?{}&sort={sort}", query.join("&"))).await.expect(200);
    user.get(&format!("{VIEWS}?limit=5")).await.refused(400, "invalid-request");
}

#[tokio::test]
async fn views_are_their_owners_alone_and_a_key_is_its_owners() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (mine, other) = (owner.make_user("editor").await, owner.make_user("admin").await);
    let view = make(&mine, "Mine").await;
    for answer in [
        other.get(&path(&view)).await,
        other.patch(&path(&view), &json!({"name": "Stolen"})).await,
        other.delete(&path(&view)).await,
        owner.get(&path(&view)).await,
    ] {
        answer.refused(404, "not-found");
    }
    assert_eq!(other.get(VIEWS).await.expect(200)["items"], json!([]));
    make(&other, "Mine").await;
    let maker = host.owner().await;
    let key = maker.key(&["cards:read"]).await;
    let of_key = make(&key, &unique("by a key")).await;
    assert_eq!(maker.get(&path(&of_key)).await.expect(200)["item"], of_key);
    let (again, cased) = (json!({"name": "Mine"}), json!({"name": " mINE "}));
    mine.post(VIEWS, &again).await.refused(409, "name-taken");
    mine.post(VIEWS, &cased).await.refused(409, "name-taken");
    let second = make(&mine, "Second").await;
    mine.patch(&path(&second), &again).await.refused(409, "name-taken");
    mine.patch(&path(&view), &json!({"name": "MINE"})).await.expect(200);
}

#[tokio::test]
async fn a_change_says_what_it_was_made_from() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    let view = make(&user, "Versions").await;
    let change = async |method: Method, tag: &str| -> Answer {
        let call = user.call(method.clone(), &path(&view)).header("if-match", tag);
        if method == Method::PATCH { call.json(&json!({"sort": null})).send().await } else { call.send().await }
    };
    change(Method::PATCH, "\"1\"").await.expect(200);
    let stale = change(Method::PATCH, "\"1\"").await.refused(412, "version-mismatch");
    assert_eq!(stale["current_version"], 2);
    change(Method::DELETE, "\"1\"").await.refused(412, "version-mismatch");
    let unchanged = user.call(Method::GET, &path(&view)).header("if-none-match", "\"2\"").send().await;
    assert_eq!((unchanged.status.as_u16(), unchanged.body.len()), (304, 0));
    change(Method::DELETE, "\"2\"").await.expect(204);
}

#[tokio::test]
async fn nobody_keeps_views_without_end() {
    let host = Host::shared().await;
    let user = host.owner().await.make_user("viewer").await;
    for i in 0..200 {
        make(&user, &format!("View {i}")).await;
    }
    user.post(VIEWS, &json!({"name": "One more"})).await.refused(409, "conflict");
    let items = user.get(VIEWS).await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 200);
    user.delete(&path(&items[0])).await.expect(204);
    make(&user, "One more").await;
}
