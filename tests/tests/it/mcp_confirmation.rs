//! Tools that have to be confirmed: they run after a person has said so, once, and with what was shown.

use std::process::Command;

use cardinal_tests::{Answer, Client, Host, PASSWORD, Package, User, eventually, repository, unique};
use http::Method;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::mcp_sessions::{BOTH, MODERN, REVISION, echo, kill_worker, read_until, send};

pub(super) const TOOL: &str = "plugin_echo_enrich";
pub(super) const APPROVALS: &str = "/v1/admin/approvals";
const SCOPES: [&str; 2] = ["mcp:use", "plugin:echo:write"];

/// A key of an agent, and a card for it to write to.
pub(super) struct Agent {
    pub key: User,
    pub card: String,
}

impl Agent {
    pub(super) async fn new(owner: &User) -> Agent {
        let card = owner.card("Confirmed").await["id"].as_str().unwrap().to_owned();
        Agent { key: owner.key(&SCOPES).await, card }
    }

    pub(super) fn arguments(&self, note: &str) -> Value {
        json!({"card_id": self.card, "note": note})
    }

    pub(super) fn message(&self, note: &str) -> Value {
        let params = json!({"name": TOOL, "arguments": self.arguments(note)});
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})
    }

    /// A call without a session, of a client that can ask nobody.
    pub(super) async fn call(&self, note: &str) -> Value {
        result(&self.key.mcp(&self.message(note)).await)
    }

    /// How often the tool has run.
    pub(super) async fn runs(&self, owner: &User) -> i64 {
        owner.read_card(&self.card).await["version"].as_i64().unwrap() - 1
    }

    /// A session of a client that can ask its user.
    pub(super) async fn session(&self) -> String {
        session(&self.key, &json!({"elicitation": {}})).await
    }

    /// A call in a session, up to the question; gives the stream and the question.
    pub(super) async fn asked(&self, session: &str, note: &str) -> (Incoming, Value) {
        let mut stream = self.open(session, &self.message(note)).await;
        let read = read_until(&mut stream, "elicitation/create").await;
        (stream, event(&read, "elicitation/create"))
    }

    pub(super) async fn open(&self, session: &str, message: &Value) -> Incoming {
        let call = self.key.call(Method::POST, "/api").json(message).header("accept", BOTH);
        let call = call.header("mcp-session-id", session).header("mcp-protocol-version", REVISION);
        let answer = call.open(None).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body()
    }

    /// A call of the newest revision; `more` is added to its parameters.
    pub(super) async fn modern(&self, note: &str, can_ask: bool, more: &Value) -> Value {
        let capabilities = if can_ask { json!({"elicitation": {"form": {}}}) } else { json!({}) };
        modern(&self.key, &capabilities, &self.arguments(note), more).await
    }
}

pub(super) async fn modern(client: &Client, capabilities: &Value, arguments: &Value, more: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let mut params = json!({"name": TOOL, "arguments": arguments, "_meta": meta});
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let call = client.call(Method::POST, "/api").json(&message).header("accept", BOTH);
    let call = call.header("mcp-protocol-version", MODERN).header("mcp-method", "tools/call");
    let answer = call.header("mcp-name", TOOL).send().await;
    event(&answer.text(), "\"id\":5")
}

