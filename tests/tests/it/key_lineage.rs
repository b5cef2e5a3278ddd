//! Contract 3.1: keys that were made with keys. They go with their maker, live no longer and share its rate.

use cardinal_tests::{Answer, Client, EventStream, Federated, Host, User, eventually, unique};
use futures_util::future::join_all;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

mod budgets;
mod races;

const KEYS: &str = "/v1/admin/api-keys";
const CARDS: &str = "/v1/admin/master-cards?limit=1";
const ME: &str = "/v1/admin/auth/me";

/// A key, and a client that shows it.
struct Key {
    item: Value,
    client: Client,
}

impl Key {
    /// Made by whoever `maker` shows; with more than the usual words when `extra` says so.
    async fn made_by(maker: &Client, extra: Value) -> Key {
        Self::new(maker, &Self::asked(maker, extra).await.expect(201))
    }

    async fn asked(maker: &Client, extra: Value) -> Answer {
        let mut wanted = json!({"name": unique("key"), "scopes": ["keys:write", "cards:read"]});
        wanted.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        maker.post(KEYS, &wanted).await
    }

    fn new(through: &Client, made: &Value) -> Key {
        Key { item: made["item"].clone(), client: through.bearer(made["key"].as_str().unwrap()) }
    }

    fn id(&self) -> &str {
        self.item["id"].as_str().unwrap()
    }

    fn path(&self) -> String {
        format!("{KEYS}/{}", self.id())
    }

    async fn rotated_by(&self, by: &Client, overlap: i64) -> Key {
        Self::new(by, &self.rotation(by, overlap).await.expect(201))
    }

    async fn rotation(&self, by: &Client, overlap: i64) -> Answer {
        by.post(&format!("{}/rotate", self.path()), &json!({"overlap_seconds": overlap})).await
    }

    async fn seen_by(&self, owner: &User) -> Value {
        owner.get(&self.path()).await.expect(200)["item"].clone()
    }

    #[track_caller]
    fn lives(&self) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move { assert_eq!(self.client.get(CARDS).await.status, 200, "{at}") }
    }

    #[track_caller]
    fn is_revoked(&self) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            let answer = self.client.get(CARDS).await;
            assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (401, &json!("revoked-token")), "{at}");
        }
    }
}

/// A key, one that was made with it, and one that was made with that one.
async fn three_levels(owner: &User) -> [Key; 3] {
    let root = Key::made_by(owner, json!({})).await;
    let child = Key::made_by(&root.client, json!({})).await;
    let grandchild = Key::made_by(&child.client, json!({})).await;
    [root, child, grandchild]
}

#[tokio::test]
async fn a_revoked_key_takes_along_what_was_made_with_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let [root, child, grandchild] = three_levels(owner).await;
    let (sibling, stranger) =
        (Key::made_by(&root.client, json!({})).await, Key::made_by(owner, json!({"name": "not of them"})).await);
    assert_eq!(root.item["made_by_key_id"], json!(null), "a login made it: {}", root.item);
    assert_eq!(child.item["made_by_key_id"], root.item["id"], "{}", child.item);
    assert_eq!(grandchild.seen_by(owner).await["made_by_key_id"], child.item["id"]);
    let listed = owner.get(&format!("{KEYS}?limit=200")).await.expect(200);
    let in_list = listed["items"].as_array().unwrap().iter().find(|item| item["id"] == child.item["id"]).unwrap();
    assert_eq!(in_list["made_by_key_id"], root.item["id"]);
    for key in [&root, &child, &grandchild, &sibling, &stranger] {
        key.lives().await;
    }

    // Of a branch, that branch alone.
    owner.delete(&child.path()).await.expect(204);
    child.is_revoked().await;
    grandchild.is_revoked().await;
    root.lives().await;
    sibling.lives().await;
    let youngest = Key::made_by(&sibling.client, json!({})).await;
    owner.delete(&root.path()).await.expect(204);
    for key in [&root, &sibling, &youngest] {
        key.is_revoked().await;
    }
    stranger.lives().await;
    let reasons =
        [&root, &sibling, &youngest, &grandchild].map(async |key| key.seen_by(owner).await["revoked_reason"].clone());
    assert_eq!(
        join_all(reasons).await,
        ["revoked", "its maker was revoked", "its maker was revoked", "its maker was revoked"]
    );

    for (key, reason) in [(&root, "revoked"), (&youngest, "its maker was revoked")] {
        let path = format!("/v1/admin/audit?action=api_key.revoke&target={}", key.id());
        let lines = owner.get(&path).await.expect(200)["items"].clone();
        let line = &lines.as_array().unwrap()[..];
        assert_eq!((line.len(), &line[0]["detail"]["reason"]), (1, &json!(reason)), "{lines}");
        assert_eq!(line[0]["detail"]["made_by_key_id"], key.item["made_by_key_id"], "{lines}");
        assert_eq!((&line[0]["actor"]["id"], &line[0]["outcome"]), (&json!(owner.id), &json!("ok")), "{lines}");
    }
}

