//! Contract 4: the list of cards — pages, order, filters.

use cardinal_tests::{Host, User, eventually, unique};
use serde_json::{Value, json};

const CARDS: &str = "/v1/admin/master-cards";

/// Cards of one test, told from those of others by the beginning of their titles.
async fn cards(owner: &User, prefix: &str, count: usize) -> Vec<Value> {
    let mut made = Vec::new();
    for n in 0..count {
        made.push(owner.card(&format!("{prefix} {n:02}")).await);
    }
    made
}

fn titles(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["title"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_follow_each_other_forwards_and_back() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let prefix = unique("Page");
    cards(owner, &prefix, 7).await;
    let first = owner.get(&format!("{CARDS}?q={prefix}&sort=title&limit=3")).await.expect(200);
    assert_eq!(titles(&first), (0..3).map(|n| format!("{prefix} {n:02}")).collect::<Vec<_>>());
    assert_eq!(first["prev_cursor"], Value::Null, "{first}");
    let follow = async |cursor: &Value| {
        let cursor = cursor.as_str().unwrap();
        owner.get(&format!("{CARDS}?q={prefix}&sort=title&limit=3&cursor={cursor}")).await.expect(200)
    };
    let second = follow(&first["next_cursor"]).await;
    assert_eq!(titles(&second), (3..6).map(|n| format!("{prefix} {n:02}")).collect::<Vec<_>>());
    let third = follow(&second["next_cursor"]).await;
    assert_eq!(titles(&third), [format!("{prefix} 06")]);
    assert_eq!(third["next_cursor"], Value::Null, "{third}");
    assert_eq!(titles(&follow(&third["prev_cursor"]).await), titles(&second));
}

#[tokio::test]
async fn a_page_is_stable_while_cards_come_and_change() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let prefix = unique("Stable");
    cards(owner, &prefix, 4).await;
    let query = format!("{CARDS}?q={prefix}&sort=title&limit=2");
    let first = owner.get(&query).await.expect(200);
    owner.card(&format!("{prefix} 00 in between")).await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = owner.get(&format!("{query}&cursor={cursor}")).await.expect(200);
    assert_eq!(titles(&second), [format!("{prefix} 02"), format!("{prefix} 03")]);
}

#[tokio::test]
async fn every_sort_order_is_honoured_both_ways() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let prefix = unique("Sort");
    cards(owner, &prefix, 4).await;
    for field in ["title", "sku", "created_at", "updated_at"] {
        let list = async |sort: String| owner.get(&format!("{CARDS}?q={prefix}&sort={sort}")).await.expect(200);
        let (up, down) = (list(field.to_owned()).await, list(format!("-{field}")).await);
        let values = |page: &Value| -> Vec<String> {
            page["items"].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
        };
        let mut sorted = values(&up);
        sorted.sort();
        assert_eq!((sorted.len(), values(&up)), (4, sorted.clone()), "{field}");
        sorted.reverse();
        assert_eq!(values(&down), sorted, "-{field}");
    }
}

#[tokio::test]
async fn a_cursor_belongs_to_its_filter() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let prefix = unique("Bound");
    cards(owner, &prefix, 3).await;
    let first = owner.get(&format!("{CARDS}?q={prefix}&sort=title&limit=1")).await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    for other in ["sort=title&limit=1", "sort=-title&limit=1", "sort=sku&limit=1", "sort=title&limit=1&status=draft"] {
        let answer = owner.get(&format!("{CARDS}?q=Other&{other}&cursor={cursor}")).await;
        answer.refused(400, "invalid-cursor");
    }
    for nonsense in ["x", "%00", "bm9uc2Vuc2U", &cursor[1..]] {
        let answer = owner.get(&format!("{CARDS}?q={prefix}&sort=title&limit=1&cursor={nonsense}")).await;
        answer.refused(400, "invalid-cursor");
    }
}

#[tokio::test]
async fn what_a_list_is_asked_must_make_sense() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for query in [
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=ten",
        "sort=colour",
        "sort=",
        "status=gone",
        "page=2",
        "limit=1&limit=2",
        "updated_since=yesterday",
        "count=all",
        "q=%ff",
    ] {
        owner.get(&format!("{CARDS}?{query}")).await.refused(400, "invalid-request");
    }
    owner.get(&format!("{CARDS}?limit=200")).await.expect(200);
}

