//! Contract 5.3: packages come, change and go while the host serves, and no request fails for it.

mod back;
mod load;
mod soak;

use std::path::Path;
use std::time::{Duration, Instant};

use cardinal_tests::{Client, Host, Package, PluginsFolder, eventually};
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

use self::load::Load;

const WHICH: &str = "/v1/admin/plugins/versioned/which";
/// Takes longer than a busy machine to see that it is under way.
const SLOW: &str = "/v1/admin/plugins/versioned/slow?ms=3000";
const NOTES: &str = "/v1/admin/plugins/versioned/notes";
const CORE: &str = "/v1/admin/auth/me";
const OTHER: &str = "/v1/admin/plugins/quick/hello";
/// Clients of one target.
const CLIENTS: usize = 3;
/// Requests that are answered between two changes.
const BETWEEN: usize = 60;
/// Longer than a change in the folder is waited for.
const WAITED_FOR: Duration = Duration::from_millis(1_500);

/// `versioned` as another version, which says `says`.
pub(super) fn version(version: &str, says: &str) -> Package {
    Package::fixture("versioned").version(version).marked("says", says)
}

fn plugins() -> PluginsFolder {
    PluginsFolder::default().with("versioned", &version("1.0.0", "first")).with("quick", &Package::fixture("quick"))
}

async fn item(client: &Client, plugin: &str) -> Value {
    client.get(&format!("/v1/admin/plugin-registry/{plugin}")).await.expect(200)["item"].take()
}

/// Which version answers.
async fn which(client: &Client) -> String {
    client.get(WHICH).await.expect(200)["version"].as_str().unwrap().to_owned()
}

/// Waits until this version answers; how long that took.
async fn answers(client: &Client, says: &str) -> Duration {
    let begun = Instant::now();
    eventually(says, async || (which(client).await == says).then_some(())).await;
    begun.elapsed()
}

#[tokio::test]
async fn a_package_that_changes_takes_effect_by_itself_and_no_request_fails() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    let load = Load::start(&host, &[WHICH, SLOW, NOTES, CORE, OTHER], CLIENTS).await;
    load.more(BETWEEN).await;
    for (number, says) in ["second", "third", "fourth", "fifth"].into_iter().enumerate() {
        let package = version(&format!("1.{}.0", number + 1), says);
        match number % 2 {
            0 => host.plugins().put("versioned", &package),
            _ => host.plugins().copy_over("versioned", &package),
        }
        println!("{says} answers after {:?}", answers(&client, says).await);
        load.more(BETWEEN).await;
    }
    for (target, tally) in load.stop_without_failure().await {
        println!("{target}: {} requests, {:?}", tally.sent, tally.versions);
    }
    let report = item(&client, "versioned").await;
    assert_eq!((&report["state"], &report["version"]), (&json!("active"), &json!("1.4.0")), "{report}");
}

#[tokio::test]
async fn a_request_ends_on_the_generation_that_it_began_on() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    let under_way: Vec<_> = (0..4).map(|_| tokio::spawn(client.call(Method::GET, SLOW).try_send())).collect();
    host.calls_under_way("versioned", 4).await;
    host.plugins().put("versioned", &version("1.1.0", "second"));
    client.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    assert_eq!(which(&client).await, "second");
    for call in under_way {
        assert_eq!(call.await.unwrap().unwrap().expect(200)["version"], "first");
    }
}

/// A page that is open knows the addresses that it was given, and loads some of them late.
#[tokio::test]
async fn frontend_files_of_the_version_before_are_there_for_pages_that_are_open() {
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).start().await;
    let client = (**host.owner().await).clone();
    let shown = async || {
        let plugins = client.get("/v1/admin/plugins").await.expect(200);
        plugins["items"][0]["frontend"]["main_url"].as_str().unwrap().to_owned()
    };
    let file = host.plugins().path().join("echo/frontend/plugin.js");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut given = vec![shown().await];
    for number in 1..=2 {
        std::fs::write(&file, format!("{text}// {number}\n")).unwrap();
        client.post("/v1/admin/plugin-registry/rescan", &json!({})).await.expect(200);
        let next = eventually("new addresses", async || Some(shown().await).filter(|it| !given.contains(it))).await;
        given.push(next);
        client.post("/v1/admin/plugin-registry/echo/reload", &json!({})).await.expect(200);
        let there: Vec<u16> = join_all(given.iter().map(async |it| client.get(it).await.status.as_u16())).await;
        let expected: &[u16] = if number == 1 { &[200, 200] } else { &[404, 200, 200] };
        assert_eq!(there, expected);
    }
    assert_eq!(client.get(&given[1]).await.text(), format!("{text}// 1\n"));
    client.post("/v1/admin/plugin-registry/echo/disable", &json!({})).await.expect(200);
    client.get(&given[1]).await.refused(404, "not-found");
}

