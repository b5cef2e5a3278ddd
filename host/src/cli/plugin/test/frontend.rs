//! The frontend's module loads in a browser, registers what the manifest says that it draws, tabs, pages and dialogs of
//! actions, and draws each of them for a card, with answers of the plugin's own routes.

use std::{collections::BTreeSet, fs, io::ErrorKind, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Outcome, requests::Subject, some};

/// The shell first: it draws no window of its own.
const BROWSERS: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const BROWSER_TIMEOUT: Duration = Duration::from_secs(60);
/// Of the page's own time, which passes at once where nothing is loading.
const VIRTUAL_TIME: &str = "--virtual-time-budget=10000";
const BEGIN: &str = "<pre id=\"found\">";
const END: &str = "</pre>";
/// In its place a JSON object with what the page works with.
const GIVEN: &str = "\"GIVEN\"";
/// Of a module's path: `/admin/assets/plugins/NAME/HASH`.
const ROOT_PARTS: usize = 6;
const PAGE: &str = include_str!("page.html");

pub(super) async fn check(subject: &Subject, url: &str, key: &str, place: &Path) -> anyhow::Result<Outcome> {
    let plugins = subject.client.get("/v1/admin/plugins").await?;
    let mut items = plugins["items"].as_array().into_iter().flatten();
    let item = items.find(|item| item["name"] == subject.name()).context("the host lists no such plugin")?;
    let declared = declared(item);
    if declared.is_empty() {
        return Ok(Outcome::Skipped("the plugin draws nothing in the Admin UI".to_owned()));
    }
    let main = item["frontend"]["main_url"].as_str().context("the host serves no module of it")?;
    let (address, api) = (url::Url::parse(url)?, format!("{url}/v1/admin"));
    let module = address.join(main)?;
    // What stands for `frontend/` in the module's address.
    let root: Vec<&str> = main.split('/').take(ROOT_PARTS).collect();
    let root = address.join(&format!("{}/", root.join("/")))?;
    let card = subject.client.get(&format!("/v1/admin/master-cards/{}", subject.card)).await?;
    let given = json!({"module": module.as_str(), "root": root.as_str(), "api": api, "key": key, "item": card["item"]});
    let page = place.join("page.html");
    // No text of the card ends the script.
    let given = given.to_string().replace('<', "\\u003c");
    fs::write(&page, PAGE.replace(GIVEN, &given)).context("writing the page")?;
    match browse(&page, place).await? {
        Some(shown) => {
            let mut found = found(&shown);
            if let Some(found) = &mut found {
                add_reasons(subject, found).await;
            }
            Ok(evaluate(&declared, found.as_ref()))
        }
        None => Ok(Outcome::Skipped(format!("no browser is installed (looked for {})", BROWSERS.join(", ")))),
    }
}

/// What the module has to register. The host itself asks for an action with a route.
fn declared(item: &Value) -> BTreeSet<String> {
    let of = |list: &str, kind: &'static str| {
        let items = item[list].as_array().cloned().unwrap_or_default().into_iter();
        let drawn = items.filter(|one| one.get("route").is_none_or(Value::is_null));
        drawn.filter_map(move |one| Some(format!("{kind} {}", one["id"].as_str()?)))
    };
    of("tabs", "tab").chain(of("pages", "page")).chain(of("card_actions", "action")).collect()
}

/// The page as the browser has it at the end; none without a browser.
async fn browse(page: &Path, place: &Path) -> anyhow::Result<Option<String>> {
    for browser in BROWSERS {
        let mut command = Command::new(browser);
        // A throwaway profile, and the author's own code: what the sandbox needs is not everywhere allowed.
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", VIRTUAL_TIME]);
        // The page is a file, and asks the host with a key of its own.
        command.arg("--disable-web-security");
        command.arg(format!("--user-data-dir={}", place.join("browser").display())).arg("--dump-dom");
        command.arg(format!("file://{}", page.display()));
        command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        match tokio::time::timeout(BROWSER_TIMEOUT, command.output()).await {
            Ok(Ok(output)) => return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
            Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {}
            Ok(Err(error)) => return Err(error).with_context(|| format!("starting {browser}")),
            Err(_) => bail!("{browser} did not load the module within {BROWSER_TIMEOUT:?}"),
        }
    }
    Ok(None)
}

