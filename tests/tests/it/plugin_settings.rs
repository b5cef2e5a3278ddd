//! Contract 5.3: what operators set for a plugin. In force without a restart and on every host, held against the plugin's
//! schema; secrets go in and never come out.

use std::{
    collections::HashSet,
    fs::File,
    os::unix::process::CommandExt as _,
    process::Command,
    time::{Duration, Instant},
};

use cardinal_tests::{Answer, Host, Package, PluginsFolder, User, eventually};
use http::Method;
use serde_json::{Value, json};

const SETTINGS: &str = "/v1/admin/plugin-registry/echo/settings";
const ONE_SECRET: &str = "one secret for the logins on all hosts";
/// The contract's bound is five seconds; the machine is shared.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(7);
const PASSWORD: &str = "hunter2-of-the-settings";

/// `echo`, which greets with its setting `greeting`; here also with secrets of several shapes.
fn schema() -> Value {
    let secret = json!({"type": "string", "writeOnly": true, "minLength": 3});
    json!({
        "type": "object",
        "properties": {
            "greeting": {"type": "string", "default": "hello", "maxLength": 100},
            "token": secret,
            "smtp": {"type": "object", "properties": {"host": {"type": "string"}, "password": {"$ref": "#/$defs/secret"}}},
            "keys": {"type": "array", "items": {"type": "object", "properties": {"key": secret}}},
        },
        "additionalProperties": false,
        "$defs": {"secret": secret},
    })
}

fn echo(schema: Value) -> Package {
    Package::fixture("echo").manifest(move |manifest| manifest["settings_schema"] = schema)
}

fn folder(schema: Value) -> PluginsFolder {
    PluginsFolder::default().with("echo", &echo(schema))
}

async fn put(user: &User, settings: &Value) -> Answer {
    user.call(Method::PUT, SETTINGS).json(settings).send().await
}

async fn greeting(user: &User) -> String {
    user.get("/v1/admin/plugins/echo/hello").await.expect(200)["greeting"].as_str().unwrap().to_owned()
}

