//! Who may call what: every row of the host's route table has its cases here, and every plugin route and tool is
//! closed to whoever was not let in. A route without a case fails the test by name.

use cardinal_base::scope::{APPROVE, KNOWN, UNATTENDED};
use cardinal_serve::{api, http::path::PLUGIN_PATHS, router::Access as Declared};
use cardinal_tests::{Answer, Client, Host, Package, PluginsFolder, User, unique};
use http::Method;
use serde_json::json;

/// Who may come in, as the contract says it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    /// No credential.
    Nothing,
    /// A credential, whatever it may do.
    Credential,
    /// A credential with this scope.
    Scope(&'static str),
    /// The scope of the plugin's own route; see the tests of plugins below.
    PluginScope,
}

use Needs::{Credential, Nothing, PluginScope, Scope};

/// What the right caller gets for a call without body to an object that is not there: the call got through.
struct Case(&'static str, &'static str, Needs, u16);

const NO_ID: &str = "00000000-0000-7000-8000-000000000000";

/// In the order of the contract. The last column is the status of the right caller's call.
const CASES: &[Case] = &[
    Case("GET", "/healthz", Nothing, 200),
    Case("GET", "/readyz", Nothing, 200),
    Case("GET", "/problems", Nothing, 200),
    Case("GET", "/problems/{code}", Nothing, 404),
    Case("GET", "/.well-known/oauth-protected-resource", Nothing, 200),
    Case("GET", "/.well-known/oauth-protected-resource/api", Nothing, 200),
    Case("GET", "/.well-known/oauth-protected-resource/api/mcp", Nothing, 200),
    Case("POST", "/v1/admin/auth/login", Nothing, 400),
    Case("POST", "/v1/admin/auth/logout", Credential, 400),
    Case("GET", "/v1/admin/auth/me", Credential, 200),
    Case("POST", "/v1/admin/auth/password", Credential, 403),
    Case("GET", "/v1/admin/api-keys", Scope("keys:read"), 200),
    Case("POST", "/v1/admin/api-keys", Scope("keys:write"), 400),
    Case("GET", "/v1/admin/api-keys/{id}", Scope("keys:read"), 404),
    Case("PATCH", "/v1/admin/api-keys/{id}", Scope("keys:write"), 415),
    Case("DELETE", "/v1/admin/api-keys/{id}", Scope("keys:write"), 404),
    Case("POST", "/v1/admin/api-keys/{id}/rotate", Scope("keys:write"), 404),
    Case("GET", "/v1/admin/users", Scope("users:read"), 200),
    Case("POST", "/v1/admin/users", Scope("users:write"), 400),
    Case("GET", "/v1/admin/users/{id}", Scope("users:read"), 404),
    Case("PATCH", "/v1/admin/users/{id}", Scope("users:write"), 415),
    Case("DELETE", "/v1/admin/users/{id}", Scope("users:write"), 404),
    // One's own sessions need no scope, others' users:write: sessions.rs. A key has none of its own.
    Case("GET", "/v1/admin/sessions", Credential, 403),
    Case("DELETE", "/v1/admin/sessions", Credential, 400),
    Case("DELETE", "/v1/admin/sessions/{id}", Credential, 404),
    // A person's alone: no key holds it.
    Case("GET", "/v1/admin/approvals", Scope(APPROVE), 200),
    Case("GET", "/v1/admin/approvals/{id}", Scope(APPROVE), 404),
    Case("POST", "/v1/admin/approvals/{id}/approve", Scope(APPROVE), 404),
    Case("POST", "/v1/admin/approvals/{id}/deny", Scope(APPROVE), 404),
    Case("GET", "/v1/admin/audit", Scope("audit:read"), 200),
    Case("GET", "/v1/admin/master-cards", Scope("cards:read"), 200),
    Case("POST", "/v1/admin/master-cards", Scope("cards:write"), 400),
    Case("POST", "/v1/admin/master-cards/import", Scope("cards:write"), 415),
    Case("GET", "/v1/admin/master-cards/export", Scope("cards:read"), 200),
    Case("GET", "/v1/admin/master-cards/{id}", Scope("cards:read"), 404),
    Case("PATCH", "/v1/admin/master-cards/{id}", Scope("cards:write"), 415),
    Case("DELETE", "/v1/admin/master-cards/{id}", Scope("cards:write"), 404),
    Case("POST", "/v1/admin/master-cards/{id}/restore", Scope("cards:write"), 404),
    Case("GET", "/v1/admin/master-cards/{id}/history", Scope("cards:read"), 404),
    Case("GET", "/v1/admin/master-cards/{id}/sources", Scope("cards:read"), 404),
    Case("DELETE", "/v1/admin/master-cards/{id}/sources/{source_key}", Scope("cards:write"), 404),
    // The query names nothing.
    Case("GET", "/v1/admin/pictures", Scope("cards:read"), 400),
    Case("GET", "/v1/admin/openapi.json", Credential, 200),
    Case("GET", "/v1/admin/plugin-manifest.schema.json", Credential, 200),
    Case("GET", "/v1/admin/kinds", Scope("plugins:read"), 200),
    Case("GET", "/v1/admin/views", Scope("cards:read"), 200),
    Case("POST", "/v1/admin/views", Scope("cards:read"), 400),
    Case("GET", "/v1/admin/views/{id}", Scope("cards:read"), 404),
    Case("PATCH", "/v1/admin/views/{id}", Scope("cards:read"), 415),
    Case("DELETE", "/v1/admin/views/{id}", Scope("cards:read"), 404),
    Case("GET", "/v1/admin/proxy-routes", Scope("proxy:read"), 200),
    Case("PUT", "/v1/admin/proxy-routes", Scope("proxy:write"), 400),
    Case("GET", "/v1/admin/jobs", Scope("jobs:read"), 200),
    Case("POST", "/v1/admin/jobs", Scope("jobs:write"), 400),
    // One's own jobs need no scope, others' jobs:read or jobs:write: jobs.rs.
    Case("GET", "/v1/admin/jobs/{id}", Credential, 403),
    Case("GET", "/v1/admin/jobs/{id}/errors", Credential, 403),
    Case("POST", "/v1/admin/jobs/{id}/cancel", Credential, 403),
    // A stream that is let in never ends; what it asks for is no topic.
    Case("GET", "/v1/admin/events", Credential, 400),
    Case("GET", "/v1/admin/plugins", Credential, 200),
    Case("GET", "/v1/admin/plugins/{prefix}", PluginScope, 404),
    Case("GET", "/v1/admin/plugins/{prefix}/", PluginScope, 404),
    Case("GET", "/v1/admin/plugins/{prefix}/{*rest}", PluginScope, 404),
    Case("GET", "/v1/admin/plugin-registry", Scope("plugins:read"), 200),
    Case("POST", "/v1/admin/plugin-registry/rescan", Scope("plugins:manage"), 200),
    Case("GET", "/v1/admin/plugin-registry/{name}", Scope("plugins:read"), 404),
    Case("POST", "/v1/admin/plugin-registry/{name}/enable", Scope("plugins:manage"), 404),
    Case("POST", "/v1/admin/plugin-registry/{name}/disable", Scope("plugins:manage"), 404),
    Case("POST", "/v1/admin/plugin-registry/{name}/reload", Scope("plugins:manage"), 404),
    Case("POST", "/v1/admin/plugin-registry/{name}/rollback", Scope("plugins:manage"), 404),
    Case("POST", "/v1/admin/plugin-registry/{name}/release", Scope("plugins:manage"), 404),
    Case("GET", "/v1/admin/plugin-registry/{name}/settings", Scope("plugins:read"), 404),
    Case("PUT", "/v1/admin/plugin-registry/{name}/settings", Scope("plugins:manage"), 400),
    // Off unless the operator has switched it on: plugin_upload.rs.
    Case("POST", "/v1/admin/plugin-registry/upload", Scope("plugins:manage"), 403),
    Case("DELETE", "/v1/admin/plugin-registry/{name}/package", Scope("plugins:manage"), 404),
    Case("DELETE", "/v1/admin/plugin-registry/{name}/data", Scope("plugins:manage"), 400),
    Case("POST", "/v1/admin/plugin-registry/{name}/confirm-migration", Scope("plugins:manage"), 400),
    Case("POST", "/v1/admin/plugin-registry/{name}/accept-signer", Scope("plugins:manage"), 400),
    Case("GET", "/v1/admin/plugin-registry/{name}/logs", Scope("plugins:read"), 404),
    Case("POST", "/v1/admin/plugin-registry/{name}/client-errors", Scope("plugin:nobody:read"), 404),
    Case("GET", "/v1/admin/system", Scope("system:read"), 200),
    Case("GET", "/v1/admin/system/traffic", Scope("system:read"), 200),
    Case("GET", "/v1/admin/system/check", Scope("system:read"), 200),
    Case("PUT", "/v1/admin/system/log-level", Scope("system:write"), 400),
    Case("GET", "/metrics", Scope("system:read"), 200),
    Case("POST", "/api", Scope("mcp:use"), 400),
    Case("GET", "/api", Scope("mcp:use"), 400),
    Case("DELETE", "/api", Scope("mcp:use"), 400),
    Case("POST", "/api/mcp", Scope("mcp:use"), 400),
    Case("GET", "/api/mcp", Scope("mcp:use"), 400),
    Case("DELETE", "/api/mcp", Scope("mcp:use"), 400),
];

