//! Getting back in: accounts and keys by the commands of the host's own machine, with the host running and stopped, and the
//! password of the first start.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cardinal_tests::{
    Host, OWNER, OWNER_PASSWORD, PluginsFolder, User, cardinal, cardinal_on, cardinal_program, cardinal_with,
    eventually, exited,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const NEW_PASSWORD: &str = "a new way in";

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&exited(output, 0).0).unwrap()
}

async fn small() -> Host {
    Host::settings().plugins(PluginsFolder::default()).start().await
}

async fn stop(host: &mut Host) {
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success(), "{}", host.log());
}

fn password_file(host: &Host) -> String {
    let file = host.data().join("new-password");
    std::fs::write(&file, format!("{NEW_PASSWORD}\nnot this line\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_lost_password_is_set_beside_a_running_host_and_ends_the_logins() {
    let host = small().await;
    let lost = User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
    let id = lost.id.to_string();
    let (out, _) =
        exited(&cardinal_on(&host, &["user", "set-password", OWNER, "--password-file", &password_file(&host)]), 0);
    assert!(out.contains(OWNER) && !out.contains(NEW_PASSWORD), "{out}");
    let wrong = json!({"username": OWNER, "password": OWNER_PASSWORD});
    host.client().post("/v1/admin/auth/login", &wrong).await.refused(401, "invalid-credentials");
    eventually("the old login is over", async || (lost.get("/v1/admin/auth/me").await.status == 401).then_some(()))
        .await;
    let back = User::log_in(&host.client(), OWNER, NEW_PASSWORD).await;
    let line = &back.get("/v1/admin/audit?action=user.update").await.expect(200)["items"][0];
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(line["actor"], json!({"kind": "local", "id": null, "name": format!("uid {uid}")}), "{line}");
    assert_eq!((&line["target"], &line["ip"], &line["detail"]["password"]), (&json!(id), &Value::Null, &json!("set")));
    assert!(!line.to_string().contains(NEW_PASSWORD), "{line}");
}

#[tokio::test]
async fn accounts_are_managed_while_the_host_is_stopped() {
    let mut host = small().await;
    stop(&mut host).await;
    let made = json_of(&cardinal_on(&host, &["user", "create", "alice", "--role", "admin", "--generate", "--json"]));
    let password = made["password"].as_str().unwrap().to_owned();
    assert_eq!((&made["item"]["username"], &made["item"]["role"]), (&json!("alice"), &json!("admin")), "{made}");
    let id = made["item"]["id"].as_str().unwrap().to_owned();
    let listed = json_of(&cardinal_on(&host, &["user", "list", "--json"]));
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().filter_map(|it| it["username"].as_str()).collect();
    assert!(names.contains(&"alice") && names.contains(&OWNER), "{listed}");
    let (out, _) = exited(&cardinal_on(&host, &["user", "set-role", "ALICE", "editor"]), 0);
    assert!(out.contains("alice is editor now"), "{out}");
    exited(&cardinal_on(&host, &["user", "disable", &id]), 0);
    let (out, _) = exited(&cardinal_on(&host, &["user", "list"]), 0);
    assert!(
        out.lines().any(|line| line.starts_with("alice") && line.contains("disabled") && line.contains(&id)),
        "{out}"
    );
    // A generated password is standard output, alone.
    let (out, err) = exited(&cardinal_on(&host, &["user", "set-password", "alice", "--generate"]), 0);
    assert!(out.trim().len() == 24 && out.trim() != password, "{out}");
    assert!(err.contains("cardinal user enable alice"), "{err}");
    let password = out.trim().to_owned();
    assert_eq!(json_of(&cardinal_on(&host, &["user", "enable", "alice", "--json"]))["item"]["disabled"], false);
    let host = host.again(|settings| settings).await;
    let alice = User::log_in(&host.client(), "alice", &password).await;
    assert_eq!(alice.id.to_string(), id);
    let acts = host.owner().await.get(&format!("/v1/admin/audit?target={id}")).await.expect(200);
    let acts: Vec<&str> = acts["items"].as_array().unwrap().iter().filter_map(|it| it["action"].as_str()).collect();
    assert_eq!(acts, ["user.update", "user.update", "user.update", "user.update", "user.create"]);
}

#[tokio::test]
async fn what_cannot_be_done_says_why_and_changes_nothing() {
    let host = small().await;
    let file = password_file(&host);
    for (arguments, code, told) in [
        (vec!["user", "disable", OWNER], 1, "the last owner"),
        (vec!["user", "set-role", OWNER, "viewer"], 1, "the last owner"),
        (vec!["user", "set-role", OWNER, "onwer"], 64, "owner"),
        (vec!["user", "set-password", "nobody", "--generate"], 1, "cardinal user list"),
        (vec!["user", "set-password", "nobody\u{1b}[2J", "--generate"], 1, "there is no account"),
        (vec!["user", "create", OWNER, "--generate"], 1, "Another account has this username"),
        (vec!["user", "create", "mpk_x", "--generate"], 1, "must not begin like a key"),
        (vec!["user", "create", "bob", "--password-file", "/no/such/file"], 1, "/no/such/file"),
        (vec!["user", "create", "bob", "--password-file", &file, "--generate"], 64, "cannot be used with"),
        // Never as an argument.
        (vec!["user", "set-password", OWNER, "a secret word"], 64, "unexpected argument"),
        (vec!["user", "set-password", OWNER, "--password", "a secret word"], 64, "unexpected argument"),
    ] {
        let (out, err) = exited(&cardinal_on(&host, &arguments), code);
        assert!(out.is_empty() && err.contains(told) && !err.contains('\u{1b}'), "{arguments:?}: {err}");
    }
    let short = host.data().join("short");
    std::fs::write(&short, "1234567\n").unwrap();
    let arguments = ["user", "set-password", OWNER, "--password-file", short.to_str().unwrap()];
    assert!(exited(&cardinal_on(&host, &arguments), 1).1.contains("8 to 256 bytes"));
    User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let (_, err) = exited(&cardinal(["user", "list", "--data-dir", elsewhere.path().to_str().unwrap()]), 1);
    assert!(err.contains("there is no database in DATA_DIR"), "{err}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "a list makes nothing");
}

/// Runs it in a session without a terminal, with this standard input.
fn without_terminal(host: &Host, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(cardinal_program()).args(arguments).args(["--data-dir", host.data().to_str().unwrap()]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // One that does not read it has closed it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[tokio::test]
async fn a_password_comes_from_standard_input_where_that_is_said() {
    let host = small().await;
    let arguments = ["user", "set-password", OWNER];
    let (_, err) = exited(&without_terminal(&host, &arguments, "ignored password\n"), 64);
    assert!(err.contains("--password-file") && err.contains("--generate"), "{err}");
    User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
    let arguments = ["user", "set-password", OWNER, "--password-file", "-"];
    exited(&without_terminal(&host, &arguments, &format!("{NEW_PASSWORD}\n")), 0);
    User::log_in(&host.client(), OWNER, NEW_PASSWORD).await;
}

#[tokio::test]
async fn keys_are_listed_rotated_and_revoked_with_the_host_running_and_stopped() {
    let mut host = small().await;
    let owner = host.owner().await;
    let other = owner.make_user("admin").await;
    let theirs = other.make_key(json!({"name": "theirs", "scopes": ["cards:read"]})).await;
    let first = owner.make_key(json!({"name": "ci", "scopes": ["cards:read", "keys:write"]})).await;
    let bearer = |key: &str| host.client().bearer(key);
    let child = bearer(first["key"].as_str().unwrap());
    let child = child.post("/v1/admin/api-keys", &json!({"name": "child", "scopes": ["cards:read"]})).await.expect(201);
    // Somebody else's key, too: who has the machine has its keys.
    let (out, _) = exited(&cardinal_on(&host, &["key", "rotate", "theirs"]), 0);
    let successor = out.strip_suffix('\n').unwrap().to_owned();
    assert!(successor.len() == 50 && successor.starts_with("mpk_"), "{out:?}");
    bearer(&successor).get("/v1/admin/master-cards").await.expect(200);
    let old = bearer(theirs["key"].as_str().unwrap());
    eventually("the old key is over", async || (old.get("/v1/admin/auth/me").await.status == 401).then_some(())).await;
    let (out, _) = exited(&cardinal_on(&host, &["key", "list"]), 0);
    let state = |name: &str, state: &str| out.lines().filter(|it| it.starts_with(name) && it.contains(state)).count();
    assert_eq!((state("theirs", "active"), state("theirs", "revoked"), state("child", "active")), (1, 1, 1), "{out}");
    assert!(!out.contains(&successor), "a key is never listed: {out}");
    for (arguments, told) in [
        (vec!["key", "rotate", theirs["item"]["id"].as_str().unwrap()], "revoked or expired"),
        (vec!["key", "revoke", "none"], "cardinal key list"),
    ] {
        assert!(exited(&cardinal_on(&host, &arguments), 1).1.contains(told));
    }
    exited(&cardinal_on(&host, &["key", "rotate", "child", "--overlap-seconds", "604801"]), 64);
    // A key is told by its id or its name, and is not printed again where somebody types it all the same.
    for (arguments, code) in [(vec!["key", "revoke", &successor], 1), (vec!["key", "list", "--key", &successor], 64)] {
        let (_, err) = exited(&cardinal_on(&host, &arguments), code);
        assert!(err.contains("never an argument") && err.contains("revoke") && !err.contains(&successor), "{err}");
    }
    stop(&mut host).await;
    let revoked = json_of(&cardinal_on(&host, &["key", "revoke", "ci", "--json"]));
    assert!(revoked["item"]["revoked_at"].is_string(), "{revoked}");
    let listed = json_of(&cardinal_on(&host, &["key", "list", "--json"]));
    let item = |id: &Value| listed["items"].as_array().unwrap().iter().find(|it| it["id"] == *id).unwrap().clone();
    assert_eq!(item(&child["item"]["id"])["revoked_reason"], "its maker was revoked", "{listed}");
    let host = host.again(|settings| settings).await;
    host.client().bearer(child["key"].as_str().unwrap()).get("/v1/admin/auth/me").await.refused(401, "revoked-token");
    let acts = host.owner().await.get("/v1/admin/audit?action=api_key.revoke").await.expect(200);
    let kinds: Vec<&Value> = acts["items"].as_array().unwrap().iter().map(|it| &it["actor"]["kind"]).collect();
    assert_eq!(kinds, [&json!("local"), &json!("local")], "{acts}");
}

#[tokio::test]
async fn keys_elsewhere_are_managed_by_address_and_key() {
    let host = Host::shared().await;
    let manager = host.owner().await.make_user("admin").await;
    let key = manager.key(&["keys:*", "cards:read"]).await;
    manager.make_key(json!({"name": "one of mine", "scopes": ["cards:read"]})).await;
    manager.make_key(json!({"name": "assistant", "scopes": ["cards:read"], "mcp_only": true})).await;
    let url = host.url();
    let by_key = |arguments: &[&str]| {
        cardinal_with(arguments.iter().copied().chain(["--url", &url]), &[("CARDINAL_API_KEY", key.token.as_str())])
    };
    let listed = json_of(&by_key(&["key", "list", "--json"]));
    let owners: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|it| &it["owner_id"]).collect();
    assert!(owners.iter().all(|owner| **owner == json!(manager.id)) && owners.len() == 3, "{listed}");
    let (out, _) = exited(&by_key(&["key", "rotate", "one of mine", "--overlap-seconds", "60"]), 0);
    host.client().bearer(out.trim()).get("/v1/admin/auth/me").await.expect(200);
    let (out, _) = exited(&by_key(&["key", "list"]), 0);
    let good_for = |name: &str, what: &str| out.lines().filter(|it| it.starts_with(name) && it.contains(what)).count();
    assert_eq!((good_for("one of mine", " all "), good_for("assistant", " MCP ")), (2, 1), "{out}");
    let (_, err) = exited(&by_key(&["key", "revoke", "one of mine"]), 1);
    assert!(err.contains("2 active API keys"), "{err}");
    let (_, err) = exited(&cardinal_with(["key", "list", "--url", &url], &[("CARDINAL_API_KEY", "mpk_wrong")]), 77);
    assert_eq!(err.matches("The credential is not valid").count(), 1, "{err}");
}

/// What follows the banner of the host's start number `start`; the log goes on over restarts.
async fn announced(host: &Host, start: usize) -> String {
    eventually("the banner", async || {
        let log = host.log();
        log.split("Cardinal is ready.").nth(start).filter(|text| text.contains("MCP ")).map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn the_first_password_is_named_as_long_as_it_is_good() {
    let settings = Host::settings().plugins(PluginsFolder::default());
    let settings = settings.set("ADMIN_BOOTSTRAP_USERNAME", "admin").set("ADMIN_BOOTSTRAP_PASSWORD", "");
    let host = settings.start().await;
    let file = host.data().join("bootstrap-password");
    let first = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    let names_it = |text: &str| text.contains("First login") && text.contains(file.to_str().unwrap());
    assert!(names_it(&announced(&host, 1).await), "{}", host.log());
    let host = host.restart(|settings| settings).await;
    assert!(names_it(&announced(&host, 2).await), "it is still good: {}", host.log());
    // Another's password changes nothing about it.
    let admin = User::log_in(&host.client(), "admin", &first).await;
    let other = admin.make_user("editor").await;
    let path = format!("/v1/admin/users/{}", other.id);
    admin.patch(&path, &json!({"password": NEW_PASSWORD})).await.expect(200);
    admin.patch("/v1/admin/users/not-an-id", &json!({"password": NEW_PASSWORD})).await.refused(404, "not-found");
    let change = json!({"current_password": first, "new_password": NEW_PASSWORD});
    assert!(file.exists());
    admin.post("/v1/admin/auth/password", &change).await.expect(204);
    eventually("the file is gone", async || (!file.exists()).then_some(())).await;
    let host = host.restart(|settings| settings).await;
    assert!(!announced(&host, 3).await.contains("First login"), "{}", host.log());
    // A setting that is not the password is not called one.
    let host = host.restart(|settings| settings.set("ADMIN_BOOTSTRAP_PASSWORD", "set too late")).await;
    assert!(!announced(&host, 4).await.contains("First login"), "{}", host.log());
}

#[tokio::test]
async fn a_first_password_that_a_command_replaces_goes_too() {
    let settings = Host::settings().plugins(PluginsFolder::default()).set("ADMIN_BOOTSTRAP_PASSWORD", "");
    let mut host = settings.start().await;
    let file = host.data().join("bootstrap-password");
    assert!(file.exists());
    stop(&mut host).await;
    exited(&cardinal_on(&host, &["user", "set-password", OWNER, "--generate"]), 0);
    assert!(!file.exists());
}

#[tokio::test]
async fn secrets_that_everybody_can_read_end_the_start() {
    let mut host = small().await;
    stop(&mut host).await;
    let mode = |file: &Path, mode| std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    let own = host.data().join("token-secret");
    mode(&own, 0o604);
    let named = host.data().join("named");
    std::fs::write(&named, "0123456789012345678901234567890123456789").unwrap();
    mode(&named, 0o644);
    let mut refused = Host::settings().set("DATA_DIR", host.data().to_str().unwrap());
    refused = refused.set("ADMIN_TOKEN_SECRET_FILE", named.to_str().unwrap());
    let mut refused = refused.launch();
    assert_eq!(refused.program().ended().await.code(), Some(64), "{}", refused.log());
    let log = refused.log();
    for told in ["ADMIN_TOKEN_SECRET_FILE", "DATA_DIR", "token-secret'", "named'", "chmod 0600"] {
        assert!(log.contains(told), "{told}: {log}");
    }
    mode(&own, 0o600);
    mode(&named, 0o640);
    let file = named.to_str().unwrap().to_owned();
    let host = host.again(|settings| settings.set("ADMIN_TOKEN_SECRET_FILE", file)).await;
    assert!(host.log().contains("can be read by its group"), "{}", host.log());
}
