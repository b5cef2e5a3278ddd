//! The official SDKs' own authorization flows, through a real provider: each registers, logs in and lists tools, and asks for
//! more when a tool needs more than its token holds.

use std::process::Command;

use cardinal_tests::{Federated, printed_json, repository, run};
use serde_json::{Value, json};

use super::mcp_python::python;
use super::oidc::oauth;

const SEARCH: &str = "cards_search";

/// A client's whole flow against this endpoint; with a token, up to the answer of a tool. None where it is not installed.
async fn flow(client: &str, url: &str, token: Option<&str>) -> Option<Value> {
    let mut arguments = vec![url];
    match client.strip_prefix("python ") {
        None => {
            arguments.insert(0, client);
            arguments.extend(token.into_iter().flat_map(|token| [token, SEARCH]));
            Some(oauth(&arguments).await)
        }
        Some(version) => {
            arguments.push(token.unwrap_or("-"));
            arguments.extend(token.map(|_| SEARCH));
            python_flow(version, &arguments).await
        }
    }
}

async fn python_flow(version: &str, arguments: &[&str]) -> Option<Value> {
    let mut command = Command::new(python(version)?);
    command.arg(repository().join("tests/clients/python/oauth.py")).args(arguments);
    Some(printed_json(&run(command).await))
}

/// Each client registers and logs in, at both paths of the endpoint.
async fn logs_in(client: &str) {
    let all = Federated::shared().await;
    for path in ["/api", "/api/mcp"] {
        let Some(answer) = flow(client, &format!("{}{path}", all.host.url()), None).await else { return };
        assert_eq!(answer["asked"]["resource"], json!(all.audience()), "{answer}");
        assert_eq!(answer["asked"]["code_challenge_method"], "S256", "{answer}");
        assert!(answer["registered"].is_string() && answer["registered"] != "web", "{answer}");
        let tools = answer["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(tools.contains(&json!("plugin_supplier_preview")) && tools.contains(&json!(SEARCH)), "{answer}");
    }
}

/// A client that holds less than a tool needs is led to the token that it needs, and gets the tool's answer.
async fn steps_up(client: &str) {
    let all = Federated::shared().await;
    // Of the person who then logs in: a session is its owner's alone.
    let token = all.token("alice", "mcp:use").await;
    let Some(answer) = flow(client, &all.audience(), Some(&token)).await else { return };
    let scopes = |text: &Value| {
        let mut scopes: Vec<String> = text.as_str().unwrap_or_default().split(' ').map(str::to_owned).collect();
        scopes.sort_unstable();
        scopes
    };
    let union = ["cards:read", "mcp:use"];
    for scopes in [scopes(&answer["asked"]["scope"]), scopes(&answer["granted"])] {
        assert!(union.iter().all(|wanted| scopes.iter().any(|scope| scope == wanted)), "{answer}");
    }
    assert!(answer["called"]["structuredContent"]["items"].is_array(), "{answer}");
}

#[tokio::test]
async fn the_typescript_clients_register_log_in_and_list_tools() {
    for client in ["mcp", "mcp2"] {
        logs_in(client).await;
    }
}

#[tokio::test]
async fn the_python_clients_register_log_in_and_list_tools() {
    for client in ["python 1", "python 2"] {
        logs_in(client).await;
    }
}

#[tokio::test]
async fn a_tool_leads_the_typescript_clients_to_the_token_that_it_needs() {
    for client in ["mcp", "mcp2"] {
        steps_up(client).await;
    }
}

#[tokio::test]
async fn a_tool_leads_the_python_clients_to_the_token_that_it_needs() {
    for client in ["python 1", "python 2"] {
        steps_up(client).await;
    }
}
