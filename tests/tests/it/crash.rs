//! Contract 8 and issue 6: a plugin that takes the worker down costs what was in flight there and nothing else, is
//! named, and is set aside the second time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cardinal_tests::{Client, Host, Package, PluginsFolder, cardinal, eventually};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const CRASHER: &str = "/v1/admin/plugins/crasher";

fn plugins() -> PluginsFolder {
    PluginsFolder::default()
        .with("crasher", &Package::fixture("crasher"))
        .with("quick", &Package::fixture("quick"))
        .with("echo", &Package::fixture("echo"))
}

/// The host's journal, newest last.
fn journal(host: &Host) -> Vec<Value> {
    let text = std::fs::read(host.data().join("crashes.json")).unwrap_or_else(|_| b"{\"crashes\": []}".to_vec());
    let book: Value = serde_json::from_slice(&text).unwrap();
    book["crashes"].as_array().unwrap().clone()
}

/// Asks for a route that ends the worker; there is no answer, and a journal entry that there was none of before.
async fn crash(host: &Host, route: &str) -> Value {
    let before = journal(host).len();
    let lost = host.owner().await.call(Method::GET, &format!("{CRASHER}{route}")).try_send().await;
    assert!(lost.is_err(), "{route} was answered: {}", lost.unwrap());
    eventually("the crash is written down", async || journal(host).get(before).cloned()).await
}

async fn release(host: &Host) {
    let item = host.owner().await.call(Method::POST, "/v1/admin/plugin-registry/crasher/release").send().await;
    assert_eq!(item.expect(200)["item"]["state"], "active");
}

#[tokio::test]
async fn every_way_to_end_the_worker_is_put_down_to_the_plugin_that_did_it() {
    let host = Host::settings().plugins(plugins()).start().await;
    for (route, cause, handler, has_offset) in [
        ("/segfault", "segfault", true, true),
        ("/abort", "abort", true, false),
        ("/overflow", "stack-overflow", true, true),
        ("/exit", "exit", true, false),
        ("/own-thread/segfault", "segfault", false, true),
        ("/own-thread/abort", "abort", false, true),
        ("/own-thread/overflow", "stack-overflow", false, true),
        ("/io-thread/overflow", "stack-overflow", false, true),
    ] {
        let first = crash(&host, route).await;
        assert_eq!((&first["cause"], &first["plugin"]["name"]), (&cause.into(), &"crasher".into()), "{route}: {first}");
        let named = first["plugin"]["handler"].as_str();
        assert_eq!(named, handler.then_some(format!("GET {route}")).as_deref(), "{route}: {first}");
        assert_eq!(first["plugin"]["offset"].is_string(), has_offset, "{route}: {first}");
        assert_eq!(first["plugin"]["version"], "1.0.0");
        let item = host.plugin("crasher").await;
        assert_eq!((&item["state"], &item["crash"]["cause"]), (&"active".into(), &cause.into()), "once is forgiven");
        assert_eq!(first["plugin"]["sha256"], item["sha256"]);

        crash(&host, route).await;
        let item = host.plugin("crasher").await;
        assert_eq!(item["state"], "quarantined", "{route}: {item}");
        assert_eq!(
            (&item["quarantine"]["crash"]["cause"], &item["quarantine"]["suspected"]),
            (&cause.into(), &false.into())
        );
        assert!(item["reason"].as_str().is_some_and(|reason| reason.contains("ended the worker")), "{item}");
        host.owner().await.get(&format!("{CRASHER}/well")).await.refused(503, "plugin-unavailable");
        assert_eq!(host.plugin("quick").await["state"], "active");
        release(&host).await;
        assert_eq!(host.owner().await.get(&format!("{CRASHER}/well")).await.text(), "well");
    }
    let text = std::fs::read_to_string(host.data().join("crashes.json")).unwrap();
    assert!(!text.contains(&host.owner().await.token) && !text.contains("Bearer"));
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(host.data().join("crashes.json")).unwrap().mode() & 0o777, 0o600);
}

/// What clients saw while something was going on.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    lost: AtomicUsize,
    other: Mutex<Vec<String>>,
}

/// Asks for `target` again and again, on a connection each, until told to stop.
fn ask(client: Client, target: &'static str, seen: Arc<Seen>, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        while !stop.load(Ordering::SeqCst) {
            match client.call(Method::GET, target).try_send().await {
                Ok(answer) if answer.status == 200 => drop(seen.answered.fetch_add(1, Ordering::SeqCst)),
                Ok(answer) => seen.other.lock().unwrap().push(answer.to_string()),
                Err(error) if format!("{error:#}").contains("refused") => {
                    seen.other.lock().unwrap().push(format!("{target}: {error:#}"));
                }
                Err(_) => drop(seen.lost.fetch_add(1, Ordering::SeqCst)),
            }
        }
    })
}

