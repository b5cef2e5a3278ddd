//! A plugin that takes all descriptors, or closes those of the host, stops nobody else, and is named where that is known.
//! The plugin is `unruly`.

use cardinal_tests::{Host, HostSettings, Others, Package, PluginsFolder, User, eventually};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const UNRULY: &str = "/v1/admin/plugins/unruly";
/// New connections that have to be answered while there are no descriptors left.
const NEWCOMERS: usize = 60;

fn settings() -> HostSettings {
    let plugins =
        PluginsFolder::default().with("unruly", &Package::fixture("unruly")).with("quick", &Package::fixture("quick"));
    Host::settings().plugins(plugins)
}

fn journal(host: &Host) -> Vec<Value> {
    let text = std::fs::read(host.data().join("crashes.json")).unwrap_or_else(|_| b"{\"crashes\": []}".to_vec());
    let book: Value = serde_json::from_slice(&text).unwrap();
    book["crashes"].as_array().unwrap().clone()
}

async fn state(user: &User, plugin: &str) -> Value {
    user.get(&format!("/v1/admin/plugin-registry/{plugin}")).await.expect(200)["item"].take()
}

#[tokio::test]
async fn a_limit_that_can_be_put_back_is_put_back() {
    let host = settings().start().await;
    let (owner, worker) = (host.owner().await, host.worker_pid());
    let others = Others::of(&host).await;
    owner.get(&format!("{UNRULY}/descriptors/limit?files=20")).await.expect(200);
    others.go_on(50).await;
    for _ in 0..NEWCOMERS {
        assert_eq!(host.client().call(Method::GET, "/healthz").try_send().await.unwrap().status, 200);
    }
    others.unharmed();
    assert_eq!(host.worker_pid(), worker, "nothing had to be ended for it");
    eventually("the log has it", async || {
        host.log().contains("the limit of open files was changed; it is put back").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_was_stopped_from_outside_blames_nobody() {
    let host = settings().start().await;
    let owner = host.owner().await;
    for round in 0..2 {
        let calls = (0..3).map(|_| owner.call(Method::GET, &format!("{UNRULY}/block/sleep?ms=60000")));
        let waiting: Vec<_> = calls.map(|call| tokio::spawn(call.try_send())).collect();
        eventually("calls are under way", async || {
            (state(owner, "unruly").await["counters"]["in_flight"].as_u64() >= Some(3)).then_some(())
        })
        .await;
        kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::STOP).unwrap();
        let crash = eventually("it is noticed", async || journal(&host).get(round).cloned()).await;
        assert_eq!((&crash["cause"], &crash["plugin"]), (&json!("stopped"), &Value::Null), "{crash}");
        for call in waiting {
            drop(call.await);
        }
        for plugin in ["unruly", "quick"] {
            assert_eq!(state(owner, plugin).await["state"], "active", "{plugin}");
        }
    }
    let crashes = owner.get("/v1/admin/system").await.expect(200)["unattributed_crashes"].take();
    assert_eq!(crashes["count"], 0, "a stop from outside is nobody's fault: {crashes}");
}