pub(super) async fn session(client: &Client, capabilities: &Value) -> String {
    let about = json!({"name": "asks its user", "version": "1.2"});
    let params = json!({"protocolVersion": REVISION, "capabilities": capabilities, "clientInfo": about});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let answer = client.call(Method::POST, "/api").json(&message).header("accept", BOTH).send().await;
    assert_eq!(answer.status, 200, "{answer}");
    let id = answer.header("mcp-session-id").unwrap().to_owned();
    send(client, &id, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    id
}

/// The message with `part` among events, or the whole text where it is one message.
fn event(text: &str, part: &str) -> Value {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains(part));
    serde_json::from_str(data.unwrap_or(text)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(super) fn result(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer}");
    event(&answer.text(), "\"id\":5")["result"].take()
}

/// The answer to a call whose question was answered.
pub(super) async fn last(mut stream: Incoming) -> Value {
    event(&read_until(&mut stream, "\"id\":5").await, "\"id\":5")["result"].take()
}

pub(super) fn reply(question: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

pub(super) fn yes() -> Value {
    json!({"action": "accept", "content": {"confirm": true}})
}

pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// Demands that a call waits for a person; gives the approval's path.
pub(super) fn waits(result: &Value) -> String {
    assert!(result["isError"] == true && text(result).starts_with("confirmation_required"), "{result}");
    let id = result["structuredContent"]["approval_id"].as_str().unwrap_or_else(|| panic!("{result}"));
    // For the person whom the model shows it.
    assert!(text(result).contains(&format!("/admin/approvals?call={id}. ")), "{result}");
    format!("{APPROVALS}/{id}")
}

pub(super) fn ran(result: &Value) {
    assert!(result["isError"] != true && text(result).contains("echo:note"), "{result}");
}

pub(super) async fn decide(person: &User, approval: &str, what: &str) -> Answer {
    person.call(Method::POST, &format!("{approval}/{what}")).send().await
}

/// What waits for a person as soon as this call does, whose client then leaves. The host has noticed that: else the call
/// that was left might run by itself when it is approved.
pub(super) async fn asked(person: &User, arguments: &Value, call: impl Future<Output = Value>) -> Value {
    let waits = eventually("the call waits for a person", async || {
        let page = person.get(&format!("{APPROVALS}?limit=200")).await.expect(200);
        let items = page["items"].as_array().unwrap().clone();
        items.into_iter().find(|approval| approval["arguments"] == *arguments)
    });
    let approval = tokio::select! {
        biased;
        approval = waits => approval,
        result = call => panic!("{result}"),
    };
    let [tool, caller] = [&approval["tool"], &approval["caller"]["id"]].map(|text| text.as_str().unwrap());
    let calls = format!("/v1/admin/audit?action=tool.call&target={tool}&actor={caller}");
    eventually("the call has ended", async || {
        let page = person.get(&calls).await.expect(200);
        let mut lines = page["items"].as_array().unwrap().iter();
        lines.any(|line| line["request_id"] == approval["request_id"]).then_some(())
    })
    .await;
    approval
}

pub(super) fn approval_path(approval: &Value) -> String {
    format!("{APPROVALS}/{}", approval["id"].as_str().unwrap())
}

/// What waits of this card.
pub(super) async fn pending(person: &User, agent: &Agent) -> Vec<Value> {
    let page = person.get(APPROVALS).await.expect(200);
    let all = page["items"].as_array().unwrap().clone();
    all.into_iter().filter(|approval| approval["arguments"]["card_id"] == agent.card.as_str()).collect()
}

#[tokio::test]
async fn a_client_asks_its_user_on_the_stream_of_the_call() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let session = agent.session().await;
    let (stream, question) = agent.asked(&session, "one").await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains(TOOL) && message.contains(&agent.card) && message.contains("echo 1.0.0"), "{message}");
    assert_eq!(question["params"]["requestedSchema"]["type"], "object", "{question}");
    // A person sees it meanwhile, whole.
    let shown = pending(owner, &agent).await;
    let [shown] = shown.as_slice() else { panic!("{shown:?}") };
    assert_eq!(shown["arguments"], agent.arguments("one"));
    assert_eq!((&shown["tool"], &shown["state"], &shown["asked"]), (&json!(TOOL), &json!("pending"), &json!("client")));
    assert_eq!(shown["client"], json!({"name": "asks its user", "version": "1.2"}));
    assert_eq!(shown["caller"]["kind"], "api_key", "{shown}");
    assert_eq!(shown["user"]["username"], owner.username.as_str(), "{shown}");
    assert_eq!(shown["plugin"]["name"], "echo", "{shown}");
    assert!(shown.get("difference").is_none(), "what a plugin writes nobody knows before: {shown}");
    assert_eq!(agent.runs(owner).await, 0);
    let taken = send(&agent.key, &session, &reply(&question, &yes())).await;
    assert_eq!(taken.status, 202, "{taken}");
    ran(&last(stream).await);
    assert_eq!(agent.runs(owner).await, 1);
    let id = shown["id"].as_str().unwrap();
    let used = owner.get(&format!("{APPROVALS}/{id}")).await.expect(200)["item"].clone();
    assert_eq!((&used["state"], &used["decided_by"]["kind"]), (&json!("used"), &json!("client")), "{used}");
    let lines = owner.get(&format!("/v1/admin/audit?target={id}")).await.expect(200);
    let acts: Vec<&str> = lines["items"].as_array().unwrap().iter().map(|l| l["action"].as_str().unwrap()).collect();
    assert_eq!(acts, ["approval.use", "approval.approve", "approval.ask"], "{lines}");
    for no in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept", "content": {"confirm": false}}),
        json!({"nonsense": true}),
    ] {
        let (stream, question) = agent.asked(&session, "one").await;
        assert_eq!(send(&agent.key, &session, &reply(&question, &no)).await.status, 202);
        let refused = last(stream).await;
        assert!(refused["isError"] == true && text(&refused).starts_with("confirmation_denied"), "{refused}");
    }
    let (stream, question) = agent.asked(&session, "one").await;
    let error = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32601, "message": "no"}});
    assert_eq!(send(&agent.key, &session, &error).await.status, 202);
    assert!(text(&last(stream).await).starts_with("confirmation_denied"));
    assert_eq!(agent.runs(owner).await, 1);
}

