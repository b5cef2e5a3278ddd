//! What a plugin has in the database: it stays when the plugin is disabled or its package goes, until an operator drops it;
//! and a new version loses nothing of it without an operator's word.

use std::time::Instant;

use cardinal_tests::{Answer, Host, OWNER, OWNER_PASSWORD, Package, PluginsFolder, User, eventually};
use http::Method;
use serde_json::{Value, json};

const ECHO: &str = "/v1/admin/plugin-registry/echo";
const NOTES: &str = "/v1/admin/plugins/echo/db/notes";
const ONE_SECRET: &str = "one secret for the logins on all hosts";

fn echo() -> PluginsFolder {
    PluginsFolder::default().with("echo", &Package::fixture("echo"))
}

async fn purge(user: &User, plugin: &str, confirm: &Value) -> Answer {
    let path = format!("/v1/admin/plugin-registry/{plugin}/data");
    user.call(Method::DELETE, &path).json(&json!({"confirm": confirm})).send().await
}

async fn act(user: &User, act: &str) -> Answer {
    user.post(&format!("{ECHO}/{act}"), &Value::Null).await
}

async fn report(user: &User) -> Value {
    user.get(ECHO).await.expect(200)["item"].clone()
}

async fn note(user: &User, text: &str) {
    user.post(NOTES, &json!({"text": text})).await.expect(201);
}

async fn count(host: &Host, sql: &str) -> i64 {
    host.database().await.query_one(sql, &[]).await.unwrap().get(0)
}

const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'plugin_echo'";
const ROLES: &str = "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'cardinal%!_echo' ESCAPE '!'";

#[tokio::test]
async fn data_is_dropped_on_an_operators_word_alone() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let card = owner.card("With a source").await["id"].as_str().unwrap().to_owned();
    owner.post(&format!("/v1/admin/plugins/echo/enrich/{card}"), &json!({"note": "stays"})).await.expect(200);
    note(owner, "goes").await;
    owner
        .call(Method::PUT, &format!("{ECHO}/settings"))
        .json(&json!({"greeting": "goes, too"}))
        .send()
        .await
        .expect(200);

    // Not as long as it serves, and only for who means it.
    let problem = purge(owner, "echo", &json!("echo")).await.refused(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("disable"), "{problem}");
    act(owner, "disable").await.expect(200);
    for confirm in [json!("ech"), json!("Echo"), json!(""), json!(true), Value::Null] {
        purge(owner, "echo", &confirm).await.refused(422, "validation-failed");
    }
    owner
        .call(Method::DELETE, &format!("{ECHO}/data"))
        .json(&json!({"confirm": "echo", "x": 1}))
        .send()
        .await
        .refused(422, "validation-failed");
    owner.delete(&format!("{ECHO}/data")).await.refused(400, "invalid-json");
    for nobody in ["nobody", "public", "pg-catalog", "echo%27;drop%20schema%20public;--"] {
        purge(owner, nobody, &json!(nobody)).await.refused(404, "not-found");
    }
    let viewer = owner.make_user("viewer").await;
    purge(&viewer, "echo", &json!("echo")).await.refused(403, "insufficient-scope");

    // Disabling has touched nothing.
    assert_eq!((count(&host, SCHEMAS).await, count(&host, ROLES).await), (1, 2));
    act(owner, "enable").await.expect(200);
    let notes = owner.get(NOTES).await.expect(200);
    assert_eq!(notes["items"].as_array().unwrap().len(), 1);

    act(owner, "disable").await.expect(200);
    purge(owner, "echo", &json!("echo")).await.expect(204);
    assert_eq!((count(&host, SCHEMAS).await, count(&host, ROLES).await), (0, 0));
    assert_eq!(count(&host, "SELECT count(*) FROM plugin_schema_steps").await, 0);
    let line =
        owner.get("/v1/admin/audit?limit=1&outcome=ok&action=plugin.purge").await.expect(200)["items"][0].clone();
    assert_eq!(line["target"], "echo");
    assert_eq!(line["detail"], json!({"tables": ["notes"], "schema_steps": 1, "settings": true}));
    assert!(owner.read_card(&card).await["attributes"]["sources"].as_object().unwrap().len() == 1, "sources stay");

    // Nothing is left, which can be said again.
    purge(owner, "echo", &json!("echo")).await.expect(204);
    // It begins anew.
    act(owner, "enable").await.expect(200);
    assert_eq!(report(owner).await["state"], "active");
    assert_eq!(owner.get(NOTES).await.expect(200)["items"], json!([]));
    let hello = owner.get("/v1/admin/plugins/echo/hello").await.expect(200);
    assert_eq!(hello["greeting"], "hello", "its settings are gone");
    note(owner, "new").await;
}