#[tokio::test]
async fn under_load_a_crash_costs_what_was_in_flight_and_nothing_else() {
    const ASKING: usize = 3;
    let host = Host::settings().plugins(plugins()).start().await;
    let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let targets = ["/v1/admin/auth/me", "/v1/admin/plugins/quick/hello", "/v1/admin/plugins/echo/hello"];
    let owner = host.owner().await;
    let asking: Vec<_> =
        targets.iter().map(|target| ask((**owner).clone(), target, Arc::clone(&seen), Arc::clone(&stop))).collect();
    for round in ["first", "second"] {
        let before = seen.answered.load(Ordering::SeqCst);
        eventually("load", async || (seen.answered.load(Ordering::SeqCst) > before + 30).then_some(())).await;
        let begun = Instant::now();
        let lost = owner.call(Method::GET, &format!("{CRASHER}/segfault")).try_send().await;
        assert!(lost.is_err());
        owner.call(Method::GET, "/v1/admin/auth/me").try_send().await.unwrap().expect(200);
        let core = begun.elapsed();
        owner.call(Method::GET, targets[1]).try_send().await.unwrap();
        println!("{round} crash: the core answers after {core:?}, a plugin after {:?}", begun.elapsed());
        assert!(core < Duration::from_secs(5));
    }
    stop.store(true, Ordering::SeqCst);
    for task in asking {
        task.await.unwrap();
    }
    let (answered, lost) = (seen.answered.load(Ordering::SeqCst), seen.lost.load(Ordering::SeqCst));
    println!("{answered} answered, {lost} lost in two crashes with {ASKING} clients asking");
    assert_eq!(*seen.other.lock().unwrap(), Vec::<String>::new(), "refused connections and wrong answers");
    assert!(lost <= 2 * ASKING, "{lost} requests were lost, and {ASKING} at a time were in flight");
    assert_eq!(host.plugin("crasher").await["state"], "quarantined");
    for plugin in ["quick", "echo"] {
        assert_eq!(host.plugin(plugin).await["state"], "active");
    }
    let last = journal(&host).pop().unwrap();
    assert!(last["in_flight"].as_array().unwrap().iter().any(|it| it["plugin"] == "crasher" && it["calls"] == 1));
}

#[tokio::test]
async fn a_kill_from_outside_blames_nobody() {
    let host = Host::settings().plugins(plugins()).start().await;
    for signal in [Signal::KILL, Signal::SEGV, Signal::KILL, Signal::ABORT] {
        let (before, worker) = (journal(&host).len(), host.worker_pid());
        kill_process(Pid::from_raw(worker).unwrap(), signal).unwrap();
        let crash = eventually("it is written down", async || journal(&host).get(before).cloned()).await;
        assert_eq!((&crash["cause"], &crash["plugin"]), (&"killed".into(), &Value::Null), "{signal:?}: {crash}");
        assert_eq!(host.plugin("crasher").await["state"], "active");
    }
}

