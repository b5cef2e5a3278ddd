//! The ways back: `rollback`, lower versions, the error rate, and what of it outlives a restart.

use std::time::Duration;

use cardinal_tests::{Client, Host, Package, PluginsFolder, eventually};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::load::Load;
use super::{BETWEEN, CLIENTS, CORE, NOTES, OTHER, SLOW, WHICH, answers, item, plugins, version, which};

const REGISTRY: &str = "/v1/admin/plugin-registry/versioned";

async fn roll_back(client: &Client, wanted: Value) -> Value {
    let wanted = if wanted.is_null() { json!({}) } else { wanted };
    client.post(&format!("{REGISTRY}/rollback"), &wanted).await.expect(200)["item"].take()
}

async fn rescan(client: &Client) {
    client.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
}

/// What lies in the folder, and why it does not serve.
fn waits(report: &Value) -> (&str, &str) {
    (report["pending"]["version"].as_str().unwrap_or("-"), report["refusal"]["code"].as_str().unwrap_or("-"))
}

fn serves(report: &Value) -> (&str, &str) {
    (report["state"].as_str().unwrap(), report["version"].as_str().unwrap())
}

/// Waits until the next worker answers.
async fn serves_again(client: &Client) {
    eventually("another worker serves", async || {
        let answer = client.call(Method::GET, WHICH).try_send().await.ok()?;
        (answer.status == 200).then_some(())
    })
    .await;
}

/// A host that has had 1.0.0 and 1.1.0, which serves.
async fn upgraded() -> (Host, Client) {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    host.plugins().put("versioned", &version("1.1.0", "second"));
    rescan(&client).await;
    assert_eq!(which(&client).await, "second");
    (host, client)
}

#[tokio::test]
async fn one_goes_back_and_forth_under_load_and_no_request_fails() {
    let (host, client) = upgraded().await;
    let load = Load::start(&host, &[WHICH, SLOW, NOTES, CORE, OTHER], CLIENTS).await;
    load.more(BETWEEN).await;
    for _ in 0..3 {
        let back = roll_back(&client, Value::Null).await;
        assert_eq!((serves(&back), waits(&back)), (("active", "1.0.0"), ("1.1.0", "rolled-back")), "{back}");
        assert_eq!(which(&client).await, "first");
        load.more(BETWEEN).await;
        let again = client.post(&format!("{REGISTRY}/reload"), &Value::Null).await.expect(200)["item"].take();
        assert_eq!((serves(&again), waits(&again)), (("active", "1.1.0"), ("-", "-")), "{again}");
        load.more(BETWEEN).await;
    }
    for (target, tally) in load.stop_without_failure().await {
        println!("{target}: {} requests, {:?}", tally.sent, tally.versions);
    }
    let audit = client.get("/v1/admin/audit?action=plugin.rollback").await.expect(200);
    assert_eq!(audit["items"][0]["detail"], json!({"from": "1.1.0", "to": "1.0.0"}), "{audit}");
    drop(host);
}

