//! What the compiler says of an author's mistakes. Each plugin here is compiled against the SDK that was built for the
//! tests.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{fs, path::PathBuf, process::Command};

const MANIFEST: &str = r#"{
  "name": "notes",
  "version": "1.0.0",
  "engine": { "core_version": ">=1.0.0", "plugin_api_version": "1" },
  "backend": {},
  "mcp": { "tools": [{ "name": "plugin_notes_list", "description": "Lists.", "handler": "list" }] }
}"#;

/// A plugin whose parts can be replaced.
const LIBRARY: &str = "
use cardinal_plugin::{PluginContext, Request, Response, Result, Router};

pub fn routes(_: &PluginContext) -> Router {
    Router::new().get(\"/list\", list)
}

async fn list(_ctx: PluginContext, _req: Request) -> Result<Response> {
    Ok(Response::empty())
}

cardinal_plugin::plugin!(routes);
";

/// The SDK beside this test program: the newest, when several were built with different features.
fn sdk() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_sdk = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libcardinal_plugin-") && name.ends_with(".rlib")
    };
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_sdk);
    found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).expect("the SDK was built with this test")
}

/// Compiles a plugin; what the compiler said, nothing when it was content.
fn compile(manifest: &str, library: &str) -> String {
    compile_with(&[], manifest, library)
}

fn compile_with(flags: &[&str], manifest: &str, library: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("manifest.json"), manifest).unwrap();
    fs::write(root.join("src/lib.rs"), library).unwrap();
    let sdk = sdk();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=notes", "--emit=metadata", "--cap-lints=warn"])
        .arg("--extern")
        .arg(format!("cardinal_plugin={}", sdk.display()))
        .arg("-L")
        .arg(format!("dependency={}", sdk.parent().unwrap().display()))
        .arg("--out-dir")
        .arg(root)
        .args(flags)
        .arg(root.join("src/lib.rs"))
        .env("CARGO_MANIFEST_DIR", root)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), !said.contains("error"), "{said}");
    if output.status.success() { String::new() } else { said }
}

#[track_caller]
fn assert_said(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
}

#[test]
fn a_plugin_without_mistakes_compiles() {
    assert_eq!(compile(MANIFEST, LIBRARY), "");
}

#[test]
fn routes_may_return_a_result() {
    let library = LIBRARY.replace("-> Router {", "-> Result<Router> {");
    let library = library.replace("Router::new().get(\"/list\", list)", "Ok(Router::new().get(\"/list\", list))");
    assert_eq!(compile(MANIFEST, &library), "");
}

#[test]
fn routes_that_return_something_else_are_named() {
    let said = compile(MANIFEST, &LIBRARY.replace("pub fn routes", "pub async fn routes"));
    assert_said(&said, &["which is not a router", "without `async`", "src/lib.rs:"]);
    let unit = LIBRARY.replace("-> Router {", "{").replace("get(\"/list\", list)", "get(\"/list\", list);");
    assert_said(&compile(MANIFEST, &unit), &["`routes` returns `()`, which is not a router"]);
}

#[test]
fn a_handler_that_is_not_async_is_told_the_line_to_write() {
    let said = compile(MANIFEST, &LIBRARY.replace("async fn list", "fn list"));
    assert_said(&said, &["which is no future", "write `async fn name(ctx: PluginContext", ".get(\"/list\", list)"]);
}

#[test]
fn a_handler_that_returns_no_response_is_told_what_becomes_one() {
    let library = LIBRARY.replace("Result<Response>", "Result<Vec<String>>").replace("Response::empty()", "Vec::new()");
    assert_said(
        &compile(MANIFEST, &library),
        &[
            "`cardinal_plugin::Response: From<Vec<",
            "`cardinal_plugin::Response` implements `From<",
            ".get(\"/list\", list)",
        ],
    );
}

#[test]
fn what_cannot_move_between_threads_is_named_with_its_line() {
    let body = "let held = std::rc::Rc::new(1); std::future::ready(()).await; drop(held); Ok(Response::empty())";
    let said = compile(MANIFEST, &LIBRARY.replace("    Ok(Response::empty())", body));
    assert_said(&said, &["cannot be sent between threads safely", "Rc<", "await"]);
}

#[test]
fn a_manifest_that_does_not_fit_is_told_with_its_line() {
    let said = compile(&MANIFEST.replace("\"notes\"", "\"Notes\""), LIBRARY);
    assert_said(&said, &["manifest.json:2: the name \"Notes\" must be lower-case words joined by hyphens"]);
    let said = compile(&MANIFEST.replace("\"handler\": \"list\"", "\"handler\": \"lisst\""), LIBRARY);
    assert_said(&said, &["manifest.json:6: there is no handler `lisst` in src/; did you mean `list`?"]);
    let said = compile(&MANIFEST.replace("plugin_notes_list", "notes_list"), LIBRARY);
    assert_said(&said, &["manifest.json:6: the tool's name \"notes_list\" must be plugin_notes_<action>"]);
    let said = compile(&MANIFEST.replace("\"backend\": {},", "\"backend\": {},,"), LIBRARY);
    assert_said(&said, &["manifest.json:5: this is not JSON: a name in quotes was expected, not `,`"]);
    let said = compile(&MANIFEST.replace("\"backend\": {},", "\"backend\": {}"), LIBRARY);
    assert_said(&said, &["manifest.json:6: this is not JSON: `,` or `}` was expected, not `\"`"]);
}

#[test]
fn a_library_that_would_end_the_host_by_its_panics_does_not_compile() {
    let said = compile_with(&["-Cpanic=abort"], MANIFEST, LIBRARY);
    assert_said(&said, &["would end the whole host", "take `panic = \"abort\"` out of the profile in Cargo.toml"]);
}

#[test]
fn a_type_that_is_not_made_of_a_row_is_told_how_to_become_one() {
    let derive = |item: &str| compile(MANIFEST, &format!("#[derive(cardinal_plugin::FromRow)] {item} {LIBRARY}"));
    assert_eq!(
        derive("pub struct A { pub(crate) a: std::collections::HashMap<i64, Vec<u8>>, b: fn(u8) -> u8 }")
            .matches("error[")
            .count(),
        2
    );
    assert_said(&derive("struct A(i64);"), &["structs with named fields; for `A`, ask for a tuple"]);
    assert_said(&derive("struct A<T> { a: T }"), &["structs without parameters"]);
    assert_said(&derive("enum A { B }"), &["structs with named fields"]);
    assert_said(
        &derive("struct A { #[row(named = \"x\")] a: i64 }"),
        &["takes `name = \"column\"` and `json`, not `named`"],
    );
    let body = "_ctx.get_plugin_conn().await?.query_as::<String>(\"\", &[]).await?; Ok(Response::empty())";
    let said = compile(MANIFEST, &LIBRARY.replace("    Ok(Response::empty())", body));
    assert_said(&said, &["`std::string::String` is not made of a row", "#[derive(cardinal_plugin::FromRow)]"]);
}