#[tokio::test]
async fn what_was_made_with_a_key_is_kept_when_that_is_asked_for() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let [root, child, grandchild] = three_levels(owner).await;
    for wrong in ["keep_children=yes", "keep_children=", "keep=true"] {
        assert_eq!(owner.delete(&format!("{}?{wrong}", root.path())).await.status, 400, "{wrong}");
    }
    root.lives().await;
    owner.delete(&format!("{}?keep_children=true", root.path())).await.expect(204);
    root.is_revoked().await;
    child.lives().await;
    grandchild.lives().await;
    let item = child.seen_by(owner).await;
    assert_eq!(item["made_by_key_id"], root.item["id"], "where it comes from stays known: {item}");
    // Whoever changes their mind says it once more.
    owner.delete(&format!("{}?keep_children=false", root.path())).await.expect(204);
    child.is_revoked().await;
    grandchild.is_revoked().await;
    assert_eq!(root.seen_by(owner).await["revoked_reason"], "revoked");
}

#[tokio::test]
async fn a_revoked_key_can_be_narrowed_and_its_living_lineage_is_narrowed_with_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let old = Key::made_by(owner, json!({})).await;
    let child = Key::made_by(&old.client, json!({})).await;
    let successor = old.rotated_by(owner, 0).await;
    old.is_revoked().await;
    let change = async |change: Value| owner.patch(&old.path(), &change).await;
    for refused in [
        json!({"name": "again"}),
        json!({"scopes": ["cards:read", "cards:write"]}),
        json!({"scopes": ["cards:read"], "name": "again"}),
    ] {
        change(refused).await.refused(409, "conflict");
    }
    successor.lives().await;
    let item = change(json!({"scopes": ["keys:write"]})).await.expect(200)["item"].clone();
    assert_eq!((&item["scopes"], &item["revoked_reason"]), (&json!(["keys:write"]), &json!("rotated")), "{item}");
    for key in [&successor, &child] {
        assert_eq!(key.seen_by(owner).await["scopes"], json!(["keys:write"]));
        key.client.get(CARDS).await.refused(403, "insufficient-scope");
    }
    old.is_revoked().await;
}

#[tokio::test]
async fn a_key_that_revokes_itself_leaves_nothing_behind() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let [root, child, grandchild] = three_levels(owner).await;
    child.client.delete(&child.path()).await.expect(204);
    child.is_revoked().await;
    grandchild.is_revoked().await;
    root.lives().await;
}

#[tokio::test]
async fn no_key_that_is_made_while_its_maker_is_revoked_outlives_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for _ in 0..5 {
        let root = Key::made_by(owner, json!({"rate_limit": null})).await;
        let child = Key::made_by(&root.client, json!({})).await;
        // Both make keys and rotate themselves as fast as they can until they may no more.
        let busy = [root.client.clone(), child.client.clone()].map(|client| {
            tokio::spawn(async move {
                let mut made = Vec::new();
                loop {
                    let tries = join_all((0..4).map(|_| Key::asked(&client, json!({})))).await;
                    let over = tries.iter().any(|answer| answer.status == 401);
                    made.extend(
                        tries.iter().filter(|a| a.status == 201).map(|answer| Key::new(&client, &answer.json())),
                    );
                    if over {
                        break made;
                    }
                    let last = made.last().expect("the first ones were let through");
                    let rotated = last.rotation(&client, 60).await;
                    if rotated.status == 201 {
                        made.push(Key::new(&client, &rotated.json()));
                    }
                }
            })
        });
        eventually("both make keys", async || {
            let listed = owner.get(&format!("{KEYS}?limit=50")).await.expect(200);
            let made_by = |maker: &Key| {
                let of_maker = |item: &&Value| item["made_by_key_id"] == maker.item["id"];
                listed["items"].as_array().unwrap().iter().filter(of_maker).count()
            };
            (made_by(&root) > 4 && made_by(&child) > 3).then_some(())
        })
        .await;
        owner.delete(&root.path()).await.expect(204);
        for made in join_all(busy).await {
            let made = made.unwrap();
            assert!(made.len() > 2);
            for key in &made {
                key.is_revoked().await;
            }
        }
        child.is_revoked().await;
    }
}

