//! What hangs in one plugin's life cycle holds up that plugin alone. The hanging one is `versioned`.

use std::collections::BTreeSet;

use cardinal_tests::{Host, Others, Package, PluginsFolder, User, eventually};
use http::Method;
use serde_json::{Value, json};

const REGISTRY: &str = "/v1/admin/plugin-registry";
/// Runs until the database ends it, half a minute later.
const ENDLESS: &str = "CREATE TABLE counted (n bigint);\n\
                       INSERT INTO counted SELECT count(*) FROM generate_series(1, 9000000000);\n";

async fn state(user: &User, plugin: &str) -> Value {
    let list = user.get(REGISTRY).await.expect(200);
    let items = list["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == plugin).map_or(Value::Null, |item| item["state"].clone())
}

async fn post(user: &User, path: &str) {
    user.call(Method::POST, &format!("{REGISTRY}/{path}")).send().await.expect(200);
}

/// A plugin whose loading hangs, again and again: what others do is seen to end before that does. Time says nothing: a busy
/// machine may not get a step of others done while the host waits. It tries again, and a step that waits never gets there.
struct Hanging<'h> {
    host: &'h Host,
    package: fn() -> Package,
    attempts: u32,
}

impl Hanging<'_> {
    async fn is_being_loaded(&self) -> bool {
        state(self.host.owner().await, "versioned").await == "checked"
    }

    async fn begin(&mut self) {
        self.attempts += 1;
        assert!(self.attempts < 10, "others waited for the one that hangs");
        let package = (self.package)().version(&format!("1.0.{}", self.attempts));
        self.host.plugins().put("versioned", &package);
        eventually("it is being loaded", async || self.is_being_loaded().await.then_some(())).await;
    }

    /// `undo` makes it a whole step again.
    async fn does_not_hold_up(&mut self, undo: impl AsyncFn(), step: impl AsyncFn()) {
        loop {
            if !self.is_being_loaded().await {
                undo().await;
                self.begin().await;
            }
            step().await;
            if self.is_being_loaded().await {
                return;
            }
        }
    }
}

/// Everything that operators do to others while `versioned` is being loaded.
async fn others_go_on(host: &Host, package: fn() -> Package) {
    let owner = host.owner().await;
    let mut hanging = Hanging { host, package, attempts: 0 };
    let others = Others::start(host).await;
    let [disable, enable] = ["disable", "enable"].map(|act| {
        async move || {
            post(owner, &format!("echo/{act}")).await;
            assert_eq!(state(owner, "echo").await, if act == "enable" { "active" } else { "disabled" });
        }
    });
    hanging.does_not_hold_up(enable, disable).await;
    hanging.does_not_hold_up(disable, enable).await;
    hanging.does_not_hold_up(async || {}, async || post(owner, "unruly/reload").await).await;
    let change_settings = async || {
        owner.call(Method::PUT, &format!("{REGISTRY}/echo/settings")).json(&json!({})).send().await.expect(200);
    };
    hanging.does_not_hold_up(async || {}, change_settings).await;
    let add = async || {
        host.plugins().put("supplier", &Package::bundled("supplier"));
        eventually("a new one is in service", async || (state(owner, "supplier").await == "active").then_some(()))
            .await;
    };
    let remove = async || {
        if !state(owner, "supplier").await.is_null() {
            host.plugins().remove("supplier");
            eventually("it is gone", async || (state(owner, "supplier").await == "retired").then_some(())).await;
        }
    };
    hanging.does_not_hold_up(remove, add).await;
    others.unharmed();
}

fn plugins() -> PluginsFolder {
    ["quick", "echo", "unruly"]
        .into_iter()
        .fold(PluginsFolder::default(), |folder, name| folder.with(name, &Package::fixture(name)))
}

#[tokio::test]
async fn a_schema_that_hangs_holds_up_its_plugin_alone() {
    let host = Host::settings().plugins(plugins()).start().await;
    others_go_on(&host, || Package::fixture("versioned").schema(ENDLESS)).await;
    let owner = host.owner().await;
    // It may be taken back meanwhile.
    post(owner, "versioned/disable").await;
    assert_eq!(state(owner, "versioned").await, "disabled");
    let answer = owner.call(Method::POST, &format!("{REGISTRY}/rescan")).send().await;
    answer.expect(200);
    eventually("what it has begun comes to nothing", async || {
        host.log().contains("failed to provision the plugin's database").then_some(())
    })
    .await;
    assert_eq!(state(owner, "versioned").await, "disabled");
}