#[tokio::test]
async fn a_client_of_the_newest_revision_repeats_its_call_with_its_users_answer() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let asked = agent.modern("one", true, &json!({})).await["result"].take();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["confirm"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    assert!(question["params"]["message"].as_str().unwrap().contains(&agent.card), "{asked}");
    let state = &asked["requestState"];
    // Without an answer it is asked the same once more.
    let again = agent.modern("one", true, &json!({"requestState": state})).await["result"].take();
    assert_eq!((&again["inputRequests"], &again["requestState"]), (&asked["inputRequests"], state), "{again}");
    assert_eq!(pending(owner, &agent).await.len(), 1);
    let answer = json!({"requestState": state, "inputResponses": {"confirm": yes()}});
    ran(&agent.modern("one", true, &answer).await["result"]);
    let replayed = agent.modern("one", true, &answer).await["result"].take();
    assert!(text(&replayed).starts_with("confirmation_used"), "{replayed}");
    let asked = agent.modern("one", true, &json!({})).await["result"].take();
    let no = json!({"requestState": asked["requestState"], "inputResponses": {"confirm": {"action": "decline"}}});
    assert!(text(&agent.modern("one", true, &no).await["result"]).starts_with("confirmation_denied"));
    let late = json!({"requestState": asked["requestState"], "inputResponses": {"confirm": yes()}});
    assert!(text(&agent.modern("one", true, &late).await["result"]).starts_with("confirmation_denied"));
    assert_eq!(agent.runs(owner).await, 1);
}

#[tokio::test]
async fn a_person_approves_what_a_client_cannot_ask_its_user() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    // Wrong arguments are put before nobody.
    let call = json!({"name": TOOL, "arguments": {"card_id": 7, "note": "x"}});
    let wrong =
        result(&agent.key.mcp(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call})).await);
    assert!(text(&wrong).contains("/card_id") && pending(owner, &agent).await.is_empty(), "{wrong}");
    let approval = waits(&agent.call("one").await);
    let again = waits(&agent.call("one").await);
    assert_eq!(approval, again, "the same call waits once");
    let editor = owner.make_user("editor").await;
    let item = decide(&editor, &approval, "approve").await.expect(200)["item"].clone();
    assert_eq!((&item["state"], &item["decided_by"]["name"]), (&json!("approved"), &json!(editor.username)), "{item}");
    ran(&agent.call("one").await);
    assert_ne!(waits(&agent.call("one").await), approval, "an approval is good once");
    assert_eq!(agent.runs(owner).await, 1);
    // A call that waits goes on at once, and hears meanwhile what it waits for.
    let session = session(&agent.key, &json!({})).await;
    let mut message = agent.message("two");
    message["params"]["_meta"] = json!({"progressToken": "t"});
    let mut stream = agent.open(&session, &message).await;
    let heard = event(&read_until(&mut stream, "notifications/progress").await, "progressToken");
    let waiting = pending(owner, &agent).await;
    let two = waiting.iter().find(|approval| approval["arguments"]["note"] == "two").unwrap();
    let page = format!("/admin/approvals?call={}", two["id"].as_str().unwrap());
    assert!(heard["params"]["message"].as_str().unwrap().ends_with(&page), "{heard}");
    decide(owner, &format!("{APPROVALS}/{}", two["id"].as_str().unwrap()), "approve").await.expect(200);
    ran(&last(stream).await);
    let denied = waits(&agent.call("three").await);
    decide(owner, &denied, "deny").await.expect(200);
    decide(owner, &denied, "approve").await.refused(409, "conflict");
    assert!(text(&agent.call("three").await).starts_with("confirmation_denied"), "it hears of that once");
    assert_ne!(waits(&agent.call("three").await), denied);
    assert_eq!(agent.runs(owner).await, 2);
}

#[tokio::test]
async fn the_operator_can_demand_a_person_for_every_confirmation() {
    let host = Host::settings().plugins(echo()).set("MCP_CONFIRM", "admin").start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let session = agent.session().await;
    let (message, nothing) = (agent.message("one"), json!({}));
    let (stream, modern) = tokio::join!(agent.open(&session, &message), agent.modern("one", true, &nothing));
    let approval = waits(&last(stream).await);
    assert_eq!(waits(&modern["result"]), approval, "one caller makes one call");
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["asked"], "admin");
    decide(owner, &approval, "approve").await.expect(200);
    ran(&agent.modern("one", true, &json!({})).await["result"]);
}

