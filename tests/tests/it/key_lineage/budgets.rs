//! How long keys live that were made with keys, and how fast they go together.

use super::*;

#[tokio::test]
async fn what_was_made_with_a_key_lives_no_longer_than_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let [root, child, grandchild] = three_levels(owner).await;
    let in_hours = |hours| (OffsetDateTime::now_utc() + Duration::hours(hours)).format(&Rfc3339).unwrap();
    let end = async |key: &Key| key.seen_by(owner).await["expires_at"].clone();
    let ends = async |key: &Key, at: Value| owner.patch(&key.path(), &json!({"expires_at": at})).await;
    assert_eq!((end(&root).await, end(&grandchild).await), (json!(null), json!(null)));

    ends(&grandchild, json!(in_hours(1))).await.expect(200);
    let first = end(&grandchild).await;
    ends(&root, json!(in_hours(2))).await.expect(200);
    assert_eq!(end(&child).await, end(&root).await, "it ends with its maker");
    assert_eq!(end(&grandchild).await, first, "what ends sooner stays as it is");
    // Not even a person lets it live on beyond its maker.
    for later in [json!(in_hours(3)), json!(null)] {
        let problem = ends(&child, later.clone()).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], "/expires_at", "{later}: {problem}");
    }
    ends(&root, json!(null)).await.expect(200);
    ends(&child, json!(in_hours(3))).await.expect(200);
    // A maker that is no more binds nobody.
    ends(&root, json!(in_hours(2))).await.expect(200);
    owner.delete(&format!("{}?keep_children=true", root.path())).await.expect(204);
    ends(&child, json!(null)).await.expect(200);
}

#[tokio::test]
async fn siblings_together_go_no_faster_than_their_maker() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    // Six calls a minute, and 12 at once. One of them makes a key.
    let maker = Key::made_by(owner, json!({"rate_limit": {"per_minute": 6, "burst": 12}})).await;
    let one = Key::made_by(&maker.client, json!({})).await;
    let two = Key::made_by(&maker.client, json!({"rate_limit": {"per_minute": 6, "burst": 4}})).await;
    let of_one = Key::made_by(&one.client, json!({})).await; // and nine are left
    let calls = async |key: &Key, wanted: usize| {
        let mut admitted = 0;
        for _ in 0..wanted {
            let answer = key.client.get(ME).await;
            assert!([200, 429].contains(&answer.status.as_u16()), "{answer}");
            admitted += usize::from(answer.status == 200);
        }
        admitted
    };
    assert_eq!(calls(&two, 6).await, 4, "its own limit is still its own");
    let together = tokio::join!(calls(&one, 5), calls(&of_one, 5), calls(&maker, 5));
    let together = together.0 + together.1 + together.2;
    assert!((5..=6).contains(&together), "five are left, and time brings one in ten seconds: {together}");
    let refused = two.client.get(ME).await;
    refused.refused(429, "rate-limited");
    assert_eq!(refused.header("ratelimit").unwrap().split(';').next(), Some("\"key\""), "{refused}");
}

#[tokio::test]
async fn a_key_gains_no_rate_by_revoking_or_rotating_its_maker_or_itself() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let limit = json!({"rate_limit": {"per_minute": 1, "burst": 8}});
    let left = |answer: &Answer| {
        let header = answer.header("ratelimit").unwrap_or_else(|| panic!("{answer}"));
        header.split(';').nth(1).unwrap().strip_prefix("r=").unwrap().parse::<u32>().unwrap()
    };
    // Its own rotations share its budget while they overlap.
    let first = Key::made_by(owner, limit.clone()).await;
    let second = first.rotated_by(&first.client, 3600).await;
    let third = second.rotated_by(&second.client, 3600).await;
    assert_eq!(left(&third.client.get(ME).await), 5);
    assert_eq!(left(&first.client.get(ME).await), 4);

    let maker = Key::made_by(owner, limit).await;
    let one = Key::made_by(&maker.client, json!({})).await;
    let two = Key::made_by(&maker.client, json!({})).await;
    maker.client.delete(&format!("{}?keep_children=true", maker.path())).await.expect(204);
    assert_eq!(left(&one.client.get(ME).await), 4, "two keys and a revocation were paid for");
    assert_eq!(left(&two.client.get(ME).await), 3);
}

#[tokio::test]
async fn a_slower_maker_slows_what_was_made_with_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let [root, _, grandchild] = three_levels(owner).await;
    grandchild.lives().await;
    owner.patch(&root.path(), &json!({"rate_limit": {"per_minute": 2, "burst": 1}})).await.expect(200);
    let answer = grandchild.client.get(ME).await;
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""key";q=2;w=60;cardinal-burst=1"#), "{answer}");
    owner.patch(&root.path(), &json!({"rate_limit": null})).await.expect(200);
    let answer = grandchild.client.get(ME).await;
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""key";q=6000;w=60;cardinal-burst=600"#), "{answer}");
}

#[tokio::test]
async fn a_row_of_makers_comes_to_an_end() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let mut line = vec![Key::made_by(owner, json!({})).await];
    while line.len() < 8 {
        let last = line.last().unwrap();
        line.push(Key::made_by(&last.client, json!({})).await);
    }
    Key::asked(&line[7].client, json!({})).await.refused(403, "forbidden");
    owner.delete(&line[0].path()).await.expect(204);
    for key in &line {
        key.is_revoked().await;
    }
}

#[tokio::test]
async fn a_jwt_gives_no_key_a_higher_rate_than_it_has() {
    let federated = Federated::start(|settings| {
        settings.set("OIDC_MAX_SCOPES", "keys:write cards:read").set("API_KEY_RATE_PER_MINUTE", "300")
    })
    .await;
    let holder = federated.holder("automation", "keys:write cards:read").await;
    let ask = async |extra: Value| {
        let mut wanted = json!({"name": unique("jwt"), "scopes": ["cards:read"]});
        wanted.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        holder.post(KEYS, &wanted).await
    };
    let made = ask(json!({})).await.expect(201);
    assert_eq!(made["item"]["rate_limit"], json!({"per_minute": 300, "burst": 30}), "{made}");
    assert_eq!(made["item"]["made_by_key_id"], json!(null), "{made}");
    // A user of the identity provider has ten times what a key has.
    ask(json!({"rate_limit": {"per_minute": 3000}})).await.expect(201);
    for more in
        [json!(null), json!({"per_minute": null}), json!({"per_minute": 3001}), json!({"per_minute": 1, "burst": 301})]
    {
        ask(json!({"rate_limit": more})).await.refused(403, "forbidden");
    }
    let path = format!("{KEYS}/{}", made["item"]["id"].as_str().unwrap());
    holder.patch(&path, &json!({"rate_limit": null})).await.refused(403, "forbidden");
}
