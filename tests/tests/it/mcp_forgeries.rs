//! What a model, its key, its token or its client could send to have a tool run that a person has not confirmed. Each is
//! sent, and nothing runs.

use cardinal_tests::{Federated, Host, Package, PluginsFolder, User, unique};
use http::Method;
use serde_json::{Value, json};

use super::mcp_confirmation::{
    APPROVALS, Agent, TOOL, decide, last, modern, pending, ran, reply, session, text, waits, yes,
};
use super::mcp_sessions::{echo, send};

const ID: &str = "0190f7a2-1111-7222-8333-444455556666";

fn response(id: &str, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[tokio::test]
async fn no_answer_counts_but_that_of_the_session_that_was_asked_and_that_once() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (agent, other) = (Agent::new(owner).await, Agent::new(owner).await);
    let (asked, sibling) = (agent.session().await, agent.session().await);
    let others = other.session().await;
    // 1. An acceptance of what was never asked.
    for id in [format!("confirmation-{ID}"), "confirmation-x".to_owned(), ID.to_owned()] {
        let answer = send(&agent.key, &asked, &response(&id, &yes())).await;
        assert!([202, 400].contains(&answer.status.as_u16()), "{answer}");
    }
    // 2. One from another session of the same key, from another key, and without a session.
    let (stream, question) = agent.asked(&asked, "one").await;
    let accepted = reply(&question, &yes());
    assert_eq!(send(&agent.key, &sibling, &accepted).await.status, 400);
    assert_eq!(send(&other.key, &others, &accepted).await.status, 400);
    assert_eq!(send(&other.key, &asked, &accepted).await.status, 404);
    assert_eq!(agent.key.mcp(&accepted).await.status, 404);
    assert_eq!(send(owner, &session(owner, &json!({"elicitation": {}})).await, &accepted).await.status, 400);
    let id = question["id"].as_str().unwrap().trim_start_matches("confirmation-").to_owned();
    let waiting = owner.get(&format!("{APPROVALS}/{id}")).await.expect(200);
    assert_eq!(waiting["item"]["state"], "pending", "{waiting}");
    // 3. The right one, and the same once more.
    assert_eq!(send(&agent.key, &asked, &accepted).await.status, 202);
    ran(&last(stream).await);
    assert_eq!(send(&agent.key, &asked, &accepted).await.status, 400);
    waits(&agent.call("one").await);
    assert_eq!((agent.runs(owner).await, other.runs(owner).await), (1, 0));
}

#[tokio::test]
async fn no_answer_of_the_newest_revision_counts_for_another_call() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (agent, other) = (Agent::new(owner).await, Agent::new(owner).await);
    let asked = agent.modern("one", true, &json!({})).await["result"].take();
    let state = asked["requestState"].as_str().unwrap();
    let answer = |state: &str| json!({"requestState": state, "inputResponses": {"confirm": yes()}});
    let invalid = |answer: Value| assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // Other arguments, another caller with the same arguments, a state that was bent or made up.
    invalid(agent.modern("two", true, &answer(state)).await);
    let capable = json!({"elicitation": {}});
    invalid(modern(&other.key, &capable, &agent.arguments("one"), &answer(state)).await);
    invalid(modern(owner, &capable, &agent.arguments("one"), &answer(state)).await);
    let bent = format!("{}A", &state[..state.len() - 1]);
    for made_up in ["", "x", ID, "v1.00000000.AAAA", bent.as_str()] {
        if made_up != state {
            invalid(agent.modern("one", true, &answer(made_up)).await);
        }
    }
    // A client that declares nothing has nobody to ask.
    invalid(agent.modern("one", false, &answer(state)).await);
    // An answer to no question is none; each of these asks anew.
    let unasked = agent.modern("one", true, &json!({"inputResponses": {"confirm": yes()}})).await;
    assert_eq!(unasked["result"]["resultType"], "input_required", "{unasked}");
    let unasked = agent.modern("three", false, &json!({"inputResponses": {"confirm": yes()}})).await;
    waits(&unasked["result"]);
    assert_eq!((agent.runs(owner).await, other.runs(owner).await), (0, 0));
    // The question itself was not harmed by any of it.
    ran(&agent.modern("one", true, &answer(state)).await["result"]);
}

