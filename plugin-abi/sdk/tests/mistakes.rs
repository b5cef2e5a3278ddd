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

/// A library beside this test program: the newest, when several were built with different features.
fn built(library: &str) -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(&format!("lib{library}-")) && name.ends_with(".rlib")
    };
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_it);
    found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).expect("it was built with this test")
}

/// What `plugins/mistakes.md` says that one reads after the mistake of this number: the parts in double backticks.
fn on_page(number: usize) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/mistakes.md");
    let page = fs::read_to_string(page).unwrap();
    let row = page.lines().find(|line| line.starts_with(&format!("| {number} |"))).unwrap();
    let parts: Vec<String> = row.split("``").skip(1).step_by(2).map(|part| part.trim().to_owned()).collect();
    assert!(!parts.is_empty(), "{row}");
    parts
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
    let sdk = built("cardinal_plugin");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=notes", "--emit=metadata", "--cap-lints=warn"])
        .arg("--extern")
        .arg(format!("cardinal_plugin={}", sdk.display()))
        .arg("--extern")
        .arg(format!("anyhow={}", built("anyhow").display()))
        .arg("-L")
        .arg(format!("dependency={}", sdk.parent().unwrap().display()))
        .arg("--out-dir")
        .arg(root)
        .args(flags)
        .arg(root.join("src/lib.rs"))
        .env("CARGO_MANIFEST_DIR", root)
        // Where the lines of the SDK are found that the compiler shows.
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), !said.contains("error"), "{said}");
    if output.status.success() { String::new() } else { said }
}

#[track_caller]
fn assert_said(said: &str, parts: &[impl AsRef<str>]) {
    for part in parts {
        assert!(said.contains(part.as_ref()), "`{}` is not in:\n{said}", part.as_ref());
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
    let said = compile(MANIFEST, &library);
    assert_said(&said, &["a handler cannot return `", "Vec<", "Ok(Response::json(&value))", ".get(\"/list\", list)"]);
    for (output, shown) in [
        ("Option<Response>", "`std::option::Option<cardinal_plugin::Response>`"),
        ("Response", "`cardinal_plugin::Response`"),
        ("std::result::Result<Response, std::io::Error>", "`Result<cardinal_plugin::Response, std::io::Error>`"),
    ] {
        let library = LIBRARY.replace("-> Result<Response>", &format!("-> {output}"));
        let said = compile(MANIFEST, &library.replace("Ok(Response::empty())", "todo!()"));
        assert_said(
            &said,
            &[&format!("a handler cannot return {shown}"), "a handler returns `cardinal_plugin::Result"],
        );
    }
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

/// The plugin with this in its handler, before the end.
fn handler_with(lines: &str) -> String {
    LIBRARY.replace("    Ok(Response::empty())", &format!("{lines}\n    Ok(Response::empty())"))
}

#[test]
fn the_page_of_mistakes_has_what_the_compiler_says() {
    let wait = "std::future::ready(()).await; drop(held);";
    let list = "async fn list(_ctx: PluginContext, _req: Request)";
    let mistakes = [
        (1, LIBRARY.replace("_ctx: PluginContext,", "_ctx: &PluginContext,")),
        (2, LIBRARY.replace("Result<Response>", "Result<Vec<String>>").replace("Response::empty()", "Vec::new()")),
        (3, handler_with(&format!("let held = std::rc::Rc::new(1); {wait}"))),
        (
            4,
            handler_with(&format!(
                "static A: std::sync::Mutex<u8> = std::sync::Mutex::new(1);\nlet held = A.lock(); {wait}"
            )),
        ),
        (7, handler_with("let _: Add = _req.input().await?;") + "struct Add { text: String }"),
        (8, handler_with("_ctx.get_plugin_conn().await?.query(\"\", &[&7_u64]).await?;")),
        (11, LIBRARY.replace("async fn list", "fn list")),
        (12, handler_with("let conn = _ctx.get_plugin_conn().await?;\nconn.transaction().await?;")),
        (17, LIBRARY.replace(list, "async fn list(_ctx: PluginContext)")),
        (19, LIBRARY.replace("Result<Response>", "Response").replace("Ok(Response::empty())", "Response::empty()")),
    ];
    for (number, library) in &mistakes {
        assert_said(&compile(MANIFEST, library), &on_page(*number));
    }
    let misspelt = MANIFEST.replace("\"handler\": \"list\"", "\"handler\": \"lisst\"");
    assert_said(&compile(&misspelt, LIBRARY), &on_page(15));
    assert_said(&compile_with(&["-Cpanic=abort"], MANIFEST, LIBRARY), &on_page(16));
}

#[test]
fn what_the_page_of_mistakes_calls_none_any_more_compiles() {
    // 9
    let library = LIBRARY.replace("-> Router {", "-> Result<Router> {");
    let library = library.replace("Router::new().get(\"/list\", list)", "Ok(Router::new().get(\"/list\", list))");
    assert_eq!(compile(MANIFEST, &library), "");
    // 10
    let library = handler_with("read()?;") + "fn read() -> anyhow::Result<()> { anyhow::bail!(\"no page\") }";
    assert_eq!(compile(MANIFEST, &library), "");
}