/// Every pointer that a refusal names.
fn pointers(problem: &Value) -> Vec<String> {
    let errors = problem["errors"].as_array().unwrap();
    errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn settings_lie_in_layers_and_are_in_force_without_a_restart() {
    let settings = Host::settings().plugins(folder(schema()));
    let host = settings.set("PLUGIN_SETTINGS_ECHO", json!({"smtp": {"host": "mail"}}).to_string()).start().await;
    let owner = host.owner().await;
    let shown = owner.get(SETTINGS).await;
    assert_eq!(shown.header("etag"), Some("\"0\""));
    let shown = shown.expect(200);
    assert_eq!(shown["settings"], json!({"greeting": "hello", "smtp": {"host": "mail"}}));
    assert_eq!((&shown["stored"], &shown["defaults"]), (&json!({}), &json!({"greeting": "hello"})));
    assert_eq!(shown["environment"], json!({"smtp": {"host": "mail"}}));
    assert_eq!((&shown["schema"], &shown["version"], &shown["name"]), (&schema(), &json!(0), &json!("echo")));

    let generation =
        || async { owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"]["generation"].clone() };
    let before = generation().await;
    let answer = put(owner, &json!({"greeting": "good day"})).await;
    assert_eq!(answer.header("etag"), Some("\"1\""));
    let set = answer.expect(200);
    assert_eq!(set["settings"], json!({"greeting": "good day", "smtp": {"host": "mail"}}));
    assert_eq!(set["stored"], json!({"greeting": "good day"}));
    assert_eq!(greeting(owner).await, "good day");
    assert_ne!(generation().await, before, "another generation of the plugin");

    // The same again is no change.
    let generation_now = generation().await;
    assert_eq!(put(owner, &json!({"greeting": "good day"})).await.expect(200)["version"], 1);
    assert_eq!(generation().await, generation_now);

    // What is not sent is not stored any more.
    assert_eq!(put(owner, &json!({})).await.expect(200)["settings"]["greeting"], "hello");
    assert_eq!(greeting(owner).await, "hello");

    let host = host.restart(|settings| settings).await;
    let owner = host.owner().await;
    assert_eq!(owner.get(SETTINGS).await.expect(200)["version"], 2);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_by_name_and_changes_nothing() {
    let host = Host::settings().plugins(folder(schema())).start().await;
    let owner = host.owner().await;
    put(owner, &json!({"greeting": "kept"})).await.expect(200);
    let refused: &[(Value, &str)] = &[
        (json!({"greeting": 7}), "/greeting"),
        (json!({"greeting": "x".repeat(101)}), "/greeting"),
        (json!({"greting": "typo"}), ""),
        (json!({"smtp": {"host": 1}}), "/smtp/host"),
        (json!({"token": ""}), "/token"),
        (json!({"token": {"set": true}}), "/token"),
        (json!({"token": {"set": false}}), "/token"),
        (json!({"smtp": {"password": {"set": true}}}), "/smtp/password"),
    ];
    for (settings, pointer) in refused {
        let problem = put(owner, settings).await.refused(422, "validation-failed");
        assert_eq!(pointers(&problem), [*pointer], "{settings}: {problem}");
    }
    // Values are not repeated: they may be secrets that were mistyped.
    let answer = put(owner, &json!({"token": {"wrong": PASSWORD}})).await;
    assert!(!answer.text().contains(PASSWORD), "{answer}");
    for body in ["[]", "null", "7", "\"x\""] {
        let call = owner.call(Method::PUT, SETTINGS).body("application/json", body.to_owned());
        call.send().await.refused(422, "validation-failed");
    }
    owner
        .call(Method::PUT, SETTINGS)
        .body("application/json", "{".to_owned())
        .send()
        .await
        .refused(400, "invalid-json");
    let large = json!({"greeting": "x".repeat(300_000)});
    put(owner, &large).await.refused(413, "payload-too-large");
    let deep = format!("{}1{}", "{\"smtp\":".repeat(200), "}".repeat(200));
    let deep = owner.call(Method::PUT, SETTINGS).body("application/json", deep).send().await;
    assert!([400, 422].contains(&deep.status.as_u16()), "{deep}");
    owner.get(&format!("{SETTINGS}?x=1")).await.refused(400, "invalid-request");
    owner.get("/v1/admin/plugin-registry/nobody/settings").await.refused(404, "not-found");
    owner
        .call(Method::PUT, "/v1/admin/plugin-registry/nobody/settings")
        .json(&json!({}))
        .send()
        .await
        .refused(404, "not-found");

    // Somebody else was faster.
    let stale = owner.call(Method::PUT, SETTINGS).header("if-match", "\"0\"").json(&json!({"greeting": "stale"}));
    let problem = stale.send().await.refused(412, "version-mismatch");
    assert_eq!(problem["current_version"], 1);
    let reader = owner.make_user("viewer").await;
    reader.get(SETTINGS).await.expect(200);
    put(&reader, &json!({})).await.refused(403, "insufficient-scope");

    assert_eq!(greeting(owner).await, "kept");
    assert_eq!(owner.get(SETTINGS).await.expect(200)["version"], 1);
}

#[tokio::test]
async fn settings_that_the_plugin_itself_refuses_are_not_stored() {
    let host = Host::settings().plugins(folder(schema())).start().await;
    let owner = host.owner().await;
    put(owner, &json!({"greeting": "hi", "token": PASSWORD})).await.expect(200);
    for (refused_greeting, pointer, detail) in
        [("rude", "/greeting", "is rude"), ("panic", "", "there is no such greeting")]
    {
        let refused = put(owner, &json!({"greeting": refused_greeting, "token": {"set": true}})).await;
        refused.refused(422, "validation-failed");
        let error = &refused.json()["errors"][0];
        assert_eq!(error["pointer"], pointer, "{refused}");
        assert!(error["detail"].as_str().unwrap().contains(detail), "{refused}");
        assert!(!refused.text().contains(PASSWORD), "{refused}");
        let shown = owner.get(SETTINGS).await.expect(200);
        assert_eq!((&shown["settings"]["greeting"], &shown["version"]), (&json!("hi"), &json!(1)), "{shown}");
        assert_eq!(greeting(owner).await, "hi");
    }
    // Changes at the same time come one after the other.
    let both = ["one", "two"].map(async |greeting| put(owner, &json!({"greeting": greeting})).await);
    for answer in futures_util::future::join_all(both).await {
        answer.expect(200);
    }
    put(owner, &json!({"greeting": "hi", "token": PASSWORD})).await.expect(200);
    // It serves after a restart, too, and takes what it can use.
    let host = host.restart(|settings| settings).await;
    let owner = host.owner().await;
    assert_eq!(greeting(owner).await, "hi");
    put(owner, &json!({"greeting": "kind"})).await.expect(200);
    assert_eq!(greeting(owner).await, "kind");
}

#[tokio::test]
async fn settings_that_fail_in_service_show_no_secret_and_the_next_ones_are_tried() {
    let host = Host::settings().plugins(folder(schema())).start().await;
    let owner = host.owner().await;
    put(owner, &json!({"greeting": "hi", "token": "such greeting"})).await.expect(200);
    // As if these had passed the trial.
    let row = r#"UPDATE plugin_state SET settings = '{"greeting": "panic"}' WHERE plugin = 'echo'"#;
    host.database().await.execute(row, &[]).await.unwrap();
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    let report = owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].clone();
    let refusal = &report["refusal"];
    assert_eq!((&report["state"], &refusal["code"]), (&json!("active"), &json!("create-panicked")), "{report}");
    assert!(refusal["found"].as_str().unwrap().starts_with("there is no [secret]"), "{report}");
    let message = "a plugin was refused";
    let log = eventually("the log says so", async || Some(host.log()).filter(|log| log.contains(message))).await;
    let refused: Vec<&str> = log.lines().filter(|line| line.contains(message)).collect();
    assert!(refused.iter().all(|line| !line.contains("such greeting")), "{refused:?}");

    // It is the package that serves, so that it can be asked.
    let problem = put(owner, &json!({"greeting": "rude"})).await.refused(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/greeting"]);
    assert_eq!(greeting(owner).await, "hi");
    put(owner, &json!({"greeting": "kind"})).await.expect(200);
    assert_eq!(greeting(owner).await, "kind");
}

/// Looks into every probe that there is, again and again; says of each look what opened, and what can be read there.
const SPY: &str = r#"
while :; do
  for process in /proc/[0-9]*; do
    read name < $process/comm && [ "$name" = cardinal-probes ] || continue
    echo "saw ${process#/proc/}"
    tr '\0' '\n' < $process/cmdline
    for file in environ mem fd/0 fd/1 fd/2 fd/3 fd/4; do
      (: < $process/$file) && { echo "opened $file"; [ $file = environ ] && tr '\0' '\n' < $process/environ; }
    done
  done
done 2>/dev/null"#;

#[tokio::test]
async fn nobody_looks_into_the_process_that_tries_settings_with_secrets() {
    let host = Host::settings().plugins(folder(schema())).start().await;
    let owner = host.owner().await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.worker_pid())).unwrap();
    let id = |line: &str| -> u32 {
        let ids = status.lines().find_map(|it| it.strip_prefix(line)).unwrap();
        ids.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (user, group) = (id("Uid:"), id("Gid:"));
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let mut spy = Command::new("/bin/bash");
    spy.args(["-c", SPY]).stdout(File::create(&seen).unwrap()).uid(user).gid(group);
    let mut spy = spy.spawn().unwrap();
    let mut round = 0;
    // The starter is one of those that are seen.
    let report = eventually("the spy has seen ten probes", async || {
        round += 1;
        put(owner, &json!({"greeting": format!("{round}"), "token": PASSWORD})).await.expect(200);
        let report = std::fs::read_to_string(&seen).unwrap();
        let seen: HashSet<&str> = report.lines().filter(|line| line.starts_with("saw ")).collect();
        (seen.len() > 10).then_some(report)
    });
    let report = report.await;
    spy.kill().unwrap();
    spy.wait().unwrap();
    assert!(!report.contains(PASSWORD) && !report.contains("greeting"), "{report}");
    assert!(!report.contains("opened"), "{report}");
}

#[tokio::test]
async fn a_plugin_without_a_schema_has_no_settings() {
    let plugins = PluginsFolder::default().with(
        "echo",
        &Package::fixture("echo").manifest(|it| drop(it.as_object_mut().unwrap().remove("settings_schema"))),
    );
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    assert_eq!(owner.get(SETTINGS).await.expect(200)["schema"], Value::Null);
    put(owner, &json!({})).await.expect(200);
    let problem = put(owner, &json!({"a": 1})).await.refused(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/a"]);
}

#[tokio::test]
async fn secrets_go_in_and_never_come_out() {
    let mut schema = schema();
    schema["properties"]["greeting"]["writeOnly"] = json!(true);
    let environment = json!({"token": "token-of-the-environment"}).to_string();
    let host = Host::settings()
        .plugins(folder(schema))
        .set("PLUGIN_SETTINGS_ECHO", environment)
        .set("LOG_LEVEL", "trace")
        .start()
        .await;
    let owner = host.owner().await;
    let set = json!({"set": true});
    let secrets = json!({
        "greeting": PASSWORD, "smtp": {"host": "mail", "password": PASSWORD}, "keys": [{"key": PASSWORD}, {"key": PASSWORD}],
    });
    let stored = put(owner, &secrets).await;
    assert!(!stored.text().contains(PASSWORD) && !stored.text().contains("token-of-the-environment"), "{stored}");
    let stored = stored.expect(200);
    let shown = json!({"greeting": set, "token": set, "smtp": {"host": "mail", "password": set}, "keys": set});
    assert_eq!(stored["settings"], shown);
    assert_eq!(stored["environment"], json!({"token": set}));
    assert_eq!(owner.get(SETTINGS).await.expect(200)["settings"], shown);
    assert_eq!(greeting(owner).await, PASSWORD, "the plugin gets what was set");

    // What was read can be sent back, with a change: secrets stay, and what comes from the environment stays there.
    let mut again = shown.clone();
    again["smtp"]["host"] = json!("other");
    let changed = put(owner, &again).await.expect(200);
    assert_eq!(changed["settings"]["smtp"], json!({"host": "other", "password": set}));
    assert_eq!(changed["stored"].get("token"), None);
    assert_eq!(greeting(owner).await, PASSWORD);
    put(owner, &json!({"smtp": {"password": set}})).await.expect(200);
    assert_eq!(greeting(owner).await, "hello", "it was not sent, so it is gone");
    let problem = put(owner, &json!({"greeting": set, "keys": set})).await.refused(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/keys"], "the greeting has a default, and its own value is gone");
    put(owner, &json!({"greeting": PASSWORD, "smtp": {"password": PASSWORD}})).await.expect(200);

    let row = "SELECT settings::text || sealed::text FROM plugin_state WHERE plugin = 'echo'";
    let row: String = host.database().await.query_one(row, &[]).await.unwrap().get(0);
    assert!(row.contains("/smtp/password") && !row.contains(PASSWORD), "{row}");
    let audit = owner.get("/v1/admin/audit?limit=200").await;
    let changes = audit.expect(200);
    let lines: Vec<&Value> =
        changes["items"].as_array().unwrap().iter().filter(|line| line["action"] == "plugin.settings").collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[3]["detail"], json!({"version": 1, "changed": ["greeting", "keys", "smtp"]}));
    for (place, text) in [
        ("the audit log", audit.text()),
        ("the registry", owner.get("/v1/admin/plugin-registry/echo").await.text()),
        ("the settings in force", owner.get("/v1/admin/system").await.text()),
        ("the log", host.log()),
    ] {
        assert!(!text.contains(PASSWORD), "the secret stands in {place}");
    }

    // Rows that were copied from elsewhere open nothing.
    let other = "UPDATE plugin_state SET sealed = jsonb_build_object('/greeting', sealed -> '/smtp/password') \
         WHERE plugin = 'echo'";
    host.database().await.execute(other, &[]).await.unwrap();
    let host = host.restart(|settings| settings).await;
    let owner = host.owner().await;
    let report = owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].clone();
    assert_eq!(report["refusal"]["code"], "settings-invalid", "{report}");
    let shown = owner.get(SETTINGS).await.expect(200);
    assert_eq!((&shown["unreadable"], &shown["settings"]["greeting"]), (&json!(["/greeting"]), &set));
    let problem = put(owner, &json!({"greeting": set})).await.refused(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/greeting"]);
    put(owner, &json!({"greeting": "given again"})).await.expect(200);
    assert_eq!(greeting(owner).await, "given again");
}

#[tokio::test]
async fn settings_reach_every_host_of_the_database() {
    let one = Host::settings().plugins(folder(schema())).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().plugins(folder(schema())).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let owner = one.owner().await;
    let there = User::log_in(&two.client(), cardinal_tests::OWNER, cardinal_tests::OWNER_PASSWORD).await;
    let set = json!({"greeting": "everywhere", "token": PASSWORD});
    put(owner, &set).await.expect(200);
    let begun = Instant::now();
    eventually("the other host greets so, too", async || (greeting(&there).await == "everywhere").then_some(())).await;
    assert!(begun.elapsed() < NOTICE_TIMEOUT, "{:?}", begun.elapsed());
    let report = there.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].clone();
    assert_eq!((&report["state"], &report["refusal"]), (&json!("active"), &Value::Null), "it opened the secret");
    // And back, from the other one.
    put(&there, &json!({"greeting": "and back", "token": {"set": true}})).await.expect(200);
    eventually("the first host greets so, too", async || (greeting(owner).await == "and back").then_some(())).await;
}

#[tokio::test]
async fn a_version_that_does_not_take_the_settings_waits_for_them_while_the_old_one_serves() {
    let host = Host::settings().plugins(folder(schema())).start().await;
    let owner = host.owner().await;
    put(owner, &json!({"greeting": "from the old one"})).await.expect(200);
    let mut stricter = schema();
    stricter["required"] = json!(["endpoint"]);
    stricter["properties"]["endpoint"] = json!({"type": "string"});
    let text = std::fs::read(host.plugins().path().join("echo/manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&text).unwrap();
    manifest["settings_schema"] = stricter;
    std::fs::write(host.plugins().path().join("echo/manifest.json"), manifest.to_string()).unwrap();
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    let report = owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].clone();
    assert_eq!(
        (&report["state"], &report["refusal"]["code"]),
        (&json!("active"), &json!("settings-invalid")),
        "{report}"
    );
    assert_ne!(report["pending"]["sha256"], report["sha256"], "{report}");
    assert_eq!(greeting(owner).await, "from the old one");

    // The settings that the waiting one wants are taken, although the one that serves knows nothing of them.
    put(owner, &json!({"greeting": "x"})).await.refused(422, "validation-failed");
    put(owner, &json!({"greeting": "from the new one", "endpoint": "x"})).await.expect(200);
    assert_eq!(greeting(owner).await, "from the new one");
    let report = owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].clone();
    assert_eq!((&report["refusal"], &report["pending"]), (&Value::Null, &Value::Null), "{report}");
}