#[tokio::test]
async fn a_new_package_gets_into_service_and_a_removed_one_leaves_it() {
    let host =
        Host::settings().plugins(PluginsFolder::default().with("quick", &Package::fixture("quick"))).start().await;
    let client = (**host.owner().await).clone();
    client.get(WHICH).await.refused(404, "not-found");
    host.plugins().put("versioned", &version("1.0.0", "first"));
    eventually("it serves", async || (client.get(WHICH).await.status == 200).then_some(())).await;
    client.call(Method::POST, NOTES).send().await.expect(201);

    let load = Load::start(&host, &[CORE, OTHER], CLIENTS).await;
    let slow = tokio::spawn(client.call(Method::GET, SLOW).try_send());
    host.calls_under_way("versioned", 1).await;
    host.plugins().remove("versioned");
    client.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    client.get(WHICH).await.refused(404, "not-found");
    assert_eq!(slow.await.unwrap().unwrap().expect(200)["version"], "first", "it was drained");
    let report = item(&client, "versioned").await;
    assert_eq!(report["state"], "retired", "{report}");
    assert!(report["reason"].as_str().is_some_and(|reason| reason.contains("data is kept")), "{report}");
    let ui = client.get("/v1/admin/plugins").await.expect(200);
    assert!(ui["items"].as_array().unwrap().iter().all(|plugin| plugin["name"] != "versioned"), "{ui}");
    load.stop_without_failure().await;

    host.plugins().put("versioned", &version("1.0.0", "again"));
    eventually("it is back", async || (client.get(WHICH).await.status == 200).then_some(())).await;
    assert_eq!(client.get(NOTES).await.expect(200)["notes"], 1, "its data stayed");
    host.plugins().remove("versioned");
    eventually("it leaves by itself", async || (client.get(WHICH).await.status == 404).then_some(())).await;
}

/// Replacing a folder by removing it and copying the new one is one change.
#[tokio::test]
async fn what_is_gone_for_a_moment_stays_in_service() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    let load = Load::start(&host, &[WHICH], CLIENTS).await;
    // Written before, and moved: nothing but the wait lies between.
    let folder = host.plugins().path();
    let (place, gone, next) = (folder.join("versioned"), folder.join(".gone"), folder.join(".next"));
    version("1.1.0", "second").write(&next);
    std::fs::rename(&place, &gone).unwrap();
    tokio::time::sleep(WAITED_FOR).await; // shorter than what is gone is waited for
    std::fs::rename(&next, &place).unwrap();
    answers(&client, "second").await;
    load.stop_without_failure().await;
}

#[tokio::test]
async fn a_package_under_another_name_takes_the_place_of_its_plugins_old_one() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    let load = Load::start(&host, &[WHICH, OTHER], CLIENTS).await;
    host.plugins().put("versioned-1.1", &version("1.1.0", "second"));
    let refused = eventually("both are judged", async || {
        let all = client.get("/v1/admin/plugin-registry").await.expect(200);
        let item = all["items"].as_array().unwrap().iter().find(|item| item["package"] == "versioned-1.1")?;
        (!item["refusal"].is_null()).then(|| item.clone())
    })
    .await;
    assert_eq!(refused["refusal"]["code"], "duplicate-name", "{refused}");
    assert_eq!(which(&client).await, "first");
    host.plugins().remove("versioned");
    answers(&client, "second").await;
    load.stop_without_failure().await;
    assert_eq!(item(&client, "versioned").await["package"], "versioned-1.1");
}

/// Writes a file in pieces, as a slow copy does, and gives the host every chance to take half of it.
async fn trickle(file: &Path, bytes: &[u8], pieces: usize) {
    for end in (1..=pieces).map(|piece| bytes.len() * piece / pieces) {
        std::fs::write(file, &bytes[..end]).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
        tokio::time::sleep(WAITED_FOR).await; // the copy stands still
    }
}