#[tokio::test]
async fn nothing_that_a_call_carries_confirms_it() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let call = |params: Value| json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let confirmations = json!({"confirm": true, "confirmed": true, "cardinal/confirmation": {"status": "approved"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
    let plain = json!({"name": TOOL, "arguments": agent.arguments("one")});
    let mut with_meta = plain.clone();
    with_meta["_meta"] = confirmations.clone();
    let mut with_answer = plain.clone();
    with_answer["inputResponses"] = json!({"confirm": yes()});
    with_answer["requestState"] = json!("v1.00000000.AAAA");
    let mut with_argument = plain.clone();
    with_argument["arguments"]["confirm"] = json!(true);
    let calls = [&with_meta, &with_answer, &with_argument, &plain].map(|params| {
        let message = call(params.clone());
        let request = agent.key.call(Method::POST, "/api?").json(&message).header("accept", "*/*");
        request.header("x-confirm", "true").header("x-cardinal-approved", "1").send()
    });
    for answer in futures_util::future::join_all(calls).await {
        let result = &answer.json()["result"];
        assert_eq!(result["isError"], true, "{answer}");
    }
    assert_eq!(agent.runs(owner).await, 0);
}

#[tokio::test]
async fn a_person_alone_decides_and_by_post_and_once() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let approval = waits(&agent.call("one").await);
    let all = owner.key(&["*"]).await;
    let mcp = owner.key(&["mcp:*", "plugin:*:*"]).await;
    let viewer = owner.make_user("viewer").await;
    for stranger in [&agent.key, &all, &mcp, &viewer] {
        for (method, path) in [
            (Method::GET, APPROVALS.to_owned()),
            (Method::GET, approval.clone()),
            (Method::POST, format!("{approval}/approve")),
            (Method::POST, format!("{approval}/deny")),
        ] {
            let problem = stranger.call(method, &path).send().await.refused(403, "insufficient-scope");
            assert_eq!(problem["required_scope"], "mcp:approve", "{problem}");
        }
    }
    owner
        .post("/v1/admin/api-keys", &json!({"name": "a", "scopes": ["mcp:approve"]}))
        .await
        .refused(422, "validation-failed");
    host.client().call(Method::POST, &format!("{approval}/approve")).send().await.refused(401, "missing-token");
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE] {
        let answer = owner.call(method, &format!("{approval}/approve")).send().await;
        assert_eq!(answer.status, 405, "{answer}");
    }
    owner.call(Method::POST, &format!("{approval}/approve?note=one")).send().await.refused(400, "invalid-request");
    decide(owner, &format!("{APPROVALS}/{ID}"), "approve").await.refused(404, "not-found");
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "pending");
    let (one, two) = tokio::join!(decide(owner, &approval, "approve"), decide(owner, &approval, "approve"));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    decide(owner, &approval, "deny").await.refused(409, "conflict");
    // Other arguments, and another key of the same user, have nothing of it.
    let other = Agent { key: owner.key(&["mcp:use", "plugin:echo:write"]).await, card: agent.card.clone() };
    let calls = tokio::join!(agent.call("two"), other.call("one"), agent.call("one"), agent.call("one"));
    waits(&calls.0);
    waits(&calls.1);
    let once = [&calls.2, &calls.3].into_iter().filter(|result| result["isError"] != true).count();
    assert_eq!((once, agent.runs(owner).await), (1, 1), "{calls:?}");
    // The refusals are in the audit log.
    let refused = owner.get("/v1/admin/audit?action=approval.approve&outcome=refused").await.expect(200);
    assert!(!refused["items"].as_array().unwrap().is_empty(), "{refused}");
}