/// Every scope of the core that a key holds like any other.
fn every() -> Vec<&'static str> {
    KNOWN.iter().copied().filter(|scope| ![APPROVE, UNATTENDED].contains(scope)).collect()
}

/// Every scope but this one, and but those that hold it: a caller who may do all the rest.
fn all_but(scope: &str) -> Vec<&'static str> {
    let holder = scope.replace(":read", ":write");
    every().into_iter().filter(|other| *other != scope && *other != holder).collect()
}

fn sample(template: &str) -> String {
    template
        .replace("{id}", NO_ID)
        .replace("{code}", "no-such-code")
        .replace("{prefix}", "nobody")
        .replace("{name}", "nobody")
        .replace("{source_key}", "nobody:nothing")
        .replace("{*rest}", "nothing")
        .replace("/v1/admin/events", "/v1/admin/events?topics=nothing")
}

async fn ask(client: &Client, case: &Case) -> Answer {
    client.call(case.0.parse().unwrap(), &sample(case.1)).send().await
}

#[test]
fn every_route_of_the_table_has_its_case() {
    let rows = api::routes().into_iter().map(|route| {
        let declared = match route.access {
            Declared::Public => Nothing,
            Declared::Authenticated => Credential,
            Declared::Scope(scope) => Scope(scope),
            Declared::PluginRead => Scope("plugin:nobody:read"),
        };
        (route.method, route.path, declared)
    });
    let rows: Vec<_> = rows.chain(PLUGIN_PATHS.map(|path| (Method::GET, path, PluginScope))).collect();
    for (method, path, declared) in &rows {
        let case = CASES.iter().find(|case| case.0 == method.as_str() && case.1 == *path);
        let case =
            case.unwrap_or_else(|| panic!("{method} {path} has no case in tests/tests/it/access.rs: who may call it?"));
        assert_eq!(case.2, *declared, "{method} {path}: the case and the table disagree");
    }
    for case in CASES {
        let known = rows.iter().any(|(method, path, _)| case.0 == method.as_str() && case.1 == *path);
        assert!(known, "{} {} has a case and is not in the table", case.0, case.1);
    }
}

