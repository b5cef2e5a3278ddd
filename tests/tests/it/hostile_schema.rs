//! The attacks that once went through a plugin's `schema.sql`, as an operator would meet them: a package in the folder.
//! Each is refused in words that name the place, and nobody else notices.

use cardinal_tests::{Host, Others, Package, PluginsFolder};
use serde_json::{Value, json};

const REFUSED: &str = include_str!("../../schemas/refused.sql");
/// The first ones of the file are the attacks; what comes behind them is one word or clause each.
const ATTACKS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_are_refused_and_nobody_else_notices() {
    let folder = PluginsFolder::default()
        .with("supplier", &Package::bundled("supplier"))
        .with("quick", &Package::fixture("quick"));
    let host = Host::settings().plugins(folder).start().await;
    let owner = host.owner().await;
    let others = Others::start(&host).await;
    for (number, attack) in REFUSED.split("\n-- ").skip(1).take(ATTACKS).enumerate() {
        let (expected, schema_sql) = attack.split_once('\n').unwrap();
        // Another content each time, behind something that would show.
        let schema_sql =
            format!("CREATE TABLE shown_{number} (a int);\n{schema_sql}").replace("plugin_x", "plugin_echo");
        host.plugins().put("echo", &Package::fixture("echo").schema(&schema_sql));
        let listed = owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
        let echo = listed["items"].as_array().unwrap().iter().find(|item| item["package"] == "echo").unwrap().clone();
        let refusal = &echo["refusal"];
        assert_eq!(
            (&echo["state"], &refusal["code"]),
            (&json!("refused"), &json!("schema-unsafe")),
            "{schema_sql}\n{echo}"
        );
        let found = refusal["found"].as_str().unwrap();
        let words = expected.split(" at line").next().unwrap();
        assert!(found.contains(words) && found.contains("line "), "{expected}: {found}");
        let card = json!({"title": "written", "sku": format!("hostile-{number}")});
        owner.post("/v1/admin/master-cards", &card).await.expect(201);
        owner.get("/v1/admin/audit?limit=1").await.expect(200);
    }
    others.go_on(50).await;
    others.unharmed();
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'plugin_echo'";
    assert_eq!(host.database().await.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    // The same plugin with an honest file is served.
    host.plugins().put("echo", &Package::fixture("echo"));
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    assert_eq!(owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"]["state"], "active");
}