/// Asks again and again, for as long as it is waited for.
async fn until<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = found().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_library_that_is_still_being_copied_is_waited_for() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    let load = Load::start(&host, &[WHICH, OTHER], CLIENTS).await;
    let whole = version("1.0.0", "second");
    // A new plugin is one file; nothing of it is refused while it comes.
    let new = Package::fixture("echo");
    let (old, echo) = (host.plugins().path().join("versioned/libplugin.so"), host.plugins().path().join("echo.so"));
    let is_refused = async || {
        let all = client.get("/v1/admin/plugin-registry").await.expect(200);
        let refused = |item: &&Value| !item["refusal"].is_null();
        all["items"].as_array().unwrap().iter().find(refused).cloned()
    };
    tokio::select! {
        _ = async { tokio::join!(trickle(&old, whole.bytes(), 3), trickle(&echo, new.bytes(), 3)) } => {}
        refused = until(is_refused) => panic!("refused while it was copied: {refused}"),
    }
    answers(&client, "second").await;
    eventually("the new one serves", async || {
        (client.get("/v1/admin/plugins/echo/hello").await.status == 200).then_some(())
    })
    .await;
    load.stop_without_failure().await;
}

#[tokio::test]
async fn what_is_broken_is_refused_beside_what_serves_and_says_why() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    let load = Load::start(&host, &[WHICH, OTHER, CORE], CLIENTS).await;
    let good = version("1.1.0", "second");
    let half = |library: Vec<u8>| Some(library[..library.len() / 2].to_vec());
    let broken: [(&str, Package); 5] = [
        ("truncated", version("1.1.0", "second").library(half)),
        ("bad-manifest", version("1.1.0", "second").manifest_text("{\"name\": \"versioned\"")),
        ("manifest-mismatch", version("1.1.0", "second").manifest(|manifest| manifest["version"] = "1.2.0".into())),
        ("schema-failed", version("1.1.0", "second").schema("CREATE TABLE IF NOT EXISTS broken (")),
        ("core-out-of-range", {
            let range = |manifest: &mut Value| manifest["engine"]["core_version"] = ">=9.0.0".into();
            version("1.1.0", "second").manifest(range)
        }),
    ];
    for (code, package) in broken {
        host.plugins().put("versioned", &package);
        let report = eventually(code, async || {
            let report = item(&client, "versioned").await;
            (report["refusal"]["code"] == code).then_some(report)
        })
        .await;
        assert_eq!((&report["state"], &report["version"]), (&json!("active"), &json!("1.0.0")), "{report}");
        assert!(report["reason"].is_string() && report["refusal"]["fix"].is_string(), "{report}");
        assert_eq!(which(&client).await, "first");
    }
    host.plugins().put("versioned", &good);
    answers(&client, "second").await;
    load.stop_without_failure().await;
}

#[tokio::test]
async fn disabling_one_plugin_costs_the_others_nothing() {
    let host = Host::settings().plugins(plugins()).start().await;
    let client = (**host.owner().await).clone();
    let load = Load::start(&host, &[CORE, OTHER], CLIENTS).await;
    let verb = async |verb: &str| {
        let answer = client.post(&format!("/v1/admin/plugin-registry/versioned/{verb}"), &Value::Null).await;
        answer.expect(200)["item"]["state"].take()
    };
    for _ in 0..5 {
        assert_eq!(verb("disable").await, "disabled");
        client.get(WHICH).await.refused(503, "plugin-unavailable");
        assert_eq!(verb("enable").await, "active");
        assert_eq!(which(&client).await, "first");
    }
    load.stop_without_failure().await;
}

/// What one host is told reaches the other within five seconds.
#[tokio::test]
async fn what_an_operator_decides_on_one_host_holds_on_every_other() {
    let host = Host::settings().plugins(plugins()).start().await;
    let beside = host.beside().plugins(plugins()).start().await;
    let (here, there) = ((**host.owner().await).clone(), (**beside.owner().await).clone());
    let verb = async |verb: &str| {
        here.post(&format!("/v1/admin/plugin-registry/versioned/{verb}"), &Value::Null).await.expect(200);
        Instant::now()
    };
    for (act, status) in [("disable", 503), ("enable", 200), ("disable", 503)] {
        let told = verb(act).await;
        eventually(act, async || (there.get(WHICH).await.status == status).then_some(())).await;
        println!("{act} reached the other host within {:?}", told.elapsed());
        assert!(told.elapsed() < Duration::from_secs(5), "{act}: {:?}", told.elapsed());
    }
    assert_eq!(item(&there, "versioned").await["state"], "disabled");
}