/// What changes something is an act that the audit log knows, or work on data that has a history of its own.
#[test]
fn every_route_that_changes_something_is_an_act_or_work_on_data() {
    const DATA: [&str; 5] = [
        "/v1/admin/master-cards",
        "/v1/admin/views",
        "/api",
        "/v1/admin/plugins/",
        "/v1/admin/plugin-registry/{name}/client-errors",
    ];
    for route in api::routes().iter().filter(|route| route.method != Method::GET) {
        let is_data = DATA.iter().any(|data| route.path.starts_with(data));
        let name = format!("{} {}", route.method, route.path);
        assert!(is_data != route.audits.is_some(), "{name}: its row names no audit action, and it is no data");
    }
}

/// Contract, opening: a typing error is never silently ignored. Plugins judge their own queries, and a probe must not
/// fail for what a balancer adds to it.
#[tokio::test]
async fn no_route_takes_an_unknown_query_parameter() {
    let host = Host::shared().await;
    let known = host.owner().await.unlimited().await;
    for case in CASES.iter().filter(|case| case.2 != PluginScope) {
        let path = sample(case.1);
        let path = path.split('?').next().unwrap();
        let ask = async |query: &str| {
            let client = match case.2 {
                Nothing => host.client(),
                Scope(APPROVE) => (**host.owner().await).clone(),
                _ => known.clone(),
            };
            client.call(case.0.parse().unwrap(), &format!("{path}?{query}")).send().await
        };
        if ["/healthz", "/readyz"].contains(&case.1) {
            assert_eq!(ask("nosuch=1").await.status, 200);
            continue;
        }
        for query in ["nosuch=1", "nosuch", "%6Eosuch=1", "=1", "&&x", "nosuch=%FF"] {
            let answer = ask(query).await;
            let problem = answer.refused(400, "invalid-request");
            if query == "nosuch=1" {
                assert!(problem["detail"].as_str().unwrap().contains("`nosuch`"), "{answer}");
            }
        }
        // MCP wants a session, which is another 400; a picture has an address.
        if case.0 == "GET" && !path.ends_with("/events") && !path.ends_with("/pictures") && !path.starts_with("/api") {
            let plain = ask("").await;
            assert_ne!(plain.status, 400, "a `?` alone is no parameter: {plain}");
        }
    }
}