#[tokio::test]
async fn a_reader_with_a_key_is_shut_out_when_its_maker_is_revoked() {
    let host = Host::settings().start().await;
    let beside = host.beside().start().await;
    let owner = host.owner().await;
    let [root, _, grandchild] = three_levels(owner).await;
    let there = beside.client().bearer(grandchild.client.token());
    let open = async |client: &Client| EventStream::open(client, "", None).await.greeted().await;
    let (mut here, mut there) = (open(&grandchild.client).await, open(&there).await);
    owner.delete(&root.path()).await.expect(204);
    for last in [here.next_of("closed").await, there.next_of("closed").await] {
        assert_eq!(last.data["reason"], "revoked-token", "{last:?}");
    }
}

#[tokio::test]
async fn a_successor_has_the_makers_place_and_its_keys() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let [root, old, grandchild] = three_levels(owner).await;
    let new = old.rotated_by(owner, 3600).await;
    assert_eq!(new.item["made_by_key_id"], root.item["id"], "it has the old one's maker: {}", new.item);
    assert_eq!(grandchild.seen_by(owner).await["made_by_key_id"], new.item["id"]);
    // What the old one makes in its last hour is its own.
    let late = Key::made_by(&old.client, json!({})).await;
    assert_eq!(late.item["expires_at"], old.seen_by(owner).await["expires_at"], "it ends with the old one");
    owner.delete(&format!("{}?keep_children=true", old.path())).await.expect(204);
    old.is_revoked().await;
    for key in [&late, &new, &grandchild] {
        key.lives().await;
    }

    // The same without an overlap.
    let newer = new.rotated_by(&new.client, 0).await;
    new.is_revoked().await;
    newer.lives().await;
    grandchild.lives().await;
    assert_eq!(newer.item["made_by_key_id"], root.item["id"]);
    owner.delete(&root.path()).await.expect(204);
    for key in [&newer, &grandchild, &late] {
        key.is_revoked().await;
    }
}

#[tokio::test]
async fn rotations_go_together_whichever_of_them_is_revoked() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for revoked in 0..3 {
        let first = Key::made_by(owner, json!({})).await;
        let child = Key::made_by(&first.client, json!({})).await;
        let second = first.rotated_by(&first.client, 3600).await;
        let late = Key::made_by(&first.client, json!({})).await;
        let third = second.rotated_by(&second.client, 3600).await;
        let of_third = Key::made_by(&third.client, json!({})).await;
        let shown = second.seen_by(owner).await;
        assert_eq!(
            (&shown["replaces_id"], &shown["replaced_by_id"]),
            (&first.item["id"], &third.item["id"]),
            "{shown}"
        );
        let all = [&first, &second, &third, &child, &late, &of_third];
        for key in all {
            key.lives().await;
        }
        owner.delete(&all[revoked].path()).await.expect(204);
        for key in all {
            key.is_revoked().await;
        }
        let other = all[(revoked + 1) % 3];
        let reasons =
            (other.seen_by(owner).await["revoked_reason"].clone(), late.seen_by(owner).await["revoked_reason"].clone());
        assert_eq!(reasons, (json!("revoked with its rotation"), json!("its maker was revoked")));
        let lines =
            owner.get(&format!("/v1/admin/audit?action=api_key.revoke&target={}", other.id())).await.expect(200);
        assert_eq!(lines["items"][0]["detail"]["reason"], "revoked with its rotation", "{lines}");
    }
}

#[tokio::test]
async fn a_successor_that_replaced_a_key_at_once_goes_when_that_one_is_revoked_once_more() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    // Whoever stole the key has rotated it; its owner knows the old one alone.
    let stolen = Key::made_by(owner, json!({})).await;
    let thief = stolen.rotated_by(&stolen.client, 0).await;
    let backup = Key::made_by(&thief.client, json!({})).await;
    stolen.is_revoked().await;
    owner.delete(&stolen.path()).await.expect(204);
    thief.is_revoked().await;
    backup.is_revoked().await;
}

#[tokio::test]
async fn a_key_that_another_one_rotated_is_left_alone_when_that_one_goes() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (stolen, service) = (Key::made_by(owner, json!({})).await, Key::made_by(owner, json!({})).await);
    let new = service.rotated_by(&stolen.client, 3600).await;
    owner.delete(&stolen.path()).await.expect(204);
    new.is_revoked().await;
    service.lives().await;
}