/// Something outside of the plugin's schema that depends on its role: told as what it is, not as a database that is away.
#[tokio::test]
async fn data_stays_while_something_else_depends_on_the_plugins_role() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    act(owner, "disable").await.expect(200);
    let database = host.database().await;
    let role = "SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'cardinal!_%!_s!_echo' ESCAPE '!'";
    let role: String = database.query_one(role, &[]).await.unwrap().get(0);
    database.batch_execute(&format!("GRANT SELECT ON public.core_migrations TO {role}")).await.unwrap();
    let problem = purge(owner, "echo", &json!("echo")).await.refused(409, "conflict");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&role) && detail.contains("core_migrations"), "{problem}");
    assert_eq!((&problem["reason"], count(&host, SCHEMAS).await), (&json!("roles-in-use"), 1));
    database.batch_execute(&format!("REVOKE ALL ON public.core_migrations FROM {role}")).await.unwrap();
    purge(owner, "echo", &json!("echo")).await.expect(204);
}

/// A row that cannot lose its card keeps it, whichever constraint says so.
#[tokio::test]
async fn a_constraint_of_a_plugin_that_keeps_a_card_is_named() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    replace_schema(
        &host,
        "CREATE TABLE IF NOT EXISTS wanted (card_id uuid NOT NULL REFERENCES public.master_cards (id) ON DELETE SET NULL);
         CREATE TABLE IF NOT EXISTS checked (card_id uuid REFERENCES public.master_cards (id) ON DELETE SET NULL
                                             CHECK (card_id IS NOT NULL))",
    );
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    assert_eq!(report(owner).await["refusal"], Value::Null);
    for table in ["wanted", "checked"] {
        let card = owner.card(table).await["id"].as_str().unwrap().to_owned();
        let database = host.database().await;
        database.batch_execute(&format!("INSERT INTO plugin_echo.{table} VALUES ('{card}')")).await.unwrap();
        let purge = format!("/v1/admin/master-cards/{card}?purge=true");
        let problem = owner.delete(&purge).await.refused(409, "card-in-use");
        assert_eq!(problem["plugin"], "echo", "{problem}");
        let kept = owner.get(&format!("/v1/admin/master-cards/{card}")).await.expect(200);
        assert_eq!(kept["deleted_at"], Value::Null, "what is refused hides nothing");
        // Nor does it show what somebody hid.
        owner.delete(&format!("/v1/admin/master-cards/{card}")).await.expect(204);
        owner.delete(&purge).await.refused(409, "card-in-use");
        owner.get(&format!("/v1/admin/master-cards/{card}")).await.refused(404, "not-found");
        database.batch_execute(&format!("DELETE FROM plugin_echo.{table}")).await.unwrap();
        owner.delete(&purge).await.expect(204);
    }
}

/// A step that others' locks keep away says so, with what to do, and works once they are gone.
#[tokio::test]
async fn a_step_that_meets_a_lock_says_so() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    note(owner, "kept").await;
    let mut database = host.database().await;
    let busy = database.transaction().await.unwrap();
    busy.batch_execute("LOCK TABLE plugin_echo.notes IN ACCESS SHARE MODE").await.unwrap();
    replace_schema(&host, "\n  ALTER TABLE notes ADD COLUMN more text");
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    let met = report(owner).await;
    let text = met.to_string();
    assert!(
        text.contains("55P03") && text.contains("line 2, column 3") && text.contains("scan the plugins again"),
        "{met}"
    );
    assert_eq!(met["state"], "active", "the old one serves");
    busy.rollback().await.unwrap();
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    assert_eq!(count(&host, "SELECT count(more) FROM plugin_echo.notes").await, 0);
}

#[tokio::test]
async fn data_of_a_package_that_is_gone_can_be_dropped() {
    let host = Host::settings().plugins(echo()).start().await;
    note(host.owner().await, "left behind").await;
    std::fs::remove_dir_all(host.plugins().path().join("echo")).unwrap();
    let owner = host.owner().await;
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    eventually("it is out of service", async || (owner.get(NOTES).await.status != 200).then_some(())).await;
    assert_eq!(count(&host, SCHEMAS).await, 1, "removing the package removes no data");
    let gone = eventually("nobody has it in service", async || {
        let answer = purge(owner, "echo", &json!("echo")).await;
        (answer.status != 409).then_some(answer)
    });
    gone.await.expect(204);
    assert_eq!((count(&host, SCHEMAS).await, count(&host, ROLES).await), (0, 0));
}