#[tokio::test]
async fn questions_and_answers_outlive_the_worker() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (agent, other) = (Agent::new(owner).await, Agent::new(owner).await);
    let session = agent.session().await;
    let (mut stream, question) = agent.asked(&session, "one").await;
    let asked = other.modern("one", true, &json!({})).await["result"].take();
    let approval = waits(&other.call("two").await);
    kill_worker(&host);
    read_until(&mut stream, "there is no such event").await;
    host.ready_again().await;
    // The user has answered late: the call is lost, but may be made again.
    assert_eq!(send(&agent.key, &session, &reply(&question, &yes())).await.status, 202);
    ran(&agent.call("one").await);
    let answer = json!({"requestState": asked["requestState"], "inputResponses": {"confirm": yes()}});
    ran(&other.modern("one", true, &answer).await["result"]);
    decide(owner, &approval, "approve").await.expect(200);
    kill_worker(&host);
    host.ready_again().await;
    ran(&other.call("two").await);
    assert_eq!((agent.runs(owner).await, other.runs(owner).await), (1, 2));
}

#[tokio::test]
async fn a_decision_at_one_host_reaches_a_call_at_another() {
    let one = Host::settings().plugins(echo()).start().await;
    let owner = one.owner().await;
    let agent = Agent::new(owner).await;
    let editor = owner.make_user("editor").await;
    let other = one.beside().plugins(echo()).start().await;
    let elsewhere = User::log_in(&other.client(), &editor.username, PASSWORD).await;
    let (here, there) = (agent.session().await, other.client().bearer(&agent.key.token));
    let (stream, question) = agent.asked(&here, "one").await;
    assert_eq!(send(&there, &here, &reply(&question, &yes())).await.status, 202);
    ran(&last(stream).await);
    let (call, ()) = tokio::join!(agent.call("two"), async {
        let waiting = eventually("the call waits", async || pending(owner, &agent).await.pop()).await;
        decide(&elsewhere, &format!("{APPROVALS}/{}", waiting["id"].as_str().unwrap()), "approve").await.expect(200);
    });
    ran(&call);
    assert_eq!(agent.runs(owner).await, 2);
}

#[tokio::test]
async fn a_caller_displaces_its_own_oldest_question_and_nobody_elses() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (agent, other) = (Agent::new(owner).await, Agent::new(owner).await);
    let asked = other.modern("stays", true, &json!({})).await["result"].take();
    let first = agent.modern("0", true, &json!({})).await["result"].take();
    for note in 1..=10 {
        let asked = agent.modern(&note.to_string(), true, &json!({})).await["result"].take();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
    }
    assert_eq!(pending(owner, &agent).await.len(), 10);
    let answer = |asked: &Value| json!({"requestState": asked["requestState"], "inputResponses": {"confirm": yes()}});
    let gone = agent.modern("0", true, &answer(&first)).await["result"].take();
    assert!(text(&gone).starts_with("confirmation_displaced"), "{gone}");
    ran(&other.modern("stays", true, &answer(&asked)).await["result"]);
}

#[tokio::test]
async fn a_swap_of_the_plugin_voids_what_was_asked_and_approved() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let session = agent.session().await;
    let (stream, question) = agent.asked(&session, "asked").await;
    let state = agent.modern("modern", true, &json!({})).await["result"]["requestState"].take();
    let (approved, waiting) = tokio::join!(agent.call("approved"), agent.call("waiting"));
    let (approved, waiting) = (waits(&approved), waits(&waiting));
    decide(owner, &approved, "approve").await.expect(200);
    host.plugins().put("echo", &Package::fixture("echo").version("1.0.9"));
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    eventually("the other version serves", async || {
        let item = owner.get("/v1/admin/plugin-registry/echo").await.expect(200);
        (item["item"]["version"] == "1.0.9").then_some(())
    })
    .await;
    let state_of = async |approval: &str| owner.get(approval).await.expect(200)["item"]["state"].take();
    eventually("the approval is void", async || (state_of(&approved).await == "void").then_some(())).await;
    assert_eq!(owner.get(APPROVALS).await.expect(200)["items"], json!([]), "none of them waits any more");
    let void = last(stream).await;
    assert!(text(&void).starts_with("confirmation_void"), "{void}");
    assert_eq!(send(&agent.key, &session, &reply(&question, &yes())).await.status, 400, "nothing waits for it");
    let answer = json!({"requestState": state, "inputResponses": {"confirm": yes()}});
    assert_eq!(agent.modern("modern", true, &answer).await["error"]["code"], -32602);
    decide(owner, &waiting, "approve").await.refused(409, "conflict");
    assert_eq!(owner.get(&waiting).await.expect(200)["item"]["state"], "void");
    assert_ne!(waits(&agent.call("approved").await), approved);
    assert_eq!(agent.runs(owner).await, 0);
}