#[tokio::test]
async fn a_query_parameter_stands_there_once() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for query in ["limit=1&limit=2", "limit=1&%6Cimit=1", "q=a&limit=1&q=b"] {
        let answer = owner.get(&format!("/v1/admin/master-cards?{query}")).await;
        assert!(answer.refused(400, "invalid-request")["detail"].as_str().unwrap().contains("twice"), "{answer}");
    }
    owner.get("/v1/admin/master-cards?%6Cimit=1&&").await.expect(200);
}

/// The refusal comes before the act, and after the caller's rights are known.
#[tokio::test]
async fn an_unknown_query_parameter_is_refused_before_anything_happens() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let made = owner.card("Stays").await;
    let path = format!("/v1/admin/master-cards/{}", made["id"].as_str().unwrap());
    let answer = owner.call(Method::DELETE, &format!("{path}?pruge=true")).send().await;
    answer.refused(400, "invalid-request");
    owner.get(&path).await.expect(200);
    host.client().get("/v1/admin/system?nosuch=1").await.refused(401, "missing-token");
    owner.key(&["cards:read"]).await.get("/v1/admin/system?nosuch=1").await.refused(403, "insufficient-scope");
}

#[tokio::test]
async fn without_a_credential_only_what_is_public_answers() {
    let host = Host::shared().await;
    for case in CASES {
        let answer = ask(&host.client(), case).await;
        match case.2 {
            Nothing => assert_eq!(answer.status, case.3, "{answer}"),
            _ => drop(answer.refused(401, "missing-token")),
        }
        let nonsense = ask(&host.client().bearer("mps_nonsense"), case).await;
        assert_eq!(nonsense.status == 401, case.2 != Nothing, "{nonsense}");
    }
}