#[tokio::test]
async fn nothing_is_dropped_while_another_host_has_the_plugin_in_service() {
    let one = Host::settings().plugins(echo()).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let owner = one.owner().await;
    // It says on one host that the package is gone, and the other one serves it.
    let two = one.beside().plugins(PluginsFolder::default()).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let there = User::log_in(&two.client(), OWNER, OWNER_PASSWORD).await;
    note(owner, "in use").await;
    let problem = purge(&there, "echo", &json!("echo")).await.refused(409, "conflict");
    assert_eq!(problem["reason"], "in-service", "{problem}");
    act(owner, "disable").await.expect(200);
    let begun = Instant::now();
    let purged = eventually("the host that served has let go", async || {
        let answer = purge(&there, "echo", &json!("echo")).await;
        (answer.status != 409).then_some(answer)
    });
    purged.await.expect(204);
    assert!(begun.elapsed().as_secs() < 7, "{:?}", begun.elapsed());
    assert_eq!(count(&one, SCHEMAS).await, 0);
    act(owner, "enable").await.expect(200);
    assert_eq!(owner.get(NOTES).await.expect(200)["items"], json!([]));
}

/// The next version, which has no `written_at` and a table more.
const LOSES: &str = "CREATE TABLE IF NOT EXISTS notes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, card_id uuid, text text NOT NULL);
  ALTER TABLE notes DROP COLUMN IF EXISTS written_at;
  CREATE TABLE IF NOT EXISTS more (id int)";

fn replace_schema(host: &Host, sql: &str) {
    std::fs::write(host.plugins().path().join("echo/schema.sql"), sql).unwrap();
}

#[tokio::test]
async fn a_new_version_loses_what_an_operator_agreed_to_and_nothing_else() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    note(owner, "kept").await;
    let rescan = async || owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
    let confirm =
        async |sha256: &Value| owner.post(&format!("{ECHO}/confirm-migration"), &json!({"sha256": sha256})).await;
    let before = report(owner).await;
    confirm(&before["sha256"]).await.refused(409, "conflict");

    replace_schema(&host, LOSES);
    rescan().await;
    let refused = report(owner).await;
    assert_eq!(refused["refusal"]["code"], "destructive-migration", "{refused}");
    assert_eq!(refused["refusal"]["losses"], json!(["column notes.written_at is dropped"]));
    assert_eq!((&refused["state"], &refused["sha256"]), (&json!("active"), &before["sha256"]), "the old one serves");
    assert_eq!(owner.get(NOTES).await.expect(200)["items"].as_array().unwrap().len(), 1);

    // Not for another package than the one that lies there.
    let waiting = refused["pending"]["sha256"].clone();
    confirm(&before["sha256"]).await.refused(409, "conflict");
    confirm(&json!("0".repeat(64))).await.refused(409, "conflict");
    confirm(&json!(7)).await.refused(422, "validation-failed");
    owner
        .post("/v1/admin/plugin-registry/nobody/confirm-migration", &json!({"sha256": "x"}))
        .await
        .refused(404, "not-found");

    let now = confirm(&waiting).await.expect(200)["item"].clone();
    assert_eq!((&now["refusal"], &now["sha256"]), (&Value::Null, &waiting), "{now}");
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'plugin_echo' AND column_name = 'written_at'";
    assert_eq!(count(&host, columns).await, 0);
    assert_eq!(count(&host, "SELECT count(*) FROM plugin_echo.notes").await, 1, "rows stay");
    let line =
        owner.get("/v1/admin/audit?limit=1&outcome=ok&action=plugin.confirm_migration").await.expect(200)["items"][0]
            .clone();
    assert_eq!(line["detail"]["losses"], json!(["column notes.written_at is dropped"]), "{line}");
    assert_eq!(line["detail"]["sha256"], waiting);

    // The word was good once: back to the first, and the same version has to ask again.
    replace_schema(
        &host,
        "CREATE TABLE IF NOT EXISTS notes (id int); ALTER TABLE notes ADD COLUMN IF NOT EXISTS written_at timestamptz",
    );
    rescan().await;
    replace_schema(&host, LOSES);
    rescan().await;
    assert_eq!(report(owner).await["refusal"]["code"], "destructive-migration");
}