#[tokio::test]
async fn a_quarantine_outlives_restarts_and_another_package_begins_with_a_clean_record() {
    let host = Host::settings().plugins(plugins()).start().await;
    crash(&host, "/segfault").await;
    crash(&host, "/abort").await;
    assert_eq!(host.plugin("crasher").await["state"], "quarantined", "two crashes, whatever their causes");
    let lines = host.owner().await.get("/v1/admin/plugin-registry/crasher/logs?level=error").await.expect(200);
    let told: Vec<_> =
        lines["items"].as_array().unwrap().iter().filter(|line| line["fields"]["handler"].is_string()).collect();
    assert_eq!(told[0]["fields"]["handler"], "GET /abort", "{lines}");
    assert_eq!(told[1]["fields"]["handler"], "GET /segfault", "{lines}");
    let host = host.restart(|settings| settings).await;
    assert_eq!(host.plugin("crasher").await["state"], "quarantined");
    let viewer = host.owner().await.make_user("viewer").await;
    viewer
        .call(Method::POST, "/v1/admin/plugin-registry/crasher/release")
        .send()
        .await
        .refused(403, "insufficient-scope");

    let manifest = host.plugins().path().join("crasher/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("each of its routes", "each of the routes")).unwrap();
    host.owner().await.call(Method::POST, "/v1/admin/plugin-registry/rescan").send().await.expect(200);
    assert_eq!(host.plugin("crasher").await["state"], "active", "another package of the same plugin");
    std::fs::write(&manifest, text).unwrap();
    host.owner().await.call(Method::POST, "/v1/admin/plugin-registry/rescan").send().await.expect(200);
    assert_eq!(host.plugin("crasher").await["state"], "quarantined", "and back again");

    // On the machine itself, as an operator does at night.
    let released = cardinal(["plugin", "release", "crasher", "--data-dir", host.data().to_str().unwrap()]);
    assert!(released.status.success(), "{released:?}");
    assert_eq!(host.plugin("crasher").await["state"], "active");
    let audit = host.owner().await.get("/v1/admin/audit?action=plugin.release").await.expect(200);
    assert_eq!(audit["items"][0]["target"], "crasher", "{audit}");
}

#[tokio::test]
async fn when_nobody_can_be_blamed_those_with_calls_under_way_are_suspected() {
    let host = Host::settings().plugins(plugins()).start().await;
    for round in 1..=2 {
        let client = (**host.owner().await).clone();
        let waiting: Vec<_> = (0..3)
            .map(|_| client.call(Method::GET, &format!("{CRASHER}/wait")))
            .map(|call| tokio::spawn(call.try_send()))
            .collect();
        host.calls_under_way("crasher", 3).await;
        let crash = crash(&host, "/own-thread/unregistered-overflow").await;
        assert_eq!((&crash["cause"], &crash["plugin"]), (&"stack-overflow".into(), &Value::Null), "{crash}");
        assert_eq!((&crash["in_flight"][0]["plugin"], &crash["in_flight"][0]["calls"]), (&"crasher".into(), &4.into()));
        for call in waiting {
            assert!(call.await.unwrap().is_err());
        }
        let item = host.plugin("crasher").await;
        let expected = if round == 1 { "active" } else { "quarantined" };
        assert_eq!(item["state"], expected, "{item}");
        assert_eq!(item["quarantine"]["suspected"], if round == 1 { Value::Null } else { true.into() });
    }
    assert_eq!(host.plugin("quick").await["state"], "active");
    release(&host).await;
}

#[tokio::test]
async fn a_library_that_crashes_only_the_worker_is_set_aside_before_long() {
    let package = Package::fixture("bad-constructor").sin(b"later");
    let host = Host::settings().plugins(plugins().with("late", &package)).start().await;
    let item = host.plugin("bad-constructor").await;
    assert_eq!(item["state"], "quarantined", "{item}");
    assert_eq!(journal(&host).len(), 2);
    assert_eq!(host.plugin("crasher").await["state"], "active");
    println!("{}", host.log().lines().filter(|line| line.contains("worker")).collect::<Vec<_>>().join("\n"));
}

/// It holds the system's loader, for which others wait.
#[tokio::test]
async fn a_library_that_hangs_in_the_worker_alone_is_set_aside_at_once() {
    let host = Host::settings().plugins(plugins()).start().await;
    let worker = host.worker_pid();
    host.plugins().put("late", &Package::fixture("bad-constructor").sin(b"stays"));
    let crash = eventually("the worker ends", async || journal(&host).first().cloned()).await;
    assert_eq!((&crash["cause"], &crash["plugin"]["name"]), (&"hang".into(), &"bad-constructor".into()), "{crash}");
    let item = eventually("it is set aside", async || {
        Some(host.plugin("bad-constructor").await).filter(|it| it["state"] == "quarantined")
    })
    .await;
    assert!(item["reason"].as_str().unwrap().contains("does not finish opening"), "{item}");
    assert_eq!((host.plugin("crasher").await["state"].as_str(), journal(&host).len()), (Some("active"), 1));
    assert_ne!(host.worker_pid(), worker);
}

#[tokio::test]
async fn a_worker_that_stands_still_is_ended_and_started_again() {
    let host = Host::settings().plugins(plugins()).start().await;
    let worker = host.worker_pid();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::STOP).unwrap();
    let crash = eventually("it is noticed", async || journal(&host).first().cloned()).await;
    assert_eq!((&crash["cause"], &crash["plugin"]), (&"stopped".into(), &Value::Null), "{crash}");
    host.owner().await.get("/v1/admin/auth/me").await.expect(200);
    assert_ne!(host.worker_pid(), worker);
}