/// Puts behind each failure of a request why the plugin failed, which its answer does not say.
async fn add_reasons(subject: &Subject, found: &mut Value) {
    add_reason(subject, found, "error").await;
    for problem in found.get_mut("problems").and_then(Value::as_array_mut).into_iter().flatten() {
        add_reason(subject, problem, "text").await;
    }
}

async fn add_reason(subject: &Subject, failure: &mut Value, member: &str) {
    let Some(request_id) = failure["request_id"].as_str() else { return };
    let Some(reason) = subject.find_reason(request_id).await else { return };
    failure[member] = format!("{}: {reason}", failure[member].as_str().unwrap_or_default()).into();
}

fn evaluate(declared: &BTreeSet<String>, found: Option<&Value>) -> Outcome {
    let Some(found) = found else { return Outcome::Bad("the browser printed nothing".to_owned()) };
    if let Some(error) = found["error"].as_str() {
        return Outcome::Bad(error.to_owned());
    }
    let list_of = |name: &str| found[name].as_array().into_iter().flatten();
    let registered: BTreeSet<String> =
        list_of("registered").filter_map(|one| one.as_str().map(str::to_owned)).collect();
    let problems: Vec<String> = list_of("problems").filter_map(|one| one["text"].as_str().map(str::to_owned)).collect();
    match registered == *declared {
        false => {
            Outcome::Bad(format!("its module registers {}, the manifest has {}", list(&registered), list(declared)))
        }
        true if problems.is_empty() => {
            Outcome::Good(format!("its module loads in a browser and draws {} for a card", list(declared)))
        }
        true => Outcome::Bad(some(&problems)),
    }
}

/// What the page has found out, in the browser's HTML.
fn found(shown: &str) -> Option<Value> {
    let (_, after) = shown.split_once(BEGIN)?;
    let (text, _) = after.split_once(END)?;
    serde_json::from_str(&text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).ok()
}

fn list(ids: &BTreeSet<String>) -> String {
    match ids.is_empty() {
        true => "nothing".to_owned(),
        false => ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_registered_is_what_the_manifest_says() {
        let item = json!({
            "tabs": [{"id": "notes"}], "pages": [{"id": "notes"}],
            "card_actions": [{"id": "drawn", "route": null}, {"id": "called", "route": {"method": "POST"}}]
        });
        let declared = declared(&item);
        let page = |json: &str| format!("<html><pre id=\"found\">{json}</pre></html>");
        let evaluate = |declared, page: &str| super::evaluate(declared, found(page).as_ref());
        assert!(matches!(
            evaluate(&declared, &page(r#"{"registered":["page notes","tab notes","action drawn"],"problems":[]}"#)),
            Outcome::Good(_)
        ));
        assert!(matches!(evaluate(&declared, &page(r#"{"registered":["tab notes"],"problems":[]}"#)), Outcome::Bad(_)));
        let all = r#"{"registered":["page notes","tab notes","action drawn"],"problems":[{"text":"tab notes: no"}]}"#;
        assert!(matches!(evaluate(&declared, &page(all)), Outcome::Bad(text) if text == "tab notes: no"));
        let error = evaluate(&declared, &page(r#"{"error":"SyntaxError: '&lt;' &amp;amp;"}"#));
        assert!(matches!(error, Outcome::Bad(text) if text == "SyntaxError: '<' &amp;"));
        assert!(matches!(evaluate(&declared, ""), Outcome::Bad(_)));
        assert!(PAGE.contains(BEGIN) && PAGE.contains(GIVEN));
    }
}