#[tokio::test]
async fn scopes_that_a_key_loses_are_lost_by_its_whole_lineage() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let wide = json!({"scopes": ["keys:write", "cards:write", "plugin:*:read"]});
    let root = Key::made_by(owner, wide.clone()).await;
    let child = Key::made_by(&root.client, wide.clone()).await;
    let grandchild = Key::made_by(&child.client, json!({"scopes": ["cards:write", "plugin:echo:read"]})).await;
    let old = Key::made_by(&root.client, wide.clone()).await;
    let new = old.rotated_by(owner, 3600).await;
    let lost = Key::made_by(&child.client, json!({"scopes": ["keys:read"]})).await;
    let writes = async |key: &Key| {
        let card = json!({"title": "Narrow", "sku": unique("NARROW")});
        key.client.post("/v1/admin/master-cards", &card).await.status.as_u16()
    };
    assert_eq!(writes(&grandchild).await, 201);
    owner.patch(&root.path(), &json!({"scopes": ["cards:read", "plugin:echo:read"]})).await.expect(200);
    for key in [&root, &child, &grandchild, &old, &new] {
        assert_eq!(writes(key).await, 403);
        key.lives().await;
        assert_eq!(key.seen_by(owner).await["scopes"], json!(["cards:read", "plugin:echo:read"]));
    }
    lost.is_revoked().await;
    assert_eq!(lost.seen_by(owner).await["revoked_reason"], "its maker lost its scopes");
    let lines =
        owner.get(&format!("/v1/admin/audit?action=api_key.update&target={}", grandchild.id())).await.expect(200);
    assert_eq!(lines["items"][0]["detail"]["reason"], "its maker's scopes were narrowed", "{lines}");
    // A successor narrows the key that it replaces, and a wider maker widens nothing.
    owner.patch(&root.path(), &wide).await.expect(200);
    assert_eq!(writes(&child).await, 403);
    owner.patch(&new.path(), &json!({"scopes": ["plugin:echo:read"]})).await.expect(200);
    assert_eq!(old.client.get(CARDS).await.status, 403);
    // Not even a person gives a key more than its maker has.
    let problem = owner.patch(&grandchild.path(), &wide).await.refused(422, "validation-failed");
    assert_eq!(problem["errors"][0]["pointer"], "/scopes", "{problem}");
    owner.patch(&child.path(), &wide).await.expect(200);
}

#[tokio::test]
async fn narrowing_and_changing_a_name_at_the_same_time_keep_both() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for _ in 0..10 {
        let root = Key::made_by(owner, json!({})).await;
        let child = Key::made_by(&root.client, json!({})).await;
        let (path, narrow) = (root.path(), json!({"scopes": ["cards:read"]}));
        let (name, slower) = (json!({"name": "renamed"}), json!({"rate_limit": {"per_minute": 600}}));
        let (one, two, three, made, four) = tokio::join!(
            owner.patch(&path, &narrow),
            owner.patch(&path, &name),
            child.rotation(&child.client, 3600),
            Key::asked(&root.client, json!({})),
            owner.patch(&path, &slower),
        );
        for answer in [one, two, four] {
            answer.expect(200);
        }
        let mut keys = vec![root.id().to_owned(), child.id().to_owned()];
        for answer in [&three, &made] {
            assert!([201, 401, 403, 409].contains(&answer.status.as_u16()), "{answer}");
            keys.extend(answer.json()["item"]["id"].as_str().map(str::to_owned));
        }
        for id in keys {
            let item = owner.get(&format!("{KEYS}/{id}")).await.expect(200)["item"].clone();
            assert_eq!(item["scopes"], json!(["cards:read"]), "{item}");
        }
        assert_eq!(root.seen_by(owner).await["name"], "renamed");
    }
}

#[tokio::test]
async fn nothing_of_a_lineage_survives_revocations_of_its_rotations_side_by_side() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for _ in 0..8 {
        let first = Key::made_by(owner, json!({})).await;
        let second = first.rotated_by(&first.client, 3600).await;
        let (first_path, second_path) = (first.path(), second.path());
        let (one, two, third, made) = tokio::join!(
            owner.delete(&first_path),
            owner.delete(&second_path),
            second.rotation(&second.client, 3600),
            Key::asked(&first.client, json!({})),
        );
        assert_eq!((one.status.as_u16(), two.status.as_u16()), (204, 204));
        first.is_revoked().await;
        second.is_revoked().await;
        for answer in [third, made] {
            if answer.status == 201 {
                Key::new(owner, &answer.json()).is_revoked().await;
            } else {
                assert!([401, 409].contains(&answer.status.as_u16()), "{answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_that_another_one_rotated_goes_with_that_one() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (stolen, service) = (Key::made_by(owner, json!({})).await, Key::made_by(owner, json!({})).await);
    let child = Key::made_by(&service.client, json!({})).await;
    let new = service.rotated_by(&stolen.client, 0).await;
    assert_eq!(new.item["made_by_key_id"], stolen.item["id"], "{}", new.item);
    // Its own maker no key puts itself above.
    new.rotation(&child.client, 60).await.refused(403, "forbidden");
    child.lives().await;
    new.lives().await;
    owner.delete(&stolen.path()).await.expect(204);
    new.is_revoked().await;
    child.is_revoked().await;
}