#[tokio::test]
async fn the_wrong_scope_is_refused_by_name_and_every_other_one_does_not_help() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for case in CASES {
        let Scope(scope) = case.2 else { continue };
        let others = owner.key(&all_but(scope)).await;
        let answer = ask(&others, case).await;
        let problem = answer.refused(403, "insufficient-scope");
        assert_eq!(problem["required_scope"], scope, "{answer}");
        assert!(answer.header("www-authenticate").is_some_and(|value| value.contains(scope)), "{answer}");
    }
}

#[tokio::test]
async fn the_right_scope_alone_is_enough() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let mut wrong = Vec::new();
    for case in CASES {
        let scopes: &[&str] = match case.2 {
            Scope(scope) => &[scope],
            // Something that opens none of the others.
            _ => &["proxy:read"],
        };
        let caller = match case.2 {
            Scope(APPROVE) => owner.make_user("editor").await,
            _ => owner.key(scopes).await,
        };
        let answer = ask(&caller, case).await;
        if answer.status != case.3 {
            wrong.push(format!("{:?}, expected {}: {answer}", case.2, case.3));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A key that may do everything else of the host, and of another plugin.
async fn without_this_plugin(owner: &User, also: &[&str]) -> User {
    let scopes = [&every()[..], &["plugin:other:write"], also].concat();
    owner.key(&scopes).await
}

#[tokio::test]
async fn a_plugins_routes_are_closed_to_whoever_was_not_let_in() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let report = owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].clone();
    let routes = report["routes"].as_array().unwrap();
    assert!(routes.len() > 5, "{report}");
    let (stranger, reader) =
        (without_this_plugin(owner, &[]).await, without_this_plugin(owner, &["plugin:echo:read"]).await);
    for route in routes {
        let method: Method = route["method"].as_str().unwrap().parse().unwrap();
        let path = format!("/v1/admin/plugins/echo{}", route["path"].as_str().unwrap());
        let path = path.replace("{card_id}", NO_ID).replace("{*rest}", "x");
        host.client().call(method.clone(), &path).send().await.refused(401, "missing-token");
        let reads = method == Method::GET;
        let wanted = if reads { "plugin:echo:read" } else { "plugin:echo:write" };
        let problem = stranger.call(method.clone(), &path).send().await.refused(403, "insufficient-scope");
        assert_eq!(problem["required_scope"], wanted, "{method} {path}");
        if !reads {
            reader.call(method.clone(), &path).send().await.refused(403, "insufficient-scope");
        }
    }
    reader.get("/v1/admin/plugins/echo/hello").await.expect(200);
    for scope in ["plugin:echo:write", "plugin:*:read", "plugin:echo:*", "*"] {
        owner.key(&[scope]).await.get("/v1/admin/plugins/echo/hello").await.expect(200);
    }
}

#[tokio::test]
async fn a_plugins_tools_do_not_exist_for_whoever_was_not_let_in() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let list = async |user: &User| {
        let answer = user.mcp(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.expect(200);
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        let names: Vec<String> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        names.into_iter().filter(|name| name.starts_with("plugin_echo_")).collect::<Vec<_>>()
    };
    let (stranger, reader) =
        (without_this_plugin(owner, &[]).await, without_this_plugin(owner, &["plugin:echo:read"]).await);
    let writer = without_this_plugin(owner, &["plugin:echo:write"]).await;
    assert_eq!(list(&stranger).await, Vec::<String>::new());
    assert_eq!(list(&reader).await, ["plugin_echo_repeat", "plugin_echo_say"]);
    assert_eq!(list(&writer).await, ["plugin_echo_enrich", "plugin_echo_repeat", "plugin_echo_say"]);
    let say = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "plugin_echo_say", "arguments": {"text": unique("hello")}}});
    let answer = stranger.mcp(&say).await;
    assert!(answer.json()["error"].is_object(), "a tool that is not there for the caller: {answer}");
    assert_ne!(reader.mcp(&say).await.expect(200)["result"]["isError"], true);
}