#[tokio::test]
async fn cards_are_found_by_title_sku_and_status() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let prefix = unique("Find");
    let made = cards(owner, &prefix, 3).await;
    let change = format!("{CARDS}/{}", made[1]["id"].as_str().unwrap());
    owner.patch(&change, &json!({"status": "active", "title": format!("{prefix} 50% _off_")})).await.expect(200);
    let find = async |query: String| owner.get(&format!("{CARDS}?{query}")).await.expect(200);
    let active = find(format!("q={prefix}&status=active")).await;
    assert_eq!(active["items"].as_array().unwrap().len(), 1, "{active}");
    // Anywhere in the title or SKU, in any case, and never as a pattern.
    let inside = &prefix[5..30].to_uppercase();
    assert_eq!(titles(&find(format!("q={inside}")).await).len(), 3);
    let sku = made[2]["sku"].as_str().unwrap();
    assert_eq!(titles(&find(format!("q={}", &sku[8..])).await), [format!("{prefix} 02")]);
    assert_eq!(titles(&find(format!("q={prefix}%2050%25%20_off_")).await).len(), 1);
    assert_eq!(titles(&find(format!("q={prefix}%20__")).await).len(), 0);
    // One page that is all, and pages of which a count was asked for, are no estimates.
    for (query, total) in [("", 3), ("&limit=1&count=exact", 3), ("&sort=title&limit=2&count=exact", 3), ("-none", 0)] {
        let found = find(format!("q={prefix}{query}")).await;
        assert_eq!(found["total_estimate"], total, "{query}: {found}");
    }
}

#[tokio::test]
async fn a_list_says_who_changed_each_card_last_where_it_is_asked() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let editor = owner.make_user("editor").await;
    let prefix = unique("Who");
    let made = cards(owner, &prefix, 2).await;
    let change = format!("{CARDS}/{}", made[1]["id"].as_str().unwrap());
    editor.patch(&change, &json!({"status": "active"})).await.expect(200);
    let page = owner.get(&format!("{CARDS}?q={prefix}&sort=title&fields=title,updated_by")).await.expect(200);
    let who = |at: usize| page["items"][at]["updated_by"]["name"].as_str();
    let last = owner.get(&format!("{change}/history?limit=1")).await.expect(200)["items"][0]["actor"].clone();
    assert_eq!(page["items"][1]["updated_by"], last, "{page}");
    assert!(who(0).is_some() && who(0) != who(1), "{page}");
    // Only a page has it, and only by its name.
    let plain = owner.get(&format!("{CARDS}?q={prefix}&fields=title")).await.expect(200);
    assert!(plain["items"][0].get("updated_by").is_none(), "{plain}");
    owner.get(&format!("{CARDS}/export?q={prefix}&fields=updated_by")).await.refused(400, "invalid-request");
}

/// Its statements were all sent at once, and the last of them ends the transaction.
#[tokio::test]
async fn a_list_that_nobody_waits_for_leaves_no_transaction_behind() {
    const BUSY: &str =
        "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE '%\\_core' AND state <> 'idle' AND state ";
    let host = Host::settings().start().await;
    let (owner, database, locker) = (host.owner().await, host.database().await, host.database().await);
    owner.card("Held").await;
    let count = async |state: &str| -> i64 { database.query_one(&format!("{BUSY}{state}"), &[]).await.unwrap().get(0) };
    locker.batch_execute("BEGIN; LOCK TABLE public.master_cards IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let ask = |filter: &'static str| {
        let client = (**owner).clone();
        tokio::spawn(async move { client.get(&format!("{CARDS}?{filter}")).await })
    };
    let asked: Vec<_> =
        ["status=draft", "kind=none", "q=held", "missing_kind=none"].repeat(2).into_iter().map(ask).collect();
    eventually("lists wait for the lock", async || (count("= 'active'").await >= 4).then_some(())).await;
    asked.iter().for_each(tokio::task::JoinHandle::abort);
    locker.batch_execute("COMMIT").await.unwrap();
    eventually("nothing is under way", async || (count("<> ''").await == 0).then_some(())).await;
    let found = owner.get(&format!("{CARDS}?q=held&status=draft")).await.expect(200);
    assert_eq!(titles(&found), ["Held"]);
}
