//! A person who refuses a call may say why: the reason reaches the caller, and stays with the approval and in the audit
//! log.

use cardinal_tests::{Answer, Host, User};
use http::Method;
use serde_json::{Value, json};

use super::mcp_confirmation::{APPROVALS, Agent, last, pending, session, text, waits, yes};
use super::mcp_sessions::{echo, read_until};

const REASON: &str = "Wrong supplier: use ACME’s price list";

async fn refuse(person: &User, approval: &str, body: &Value) -> Answer {
    person.call(Method::POST, &format!("{approval}/deny")).json(body).send().await
}

#[tokio::test]
async fn a_call_that_waits_gets_the_reason_and_the_audit_log_has_it() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let session = session(&agent.key, &json!({})).await;
    let mut message = agent.message("one");
    message["params"]["_meta"] = json!({"progressToken": "t"});
    let mut stream = agent.open(&session, &message).await;
    read_until(&mut stream, "notifications/progress").await;
    let waiting = pending(owner, &agent).await.pop().unwrap();
    assert_eq!(waiting["reason"], Value::Null, "{waiting}");
    let approval = format!("{APPROVALS}/{}", waiting["id"].as_str().unwrap());
    let editor = owner.make_user("editor").await;
    let item = refuse(&editor, &approval, &json!({"reason": format!("  {REASON} ")})).await.expect(200)["item"].clone();
    assert_eq!((&item["state"], &item["reason"]), (&json!("denied"), &json!(REASON)), "{item}");
    let answer = last(stream).await;
    assert!(answer["isError"] == true && text(&answer).starts_with("confirmation_denied"), "{answer}");
    assert!(text(&answer).contains(REASON), "{answer}");
    let audit = format!("/v1/admin/audit?action=approval.deny&target={}", waiting["id"].as_str().unwrap());
    let lines = owner.get(&audit).await.expect(200);
    let line = &lines["items"][0];
    assert_eq!(
        (&line["detail"]["reason"], &line["actor"]["name"]),
        (&json!(REASON), &json!(editor.username)),
        "{line}"
    );
    assert_ne!(waits(&agent.call("one").await), approval, "it has heard of it, so that it is asked about anew");
    assert_eq!(agent.runs(owner).await, 0);
}

#[tokio::test]
async fn a_caller_that_has_stopped_waiting_hears_of_a_refusal_once() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let approval = waits(&agent.call("one").await);
    refuse(owner, &approval, &json!({"reason": REASON})).await.expect(200);
    let other = agent.modern("two", true, &json!({})).await["result"].take();
    assert_eq!(other["resultType"], "input_required", "another call was not refused: {other}");
    let refused = agent.call("one").await;
    assert!(refused["isError"] == true && text(&refused).contains(REASON), "{refused}");
    assert_ne!(waits(&agent.call("one").await), approval);
    // A client whose user accepts what a person has refused meanwhile hears why it does not run.
    let asked = pending(owner, &agent).await;
    let two = asked.iter().find(|approval| approval["arguments"]["note"] == "two").unwrap();
    refuse(owner, &format!("{APPROVALS}/{}", two["id"].as_str().unwrap()), &json!({"reason": "No"})).await.expect(200);
    let answer = json!({"requestState": other["requestState"], "inputResponses": {"confirm": yes()}});
    let late = agent.modern("two", true, &answer).await["result"].take();
    assert!(text(&late).starts_with("confirmation_denied") && text(&late).contains("why: No\n"), "{late}");
    let again = agent.modern("two", true, &json!({})).await["result"].take();
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert_eq!(agent.runs(owner).await, 0);
}

#[tokio::test]
async fn a_reason_is_one_short_line_of_text() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let approval = waits(&agent.call("one").await);
    let wrong = [
        json!(""),
        json!("  "),
        json!("x".repeat(501)),
        json!("two\nlines"),
        json!("bell\u{7}"),
        json!("\u{1b}[31mred"),
        json!("nothing\u{0}"),
        json!("next\u{85}line"),
        json!("two\u{2028}lines"),
        json!(7),
        json!(["x"]),
        json!({"text": "x"}),
    ];
    for reason in wrong {
        let answer = refuse(owner, &approval, &json!({"reason": reason})).await;
        assert_eq!(answer.status, 422, "{reason}: {answer}");
        assert_eq!(answer.json()["errors"][0]["pointer"], "/reason", "{reason}: {answer}");
    }
    refuse(owner, &approval, &json!({"reson": "typo"})).await.refused(422, "validation-failed");
    refuse(owner, &approval, &json!(["x"])).await.refused(422, "validation-failed");
    let huge = refuse(owner, &approval, &json!({"reason": "x".repeat(10_000_000)})).await;
    assert_eq!(huge.status, 413, "{huge}");
    let stranger = owner.make_user("viewer").await;
    refuse(&stranger, &approval, &json!({"reason": "x"})).await.refused(403, "insufficient-scope");
    refuse(&agent.key, &approval, &json!({"reason": "x"})).await.refused(403, "insufficient-scope");
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "pending");
    // Each character may take four bytes, and six as an escape.
    let longest = "\u{1f600}".repeat(500);
    let item = refuse(owner, &approval, &json!({"reason": longest})).await.expect(200)["item"].clone();
    assert_eq!(item["reason"], longest, "{item}");
}