#[tokio::test]
async fn routes_that_never_return_hold_up_their_plugin_alone() {
    let host = Host::settings().plugins(plugins()).start().await;
    others_go_on(&host, || Package::fixture("versioned").marked("acts", "stay")).await;
    let owner = host.owner().await;
    let refused = eventually("it is refused", async || {
        let list = owner.get(REGISTRY).await.expect(200);
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().find(|item| item["name"] == "versioned" && item["state"] == "refused")
    })
    .await;
    assert_eq!(refused["refusal"]["code"], json!("create-failed"), "{refused}");
}

#[tokio::test]
async fn a_new_version_that_hangs_leaves_the_old_one_in_service() {
    let host = Host::settings().plugins(plugins().with("versioned", &Package::fixture("versioned"))).start().await;
    let owner = host.owner().await;
    let hanging = Package::fixture("versioned").version("1.1.0").marked("acts", "stay");
    host.plugins().put("versioned", &hanging);
    let report = async || owner.get(&format!("{REGISTRY}/versioned")).await.expect(200)["item"].take();
    eventually("it is being loaded", async || {
        (report().await["reason"].as_str()?.contains("being loaded")).then_some(())
    })
    .await;
    owner.get("/v1/admin/plugins/versioned/which").await.expect(200);
    let refused =
        eventually("it is refused", async || Some(report().await).filter(|it| it["refusal"].is_object())).await;
    assert_eq!((&refused["state"], &refused["version"]), (&json!("active"), &json!("1.0.0")), "{refused}");
    let good = Package::fixture("versioned").version("1.2.0").marked("says", "second");
    host.plugins().put("versioned", &good);
    eventually("the next one serves", async || (report().await["version"] == "1.2.0").then_some(())).await;
}

/// More libraries that hang as they are opened than are tried at a time. How long others wait, the unit tests of `lanes`
/// say, by a clock that no load holds up.
#[tokio::test]
async fn libraries_that_hang_hold_up_neither_a_good_one_nor_a_new_version() {
    const HANGING: usize = 16;
    let folder = plugins().with("versioned", &Package::fixture("versioned"));
    let host = Host::settings().plugins(folder).start().await;
    let owner = host.owner().await;
    let hanging = Package::fixture("bad-constructor").sin(b"hang.");
    let names: BTreeSet<String> = (0..HANGING).map(|number| format!("hanging-{number:07}")).collect();
    let packages: Vec<_> = names.iter().map(|name| (name, hanging.clone().renamed(name))).collect();
    packages.iter().for_each(|(name, package)| host.plugins().put(name, package));
    let seen = async || {
        let list = owner.get(REGISTRY).await.expect(200);
        let items = list["items"].as_array().unwrap();
        items.iter().filter(|item| names.contains(item["name"].as_str().unwrap_or_default())).count()
    };
    eventually("all of them are seen", async || (seen().await == HANGING).then_some(())).await;
    let version = async || owner.get(&format!("{REGISTRY}/versioned")).await.expect(200)["item"]["version"].take();
    host.plugins().put("versioned", &Package::fixture("versioned").version("1.2.0").marked("says", "second"));
    eventually("the new version serves", async || (version().await == "1.2.0").then_some(())).await;
    host.plugins().put("supplier", &Package::bundled("supplier"));
    eventually("a new one is in service", async || (state(owner, "supplier").await == "active").then_some(())).await;
    let list = owner.get(REGISTRY).await.expect(200);
    let waiting = list["items"].as_array().unwrap().iter().filter(|item| item["state"] == "checked").count();
    assert!(waiting > 0, "all others had their turns first: {list}");
}

#[tokio::test]
async fn a_version_that_hangs_is_not_waited_for_once_another_one_lies_there() {
    let host = Host::settings().plugins(plugins()).start().await;
    let owner = host.owner().await;
    let report = async || owner.get(&format!("{REGISTRY}/hanging-0000001")).await;
    let package = Package::fixture("bad-constructor").renamed("hanging-0000001");
    host.plugins().put("one", &package.clone().sin(b"hang."));
    eventually("it is being tried", async || {
        let report = report().await;
        (report.status == 200 && report.json()["item"]["state"] == "checked").then_some(())
    })
    .await;
    host.plugins().put("one", &package.version("1.0.1").sin(b"abort"));
    let ended = eventually("the next one is refused", async || {
        let item = report().await.expect(200)["item"].take();
        (item["state"] == "refused").then_some(item)
    })
    .await;
    assert_eq!(ended["version"], "1.0.1", "{ended}");
    assert!(ended["refusal"]["found"].as_str().unwrap().contains("SIGABRT"), "{ended}");
    assert!(!host.log().contains("did not finish opening in time"), "it was waited for:\n{}", host.log());
}