#[tokio::test]
async fn nothing_counts_after_ten_minutes() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let session = agent.session().await;
    let (stream, question) = agent.asked(&session, "one").await;
    let state = agent.modern("two", true, &json!({})).await["result"]["requestState"].take();
    let (waiting, approved) = tokio::join!(agent.call("three"), agent.call("four"));
    let (waiting, approved) = (waits(&waiting), waits(&approved));
    decide(owner, &approved, "approve").await.expect(200);
    let all = pending(owner, &agent).await;
    assert!(all.len() == 3 && all.iter().all(|one| minutes(one) == 10), "{all:?}");
    let database = host.database().await;
    database.execute("UPDATE mcp_approvals SET expires_at = now() - interval '1 second'", &[]).await.unwrap();
    assert!(text(&last(stream).await).starts_with("confirmation_expired"));
    assert_eq!(send(&agent.key, &session, &reply(&question, &yes())).await.status, 400);
    let answer = json!({"requestState": state, "inputResponses": {"confirm": yes()}});
    assert!(text(&agent.modern("two", true, &answer).await["result"]).starts_with("confirmation_expired"));
    decide(owner, &waiting, "approve").await.refused(409, "conflict");
    assert_ne!(waits(&agent.call("four").await), approved);
    assert_eq!(agent.runs(owner).await, 0);
    let expired = owner.get(&format!("{APPROVALS}?state=expired")).await.expect(200);
    assert_eq!(expired["items"].as_array().unwrap().len(), 4, "{expired}");
}

fn minutes(approval: &Value) -> i64 {
    let time = |name: &str| {
        let text = approval[name].as_str().unwrap();
        time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).unwrap()
    };
    (time("expires_at") - time("created_at")).whole_minutes()
}

#[tokio::test]
async fn no_token_of_a_provider_confirms_whatever_it_claims() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let most = "* mcp:use mcp:approve plugin:echo:write";
    let federated = Federated::start(|settings| settings.plugins(plugins).set("OIDC_MAX_SCOPES", most)).await;
    let owner = federated.host.owner().await;
    let agent = Agent::new(owner).await;
    let approval = waits(&agent.call("one").await);
    let holder = federated.holder("agent", "* mcp:approve mcp:use mcp:unattended").await;
    holder.get(APPROVALS).await.refused(403, "insufficient-scope");
    for what in ["approve", "deny"] {
        let answer = holder.call(Method::POST, &format!("{approval}/{what}")).send().await;
        answer.refused(403, "insufficient-scope");
    }
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "pending");
}

#[tokio::test]
async fn a_key_for_mcp_alone_has_no_other_way_to_the_plugin() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let card = owner.card("Behind MCP").await["id"].as_str().unwrap().to_owned();
    let wanted = json!({"name": unique("agent"), "scopes": ["*"], "mcp_only": true});
    let made = owner.make_key(wanted).await;
    assert_eq!(made["item"]["mcp_only"], true, "{made}");
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let only = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"});
    for path in ["/api", "/api/mcp"] {
        key.post(path, &only).await.expect(200);
    }
    key.post(&format!("/v1/admin/plugins/echo/enrich/{card}"), &json!({"note": "x"})).await.refused(403, "forbidden");
    for path in ["/v1/admin/auth/me", "/v1/admin/master-cards", "/v1/admin/api-keys", "/v1/admin/jobs", "/metrics"] {
        key.get(path).await.refused(403, "forbidden");
    }
    key.post("/v1/admin/api-keys", &json!({"name": "wider", "scopes": ["*"]})).await.refused(403, "forbidden");
    key.get("/v1/admin/no-such-thing").await.refused(404, "not-found");
    // It stays so when it is rotated, and no change takes it away.
    let path = format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap());
    owner.patch(&path, &json!({"mcp_only": false})).await.refused(422, "validation-failed");
    let rotated = owner.post(&format!("{path}/rotate"), &json!({"overlap_seconds": 0})).await.expect(201);
    assert_eq!(rotated["item"]["mcp_only"], true, "{rotated}");
    let usual: &User = &owner.key(&["mcp:use", "cards:read"]).await;
    usual.get("/v1/admin/master-cards").await.expect(200);
    let audited = owner.get("/v1/admin/audit?action=api_key.create").await.expect(200);
    assert!(audited["items"].as_array().unwrap().iter().any(|line| line["detail"]["mcp_only"] == true), "{audited}");
}
