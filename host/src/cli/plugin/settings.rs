use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use http::{HeaderValue, Method, Request, header};
use serde_json::{Map, Value, json};

use super::remote::{REGISTRY, block_on, escaped};
use crate::cli::{
    client::{Client, full},
    table::table,
};
use cardinal_base::{config::ClientSettings, exact};
use cardinal_plugin_host::settings::secret;

/// Show a plugin's settings, or change them
///
/// KEY=VALUE changes one and leaves the others; VALUE is JSON, or a text where it is none or the plugin wants one. What
/// is set holds on every host of the database within seconds, and is checked against the plugin's settings_schema
/// first. A secret is no argument, as others on the machine can read those: KEY=@FILE takes it from a file, KEY=@- from
/// standard input; so it does of what is no text, as a list.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin settings notes
  cardinal plugin settings notes longest_note=500 --unset greeting
  cardinal plugin settings notes token=@token.txt
      a secret, without the line break at its end; the other settings stay
  cardinal plugin settings notes --file notes.json
      exactly what is in the file, - for standard input; {\"set\": true} leaves a secret as it is")]
pub(super) struct Args {
    /// Name of the plugin
    name: String,
    /// Settings to change
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value)]
    changes: Vec<String>,
    /// Reset a setting to the environment's value or the default; repeatable
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Set what this JSON file says, and nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["changes", "unset"])]
    file: Option<PathBuf>,
    /// Print everything that the host tells as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: ClientSettings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let file = args.file.as_deref().map(read).transpose()?;
    let shown = block_on(async {
        let client = Client::new(&args.host.read()?)?;
        let path = format!("{REGISTRY}/{}/settings", escaped(&args.name));
        let now = client.get(&path).await?;
        match file {
            Some(wanted) => put(&client, &path, &now, wanted).await,
            None if args.changes.is_empty() && args.unset.is_empty() => Ok(now),
            None => {
                let wanted = changed(&now, &args.changes, &args.unset)?;
                put(&client, &path, &now, wanted).await
            }
        }
    })?;
    let text = if args.json { serde_json::to_string_pretty(&shown)? + "\n" } else { lines(&shown) };
    std::io::stdout().write_all(text.as_bytes()).context("writing to standard output")
}

/// A file, or standard input for `-`.
fn text_of(file: &Path) -> anyhow::Result<String> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    text.with_context(|| format!("reading {}", file.display()))
}

fn read(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = text_of(file)?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a JSON object", file.display()))
}

fn key_and_value(change: &str) -> Result<String, &'static str> {
    if change.contains('=') { Ok(change.to_owned()) } else { Err("it has no `=`") }
}

/// What is stored, with the changes: secrets in it stand for themselves.
fn changed(now: &Value, changes: &[String], unset: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut stored = now["stored"].as_object().cloned().unwrap_or_default();
    for key in unset {
        ensure!(stored.remove(key).is_some(), "--unset {key}: it is not set");
    }
    for change in changes {
        let Some((key, value)) = change.split_once('=') else { bail!("{change:?} is not KEY=VALUE") };
        stored.insert(key.to_owned(), value_of(&now["schema"], key, value)?);
    }
    Ok(stored)
}

/// What stands behind the `=`, or in the file that is named there.
fn value_of(schema: &Value, key: &str, value: &str) -> anyhow::Result<Value> {
    let kind = &schema["properties"][key]["type"];
    let parsed = |text: &str| match serde_json::from_str(text) {
        Ok(json) if kind != "string" => json,
        _ => Value::from(text),
    };
    if let Some(pointer) = exact::first_inexact(value).filter(|_| kind != "string") {
        bail!("{key}{pointer}: this number can't be kept with all its digits");
    }
    let given = parsed(value);
    let holds_secret = !secret::pointers(schema, &json!({ key: &given })).is_empty();
    match value.strip_prefix('@') {
        // Of what is no text, `@` is no beginning.
        Some(file) if holds_secret || kind.as_str().is_some_and(|kind| kind != "string") => {
            Ok(parsed(&without_line_break(&text_of(Path::new(file))?)))
        }
        _ if holds_secret => {
            bail!("{key} holds a secret, and others can read arguments: put it in a file and write {key}=@FILE")
        }
        _ => Ok(given),
    }
}