#[tokio::test]
async fn a_roll_back_whose_caller_leaves_in_its_middle_is_done_and_recorded() {
    let (_host, client) = upgraded().await;
    let call = client.call(Method::POST, &format!("{REGISTRY}/rollback")).json(&json!({})).try_send();
    let middle = eventually("the newer package is set aside", async || {
        let report = item(&client, "versioned").await;
        (waits(&report) == ("1.1.0", "rolled-back")).then_some(())
    });
    // Dropped, the call closes its connection.
    tokio::select! {
        _ = call => {}
        () = middle => {}
    }
    eventually("it is done and recorded", async || {
        let report = item(&client, "versioned").await;
        let audit = client.get("/v1/admin/audit?action=plugin.rollback").await.expect(200);
        let is_done = (serves(&report), waits(&report)) == (("active", "1.0.0"), ("1.1.0", "rolled-back"));
        (is_done && audit["items"][0]["detail"]["to"] == "1.0.0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_rolled_back_stays_out_over_scans_crashes_and_restarts() {
    let (host, client) = upgraded().await;
    client.call(Method::POST, NOTES).send().await.expect(201);
    roll_back(&client, Value::Null).await;
    rescan(&client).await;
    assert_eq!(which(&client).await, "first");

    let worker = host.worker_pid();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    serves_again(&client).await;
    assert_eq!(which(&client).await, "first");

    let host = host.restart(|settings| settings).await;
    let client = (**host.owner().await).clone();
    let report = item(&client, "versioned").await;
    assert_eq!((serves(&report), waits(&report)), (("active", "1.0.0"), ("1.1.0", "rolled-back")), "{report}");
    assert_eq!(which(&client).await, "first");
    assert_eq!(client.get(NOTES).await.expect(200)["notes"], 1, "older code on the newer schema");

    host.plugins().put("versioned", &version("1.2.0", "third"));
    println!("a corrected package answers after {:?}", answers(&client, "third").await);
    assert_eq!(roll_back(&client, Value::Null).await["version"], "1.0.0", "not to the one that was rolled back");
}

#[tokio::test]
async fn a_lower_version_waits_for_the_word() {
    let (host, client) = upgraded().await;
    let load = Load::start(&host, &[WHICH, OTHER], CLIENTS).await;
    host.plugins().put("versioned", &version("1.0.9", "lower"));
    let report = eventually("it is seen", async || {
        let report = item(&client, "versioned").await;
        (report["refusal"]["code"] == "lower-version").then_some(report)
    })
    .await;
    assert_eq!((serves(&report), waits(&report)), (("active", "1.1.0"), ("1.0.9", "lower-version")), "{report}");
    load.stop_without_failure().await;

    let host = host.restart(|settings| settings).await;
    let client = (**host.owner().await).clone();
    assert_eq!(which(&client).await, "second", "the restart does not take it either");
    let report = item(&client, "versioned").await;
    assert_eq!(waits(&report), ("1.0.9", "lower-version"), "{report}");

    let load = Load::start(&host, &[WHICH, OTHER], CLIENTS).await;
    let back = roll_back(&client, Value::Null).await;
    assert_eq!((serves(&back), waits(&back)), (("active", "1.0.9"), ("-", "-")), "{back}");
    assert_eq!(which(&client).await, "lower");
    load.stop_without_failure().await;
    let host = host.restart(|settings| settings).await;
    assert_eq!(which(host.owner().await).await, "lower");
}

#[tokio::test]
async fn one_may_say_where_to_go_and_hears_when_there_is_no_way() {
    let (host, client) = upgraded().await;
    host.plugins().put("versioned", &version("1.2.0", "third"));
    rescan(&client).await;
    let report = item(&client, "versioned").await;
    let versions: Vec<&str> =
        report["versions"].as_array().unwrap().iter().map(|it| it["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["1.2.0", "1.1.0", "1.0.0"], "{report}");
    let back = async |wanted: Value| client.post(&format!("{REGISTRY}/rollback"), &wanted).await;
    let unknown = json!({"version": "0.9.0"});
    back(unknown).await.refused(404, "not-found");
    let typo = json!({"verson": "1.0.0"});
    back(typo).await.refused(422, "validation-failed");
    let first = json!({"version": "1.0.0"});
    assert_eq!(back(first).await.expect(200)["item"]["version"], "1.0.0");
    let aside = item(&client, "versioned").await["versions"].take();
    let aside: Vec<&Value> = aside.as_array().unwrap().iter().filter(|it| !it["set_aside"].is_null()).collect();
    assert_eq!(aside.len(), 2, "both that served since: {aside:?}");
    assert_eq!(aside[0]["set_aside"]["by"]["name"], "owner");
    back(json!({})).await.refused(409, "conflict");
    let second = json!({"sha256": report["versions"][1]["sha256"]});
    assert_eq!(back(second).await.expect(200)["item"]["version"], "1.1.0", "and forward again");
    client.post("/v1/admin/plugin-registry/nobody/rollback", &json!({})).await.refused(404, "not-found");
    client.post("/v1/admin/plugin-registry/nobody/reload", &Value::Null).await.refused(404, "not-found");
    client.post(&format!("{REGISTRY}/disable"), &Value::Null).await.expect(200);
    client.post(&format!("{REGISTRY}/reload"), &Value::Null).await.refused(409, "conflict");
    assert_eq!(roll_back(&client, json!({"version": "1.0.0"})).await["state"], "disabled");
    client.post(&format!("{REGISTRY}/enable"), &Value::Null).await.expect(200);
    assert_eq!(which(&client).await, "first", "what was decided while it was disabled");
}

/// Schema moves forward alone: the older code's schema.sql is not run again, and the newer table is there for it.
#[tokio::test]
async fn older_code_runs_on_the_newer_schema() {
    let newer =
        "CREATE TABLE IF NOT EXISTS notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL);
                 ALTER TABLE notes ADD COLUMN IF NOT EXISTS more text;";
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    client.call(Method::POST, NOTES).send().await.expect(201);
    host.plugins().put("versioned", &version("1.1.0", "second").schema(newer));
    rescan(&client).await;
    let database = host.database().await;
    let steps = async || {
        let sql = "SELECT count(*) FROM plugin_schema_steps WHERE plugin = 'versioned'";
        database.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    assert_eq!(steps().await, 2);
    roll_back(&client, Value::Null).await;
    assert_eq!(client.get(NOTES).await.expect(200)["version"], "first");
    client.call(Method::POST, NOTES).send().await.expect(201);
    assert_eq!(steps().await, 2, "the older schema did not run again");
    let column = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'plugin_versioned' AND column_name = 'more'";
    assert_eq!(database.query_one(column, &[]).await.unwrap().get::<_, i64>(0), 1);
}

/// What was given up on an operator's word ends every way back past it.
#[tokio::test]
async fn no_way_leads_back_past_data_that_was_given_up() {
    let table = "CREATE TABLE IF NOT EXISTS notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text);";
    let with_more = format!("{table} ALTER TABLE notes ADD COLUMN IF NOT EXISTS more text;");
    let without = format!("{table} ALTER TABLE notes DROP COLUMN IF EXISTS more;");
    let first = version("1.0.0", "first").schema(&with_more);
    let host = Host::settings().plugins(PluginsFolder::default().with("versioned", &first)).start().await;
    let client = (**host.owner().await).clone();
    let act = async |verb: &str, body: &Value| client.post(&format!("{REGISTRY}/{verb}"), body).await;
    host.plugins().put("versioned", &version("1.1.0", "second").schema(&without));
    for _ in 0..2 {
        let waits = act("reload", &Value::Null).await.refused(409, "destructive-migration");
        assert_eq!(waits["refusal"]["losses"], json!(["column notes.more is dropped"]), "{waits}");
        assert_eq!(which(&client).await, "first");
    }
    // Enabling decides whether the plugin is to serve, and not what it may lose.
    act("disable", &Value::Null).await.expect(200);
    let enabled = act("enable", &Value::Null).await.expect(200)["item"].take();
    assert_eq!((&enabled["state"], which(&client).await.as_str()), (&json!("active"), "first"), "{enabled}");
    assert_eq!(enabled["refusal"]["code"], "destructive-migration", "{enabled}");
    let agreed = json!({"sha256": enabled["pending"]["sha256"]});
    assert_eq!(act("confirm-migration", &agreed).await.expect(200)["item"]["version"], "1.1.0");
    assert_eq!(which(&client).await, "second");

    for wanted in [json!({}), json!({"version": "1.0.0"}), json!({"sha256": enabled["sha256"]})] {
        let refused = act("rollback", &wanted).await.refused(409, "destructive-migration");
        assert!(refused["detail"].as_str().unwrap().contains("1.1.0"), "{refused}");
    }
    host.plugins().put("versioned", &first);
    act("reload", &Value::Null).await.refused(409, "destructive-migration");
    assert_eq!(which(&client).await, "second");
    let host = host.restart(|settings| settings).await;
    let client = (**host.owner().await).clone();
    let report = item(&client, "versioned").await;
    assert_eq!(report["refusal"]["code"], "destructive-migration", "{report}");
    // What came after it is a way forward as ever.
    host.plugins().put("versioned", &version("1.2.0", "third").schema(&without));
    rescan(&client).await;
    assert_eq!(which(&client).await, "third");
    assert_eq!(roll_back(&client, Value::Null).await["version"], "1.1.0");
}

#[tokio::test]
async fn a_package_whose_calls_fail_is_rolled_back_by_itself() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    for (number, acts) in ["fail", "panic"].into_iter().enumerate() {
        let load = Load::start(&host, &[WHICH, OTHER], CLIENTS).await;
        load.more(BETWEEN).await;
        let bad = version(&format!("1.{}.0", number + 1), "bad").marked("acts", acts);
        host.plugins().put("versioned", &bad);
        let report = eventually("it is rolled back", async || {
            let report = item(&client, "versioned").await;
            let new = report["pending"]["version"] == format!("1.{}.0", number + 1);
            (new && report["refusal"]["code"] == "rolled-back").then_some(report)
        })
        .await;
        assert_eq!(serves(&report), ("active", "1.0.0"), "{report}");
        let reason = report["reason"].as_str().unwrap();
        assert!(reason.contains("calls failed within"), "{reason}");
        load.more(BETWEEN).await;
        let tallies = load.stop().await;
        let (bad, other) = (&tallies[0].1, &tallies[1].1);
        println!("{acts}: {} of {} calls failed until it was rolled back; {reason}", bad.failures, bad.sent);
        assert!(bad.failures >= 20 && other.failures == 0, "{other:?}");
        assert_eq!(which(&client).await, "first");
    }
    let audit = client.get("/v1/admin/audit?action=plugin.rollback").await.expect(200);
    let host_did = &audit["items"][0]["actor"];
    assert_eq!((&host_did["kind"], &host_did["name"]), (&json!("host"), &json!("error rate")), "{audit}");
    let host = host.restart(|settings| settings).await;
    assert_eq!(which(host.owner().await).await, "first", "the restart remembers it");
}

#[tokio::test]
async fn a_package_that_is_no_worse_than_the_one_before_stays() {
    let half = version("1.0.0", "first").marked("acts", "half");
    let plugins = PluginsFolder::default().with("versioned", &half);
    let host = Host::settings().plugins(plugins).start().await;
    let client = (**host.owner().await).clone();
    let odd = format!("{WHICH}?odd");
    let ask = async || {
        for target in [WHICH, WHICH, &odd].into_iter().cycle().take(90) {
            client.get(target).await;
        }
    };
    ask().await;
    host.plugins().put("versioned", &version("1.1.0", "second").marked("acts", "half"));
    answers(&client, "second").await;
    ask().await;
    tokio::time::sleep(Duration::from_secs(1)).await; // longer than trials are looked at
    assert_eq!(which(&client).await, "second");
    assert_eq!(item(&client, "versioned").await["refusal"], Value::Null);
}

/// What one host rolls back, by hand or by itself, every other that has the package rolls back too.
#[tokio::test]
async fn a_roll_back_reaches_every_host() {
    let (host, here) = upgraded().await;
    let beside = host.beside().plugins(plugins()).start().await;
    let there = (**beside.owner().await).clone();
    beside.plugins().put("versioned", &version("1.1.0", "second"));
    answers(&there, "second").await;
    let load = Load::start(&beside, &[WHICH], CLIENTS).await;
    roll_back(&here, Value::Null).await;
    let took = answers(&there, "first").await;
    println!("the other host went back after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    load.stop_without_failure().await;
}

/// What cannot be read when the worker comes back after a crash costs nobody the plugin that served.
#[tokio::test]
async fn after_a_crash_what_served_serves_again_whatever_lies_in_the_folder() {
    let (host, client) = upgraded().await;
    let broken: Package = version("1.2.0", "third").library(|library| Some(library[..library.len() / 2].to_vec()));
    host.plugins().put("versioned", &broken);
    rescan(&client).await;
    assert_eq!(which(&client).await, "second");
    let worker = host.worker_pid();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    serves_again(&client).await;
    assert_eq!(which(&client).await, "second");
    assert_eq!(item(&client, "versioned").await["refusal"]["code"], "truncated");
}

/// What hangs turns out to be no good long after the scan that found it.
#[tokio::test]
async fn after_a_crash_what_served_serves_again_beside_a_package_that_hangs() {
    let (host, client) = upgraded().await;
    host.plugins().put("versioned", &version("1.2.0", "third").marked("acts", "stay"));
    let is_refused = async || {
        let report = item(&client, "versioned").await;
        (report["refusal"]["code"] == "create-failed").then_some(report)
    };
    eventually("it is refused", is_refused).await;
    assert_eq!(which(&client).await, "second");
    kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::KILL).unwrap();
    serves_again(&client).await;
    assert_eq!(which(&client).await, "second");
    let report = eventually("it is refused again", is_refused).await;
    assert_eq!((serves(&report), waits(&report)), (("active", "1.1.0"), ("1.2.0", "create-failed")), "{report}");
}

#[tokio::test]
async fn generations_are_counted_and_let_go() {
    let (host, client) = upgraded().await;
    for (number, says) in ["third", "fourth"].into_iter().enumerate() {
        host.plugins().put("versioned", &version(&format!("1.{}.0", number + 2), says));
        rescan(&client).await;
    }
    let report = eventually("the old ones are let go", async || {
        let report = item(&client, "versioned").await;
        let old = &report["generations"].as_array().unwrap()[1..];
        let over = old.iter().all(|it| it["state"] == "retired" && it["freed"] == true && it["threads"] == 0);
        over.then_some(report)
    })
    .await;
    let generations = report["generations"].as_array().unwrap();
    assert_eq!(generations.len(), 4, "{report}");
    assert_eq!((&generations[0]["state"], &generations[0]["version"]), (&json!("active"), &json!("1.3.0")));
    for generation in generations {
        assert!(generation["library_bytes"].as_u64() > Some(100_000), "{generation}");
        assert!(generation["memory_bytes"].is_u64(), "{generation}");
    }
    assert!(report["threads"].as_u64() <= Some(6), "{report}");
}