#[tokio::test]
async fn a_call_does_not_run_whose_key_was_revoked_while_it_waited() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let card = owner.card("Revoked").await["id"].as_str().unwrap().to_owned();
    let made = owner.make_key(json!({"name": unique("agent"), "scopes": SCOPES, "mcp_only": true})).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let session = session(&key, &json!({"elicitation": {}})).await;
    let arguments = json!({"card_id": card, "note": "never"});
    let params = json!({"name": TOOL, "arguments": arguments, "_meta": {"progressToken": 1}});
    let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let call = key.call(Method::POST, "/api").json(&message).header("accept", BOTH);
    let call = call.header("mcp-session-id", &session).header("mcp-protocol-version", REVISION);
    let mut stream = call.open(None).await.unwrap().into_body();
    read_until(&mut stream, "elicitation/create").await;
    let page = owner.get(APPROVALS).await.expect(200);
    let approval = format!("{APPROVALS}/{}", page["items"][0]["id"].as_str().unwrap());
    owner.delete(&format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap())).await.expect(204);
    decide(owner, &approval, "approve").await.expect(200);
    read_until(&mut stream, "there is no such event").await;
    // The host has looked at the decision when the next one that it waits for has gone through.
    let agent = Agent::new(owner).await;
    let (call, ()) = tokio::join!(agent.call("after"), async {
        let waiting = eventually("the call waits", async || pending(owner, &agent).await.pop()).await;
        decide(owner, &format!("{APPROVALS}/{}", waiting["id"].as_str().unwrap()), "approve").await.expect(200);
    });
    ran(&call);
    assert_eq!(owner.read_card(&card).await["version"], 1);
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "approved", "and nobody has used it");
}

/// What the official client of this file got, answering its question with `confirm`.
async fn official(file: &'static str, host: &Host, agent: &Agent, confirm: &'static str) -> Value {
    let (url, arguments) = (format!("{}/api", host.url()), agent.arguments("by the SDK").to_string());
    let token = agent.key.token.clone();
    let run = move || {
        let mut command = Command::new("node");
        command.arg(repository().join("tests/clients").join(file)).args([&url, "call", TOOL, &arguments]);
        command.env("CARDINAL_API_KEY", token).env("CONFIRM", confirm).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}{errors}"))
}

#[tokio::test]
async fn the_official_clients_of_both_eras_ask_their_users() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    for (file, name) in [("mcp.mjs", "cardinal-first-walk"), ("mcp2.mjs", "cardinal-newest-revision")] {
        let agent = Agent::new(owner).await;
        let refused = official(file, &host, &agent, "decline").await;
        assert!(text(&refused).starts_with("confirmation_denied"), "{file}: {refused}");
        let accepted = official(file, &host, &agent, "accept").await;
        ran(&accepted);
        let asked = accepted["asked"].as_array().unwrap();
        assert!(asked.len() == 1 && asked[0].as_str().unwrap().contains(&agent.card), "{file}: {accepted}");
        assert_eq!(agent.runs(owner).await, 1, "{file}");
        let page = owner.get(&format!("{APPROVALS}?state=used&limit=1")).await.expect(200);
        assert_eq!(page["items"][0]["client"]["name"], name, "{page}");
    }
}

#[tokio::test]
async fn nobody_is_asked_about_a_change_of_a_card_that_would_fail() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "cards:write"]).await;
    let card = owner.card("Before").await;
    for (tool, arguments, told) in [
        (
            "cards_update",
            json!({"id": card["id"], "version": 7, "title": "After"}),
            "version-mismatch: It is at version 1",
        ),
        (
            "cards_update",
            json!({"id": "01890000-0000-7000-8000-000000000000", "version": 1, "title": "After"}),
            "not-found",
        ),
        ("cards_update", json!({"id": card["id"], "version": 1, "sku": " x"}), "validation-failed"),
        ("cards_create", json!({"title": " ", "sku": "x"}), "validation-failed"),
    ] {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
        let refused = result(&key.mcp(&message).await);
        let text = refused["content"][0]["text"].as_str().unwrap_or_default();
        assert!(refused["isError"] == true && text.starts_with(told), "{arguments}: {refused}");
        assert!(refused["_meta"]["cardinal/confirmation"].is_null(), "{refused}");
    }
}