/// Editors and `echo` end a file with a line break that is no part of a secret.
fn without_line_break(text: &str) -> String {
    let line = text.strip_suffix('\n').unwrap_or(text);
    line.strip_suffix('\r').unwrap_or(line).to_owned()
}

/// In the place of what was read, and of nothing that came in between.
async fn put(client: &Client, path: &str, now: &Value, wanted: Map<String, Value>) -> anyhow::Result<Value> {
    let body = Value::Object(wanted).to_string();
    let mut request = Request::new(full(body));
    *request.method_mut() = Method::PUT;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::IF_MATCH, HeaderValue::try_from(format!("\"{}\"", now["version"]))?);
    let answer = client.send(path, request).await?;
    Ok(client.whole(answer).await?)
}

/// Each setting that the plugin gets, and who says so.
fn lines(shown: &Value) -> String {
    if shown["schema"].is_null() {
        return "The plugin has no settings.\n".to_owned();
    }
    let line = |(key, value): (&String, &Value)| {
        let sources = [("stored", "set"), ("environment", "environment"), ("defaults", "default")];
        let from = sources.iter().find(|(layer, _)| shown[*layer].get(key).is_some());
        [key.clone(), value.to_string(), from.map_or("", |(_, name)| name).to_owned()]
    };
    let lines: Vec<[String; 3]> = shown["settings"].as_object().into_iter().flatten().map(line).collect();
    table(["SETTING", "VALUE", "FROM"], &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Value {
        json!({"stored": {"key": {"set": true}, "count": 1}, "settings": {"key": {"set": true}, "count": 1, "word": "a"},
            "defaults": {"word": "a", "count": 5}, "environment": {}, "version": 3,
            "schema": {"properties": {"key": {"type": "string", "writeOnly": true}, "word": {"type": "string"},
                "server": {"type": "object", "properties": {"password": {"$ref": "#/properties/key"}}}}}})
    }

    fn set(changes: &[&str], unset: &[&str]) -> anyhow::Result<Value> {
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        changed(&now(), &owned(changes), &owned(unset)).map(Value::Object)
    }

    #[test]
    fn a_change_leaves_the_others_and_secrets_alone() {
        assert_eq!(set(&["count=2", "word=7"], &[]).unwrap(), json!({"key": {"set": true}, "count": 2, "word": "7"}));
        assert_eq!(
            set(&["list=[1]", "free=a=b"], &["count"]).unwrap(),
            json!({"key": {"set": true}, "list": [1], "free": "a=b"})
        );
        for (changes, unset) in [(&["key=x"][..], &[][..]), (&["count"], &[]), (&[], &["word"])] {
            assert!(set(changes, unset).is_err(), "{changes:?} {unset:?}");
        }
    }

    #[test]
    fn a_secret_comes_from_a_file_and_leaves_the_others_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "s3 cret\r\n").unwrap();
        let change = format!("key=@{}", file.display());
        assert_eq!(set(&[&change], &[]).unwrap(), json!({"key": "s3 cret", "count": 1}));
        let told = set(&["key=s3cret"], &[]).unwrap_err().to_string();
        assert!(told.contains("key=@FILE") && !told.contains("s3cret"), "{told}");
        assert!(set(&["key=@/nowhere"], &[]).is_err());
        assert_eq!(set(&["word=@x"], &[]).unwrap()["word"], "@x", "a text may begin so");
        let within = r#"server={"password": "s3cret"}"#;
        assert!(set(&[within], &[]).unwrap_err().to_string().contains("server=@FILE"));
        fs::write(&file, &within["server=".len()..]).unwrap();
        let change = format!("server=@{}", file.display());
        assert_eq!(set(&[&change], &[]).unwrap()["server"], json!({"password": "s3cret"}));
    }

    #[test]
    fn each_value_is_shown_with_where_it_comes_from() {
        let shown = lines(&now());
        let cells: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(
            cells.contains(&vec!["count", "1", "set"]) && cells.contains(&vec!["word", "\"a\"", "default"]),
            "{shown}"
        );
        assert_eq!(lines(&json!({"schema": null})), "The plugin has no settings.\n");
    }
}
