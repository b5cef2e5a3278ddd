#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

mod contributes;
mod jobs;
mod mcp;
mod spelling;

fn valid() -> Value {
    json!({
        "$schema": "https://example.org/manifest.json",
        "name": "price-watch", "version": "1.2.3", "title": "Price watch", "description": "Watches", "author": "A",
        "engine": {"core_version": ">=1.0.0", "plugin_api_version": "1"},
        "contributes": {"cardTabs": [{"id": "prices", "label": "Prices", "icon": "tag"}]},
        "provides_kinds": ["price"], "reads_kinds": ["supplier"],
        "frontend": {"main": "plugin.js"},
        "backend": {"apiPrefix": "prices", "routes": [
            {"method": "GET", "path": "/items/{id}", "handler": "item", "scope": "read", "timeout_ms": 500,
             "max_body_bytes": 0, "request_schema": {"type": "object"}, "response_schema": true, "summary": "One"}]},
        "mcp": {"tools": [{"name": "plugin_price_watch_find", "description": "Finds", "handler": "find",
            "requires_confirmation": true, "preview": "shown", "rate_limit": {"per_minute": 60, "burst": 5},
            "input_schema": {"properties": {}}, "annotations": {"readOnlyHint": true}}],
            "prompts": [{"name": "plugin_price_watch_compare", "title": "Compare", "description": "Compares",
                "arguments": [{"name": "sku", "description": "Which", "required": true}, {"name": "shop"}],
                "messages": [{"role": "user", "text": "Compare {{sku}} at {{ shop }}."}]}]},
        "settings_schema": {"type": "object"},
        "limits": {"max_concurrency": 8, "timeout_ms": 1000, "db_connections": 2}
    })
}

fn minimal() -> Value {
    json!({"name": "p", "version": "0.1.0", "engine": {"core_version": ">=1.0.0", "plugin_api_version": "1"}})
}

fn read(value: &Value) -> Result<(Manifest, Vec<Warning>), Problems> {
    Manifest::read(value.to_string().as_bytes())
}

/// `base` with the value at `pointer` replaced (or taken away, when `None`).
fn with(mut base: Value, pointer: &str, value: Option<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = base.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(map), Some(value)) => drop(map.insert(name.to_owned(), value)),
        (Value::Object(map), None) => drop(map.remove(name)),
        (Value::Array(items), Some(value)) => items.insert(name.parse().unwrap(), value),
        (other, _) => panic!("no place for {name} in {other}"),
    }
    base
}

/// The only problem of `valid()` with one value replaced.
fn problem(pointer: &str, value: Option<Value>) -> Problem {
    let Problems(mut problems) = read(&with(valid(), pointer, value)).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

#[test]
fn a_full_manifest_reads_without_a_warning() {
    let (manifest, warnings) = read(&valid()).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(manifest.name, "price-watch");
    assert_eq!(manifest.api_prefix(), Some("prices"));
    assert_eq!(manifest.limits.timeout, Duration::from_secs(1));
    let tool = &manifest.tools[0];
    assert_eq!(tool.access(), Access::Write, "what must be confirmed writes");
    assert_eq!(tool.input_schema.as_ref().unwrap()["type"], "object");
    let route = &manifest.backend.as_ref().unwrap().routes.as_ref().unwrap()[0];
    assert_eq!((route.max_body_bytes, route.scope), (Some(0), Some(Access::Read)));
}

#[test]
fn the_mandatory_fields_are_enough() {
    let (manifest, _) = read(&minimal()).unwrap();
    assert_eq!(manifest.backend, None);
    assert_eq!(manifest.limits, Limits::default());
    assert_eq!(manifest.display_title(), "p");
}

#[test]
fn the_prefix_is_the_name_when_nothing_is_said() {
    let (manifest, _) = read(&with(minimal(), "/backend", Some(json!({})))).unwrap();
    assert_eq!(
        manifest.backend,
        Some(Backend { api_prefix: "p".to_owned(), routes: None, jobs: Vec::new(), schedule: Vec::new() })
    );
}

#[test]
fn each_mandatory_field_is_missed_by_name() {
    for pointer in ["/name", "/version", "/engine", "/engine/core_version", "/engine/plugin_api_version"] {
        let Problems(problems) = read(&with(minimal(), pointer, None)).unwrap_err();
        assert_eq!((problems[0].pointer.as_str(), problems[0].found.as_str()), (pointer, "nothing"));
    }
}

#[test]
fn a_wrong_type_names_place_found_and_expected() {
    let api = problem("/engine/plugin_api_version", Some(json!(1)));
    assert_eq!(api.code, Code::BadManifest);
    assert_eq!((api.pointer.as_str(), api.found.as_str()), ("/engine/plugin_api_version", "the number 1"));
    assert_eq!(problem("/title", Some(json!(null))).found, "null");
    assert_eq!(problem("/provides_kinds", Some(json!("price"))).expected, "an array");
    assert_eq!(problem("/mcp/tools/0/requires_confirmation", Some(json!("yes"))).expected, "true or false");
    let hint = problem("/mcp/tools/0/annotations", Some(json!({"title": "T", "readOnlyHint": "yes"})));
    assert_eq!(
        (hint.pointer.as_str(), hint.expected.as_str()),
        ("/mcp/tools/0/annotations/readOnlyHint", "true or false")
    );
    let schema = problem("/mcp/tools/0/input_schema", Some(json!({"type": "array"})));
    assert_eq!((schema.pointer.as_str(), schema.expected.as_str()), ("/mcp/tools/0/input_schema/type", "\"object\""));
    assert_eq!(schema.found, "the string \"array\"");
    let written = with(valid(), "/limits/timeout_ms", Some(json!(3e4)));
    assert_eq!(read(&written).unwrap().0.limits.timeout, Duration::from_secs(30));
    assert_eq!(problem("/limits/timeout_ms", Some(json!(0.5))).found, "the number 0.5");
    assert_eq!(problem("/limits/timeout_ms", Some(json!(0))).expected, "a whole number from 1 to 600000");
    let nonsense = json!({"properties": {"size": {"type": "nonsense"}}});
    assert_eq!(problem("/settings_schema", Some(nonsense)).pointer, "/settings_schema/properties/size/type");
    assert_eq!(problem("/settings_schema", Some(json!({"type": "array"}))).pointer, "/settings_schema/type");
}

#[test]
fn default_settings_that_do_not_fit_are_a_warning() {
    let warnings = |schema: Value| read(&with(minimal(), "/settings_schema", Some(schema))).unwrap().1;
    let too_small = json!({"properties": {"size": {"type": "integer", "minimum": 1, "default": 0}}});
    let found = warnings(too_small);
    assert_eq!((found.len(), found[0].pointer.as_str()), (1, "/settings_schema"));
    assert!(found[0].message.contains("/size: 0 is less than the minimum of 1"), "{found:?}");
    assert!(warnings(json!({"required": ["token"]}))[0].message.contains("\"token\" is a required property"));
    assert_eq!(warnings(json!({"required": ["size"], "properties": {"size": {"default": 2}}})), []);
}

#[test]
fn names_are_kebab_case_and_not_reserved() {
    for name in ["Price", "a_b", "-a", "a-", "a--b", "1a", "", "é", &"a".repeat(41)] {
        let Problems(problems) = read(&with(minimal(), "/name", Some(json!(name)))).unwrap_err();
        assert_eq!(problems[0].code, Code::BadName, "{name}");
    }
    for name in ["core", "mcp", "pg", "pg-stat", "admin"] {
        let Problems(problems) = read(&with(minimal(), "/name", Some(json!(name)))).unwrap_err();
        assert_eq!(problems[0].code, Code::ReservedName, "{name}");
    }
    assert!(read(&with(minimal(), "/name", Some(json!("pgx")))).is_ok());
}

#[test]
fn tools_carry_the_plugins_name() {
    for name in ["price_watch_find", "plugin_price-watch_find", "plugin_price_watch_", "plugin_other_find"] {
        assert_eq!(problem("/mcp/tools/0/name", Some(json!(name))).code, Code::BadToolName, "{name}");
    }
    let twice = valid()["mcp"]["tools"][0].clone();
    assert_eq!(problem("/mcp/tools/1", Some(twice)).code, Code::DuplicateTool);
}

#[test]
fn tabs_and_entry_point_need_each_other() {
    assert_eq!(problem("/frontend", None).pointer, "/frontend");
    assert_eq!(problem("/contributes", None).pointer, "/contributes");
    assert_eq!(
        problem("/contributes/cardTabs/1", Some(json!({"id": "prices", "label": "x"}))).code,
        Code::DuplicateTab
    );
}

#[test]
fn the_entry_point_stays_in_its_folder() {
    for main in ["../plugin.js", "/plugin.js", "a//b.js", "plugin.html", "c:\\x.js", "frontend/../x.js", ""] {
        assert_eq!(problem("/frontend/main", Some(json!(main))).pointer, "/frontend/main", "{main}");
    }
    for (main, read_as) in [("./plugin.js", "plugin.js"), ("frontend/plugin.js", "plugin.js"), ("a/b.mjs", "a/b.mjs")] {
        let (manifest, _) = read(&with(valid(), "/frontend/main", Some(json!(main)))).unwrap();
        assert_eq!(manifest.frontend_main.as_deref(), Some(read_as));
    }
}

#[test]
fn routes_are_methods_and_templates_each_once() {
    for path in ["items", "/a//b", "/a/../b", "/a?b", "/{", "/a/{x}{y}", "/%2f", ""] {
        assert_eq!(problem("/backend/routes/0/path", Some(json!(path))).pointer, "/backend/routes/0/path", "{path}");
    }
    assert_eq!(problem("/backend/routes/0/method", Some(json!("get"))).pointer, "/backend/routes/0/method");
    let twice = valid()["backend"]["routes"][0].clone();
    assert_eq!(problem("/backend/routes/1", Some(twice)).pointer, "/backend/routes/1");
    let of_item = |name: &str| json!({"method": "DELETE", "path": format!("/items/{{{name}}}/price")});
    let same = with(valid(), "/backend/routes", Some(json!([of_item("id"), of_item("item")])));
    let Problems(problems) = read(&same).unwrap_err();
    assert_eq!(problems[0].pointer, "/backend/routes/1", "other names make no other path");
    assert_eq!(problem("/backend/routes/0/path", Some(json!("/{x}/{x}"))).pointer, "/backend/routes/0/path");
    assert!(read(&with(valid(), "/backend/routes/0/path", Some(json!("/{x}/{*y}")))).is_ok());
    for prefix in ["Prices", "a/b", "", "/prices"] {
        assert_eq!(problem("/backend/apiPrefix", Some(json!(prefix))).pointer, "/backend/apiPrefix");
    }
}

#[test]
fn unknown_fields_are_warnings_with_their_place() {
    let manifest = with(valid(), "/engine/later~0", Some(json!(1)));
    let (_, warnings) = read(&with(manifest, "/whatever", Some(json!({"deep": true})))).unwrap();
    let places: Vec<_> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(places, ["/whatever", "/engine/later~00"]);
}

#[test]
fn a_slip_in_a_field_is_told_with_what_was_meant() {
    let messages = |pointer: &str, value: Value| -> Vec<String> {
        let (_, warnings) = read(&with(valid(), pointer, Some(value))).unwrap();
        warnings.into_iter().map(|warning| warning.message).collect()
    };
    for (slip, meant) in [("/descripton", "description"), ("/contributes/cardAction", "cardActions")] {
        let found = messages(slip, json!([]));
        assert!(found[0].ends_with(&format!("no effect. Did you mean `{meant}`?")), "{slip}: {found:?}");
    }
    assert!(messages("/whatever", json!(1))[0].ends_with("no effect."));
}

#[test]
fn all_problems_are_told_at_once() {
    let refusal: Refusal = read(&json!({"name": 7, "version": "x", "engine": []})).unwrap_err().into();
    assert_eq!(refusal.code, Code::BadManifest);
    for place in ["/name", "/version", "/engine"] {
        assert!(refusal.reason.contains(place), "{}", refusal.reason);
    }
    assert_eq!(refusal.found.as_deref(), Some("/name: the number 7"));
}

#[test]
fn what_is_no_json_is_refused_as_such() {
    for bytes in [&b""[..], b"hello", b"{", b"[]", &[0xff; 9], "[".repeat(10_000).as_bytes()] {
        assert_eq!(Manifest::read(bytes).unwrap_err().0[0].code, Code::BadManifest);
    }
}

#[test]
fn the_name_of_a_wrong_manifest_is_still_found() {
    let found = |text: &str| {
        let Hints { name, api_prefix } = hints(text.as_bytes());
        (name, api_prefix)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(found(r#"{"name":"p","version":1}"#), (some("p"), None));
    assert_eq!(found(r#"{"name":"p","backend":{}}"#), (some("p"), some("p")));
    assert_eq!(found(r#"{"name":"../p","backend":{"apiPrefix":"x"}}"#), (None, some("x")));
    assert_eq!(found(r#"{"name":1,"backend":{"apiPrefix":"/x"}}"#), (None, None));
    assert_eq!(found("{"), (None, None));
    assert_eq!(found("\u{feff}{\"name\":\"p\"}"), (some("p"), None), "some editors write a byte order mark");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z/~_]{0,8}", inner, 0..5).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Pointers to every value of a document but its root.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => return,
    };
    for (name, value) in children {
        out.push(format!("{at}/{name}"));
        places(value, format!("{at}/{name}"), out);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(Problems(problems)) = Manifest::read(&bytes) {
            prop_assert!(!problems.is_empty());
        }
    }

    /// Whatever stands at one place: the manifest is taken, or every problem has a code, both
    /// values and a place that lies at, above or below the change or is one that depends on it.
    #[test]
    fn any_value_at_any_place_is_read_or_refused(which in any::<prop::sample::Index>(), value in any_json()) {
        let mut pointers: Vec<String> = Vec::new();
        places(&valid(), String::new(), &mut pointers);
        let mut document = valid();
        *document.pointer_mut(which.get(&pointers).as_str()).unwrap() = value;
        match read(&document) {
            Ok((manifest, _)) => {
                prop_assert!(is_kebab(&manifest.name) && !is_reserved(&manifest.name));
                prop_assert_eq!(manifest.contributes.needs_frontend(), manifest.frontend_main.is_some());
                for tool in &manifest.tools {
                    let prefix = format!("plugin_{}_", manifest.name.replace('-', "_"));
                    prop_assert!(tool.name.starts_with(&prefix));
                }
            }
            Err(Problems(problems)) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(!problem.expected.is_empty() && !problem.found.is_empty());
                }
            }
        }
    }

    #[test]
    fn plain_relative_names_never_leave_their_folder(path in "[a./\\\\:]{0,12}") {
        if is_plain_relative(&path) {
            let joined = std::path::Path::new("/base").join(&path);
            prop_assert!(joined.starts_with("/base"));
            prop_assert!(!path.split('/').any(|part| part == ".."));
        }
    }
}

#[test]
fn what_every_client_is_sent_is_bounded() {
    use serde_json::Value::Array;
    type Item<'a> = &'a dyn Fn(usize) -> Value;
    let tool = |n: usize| {
        json!({"name": format!("plugin_price_watch_{n}"), "description": "x".repeat(TOOL_DESCRIPTION_LIMIT),
            "handler": "h"})
    };
    let tab = |n: usize| json!({"id": format!("t{n}"), "label": "T"});
    let route = |n: usize| json!({"method": "GET", "path": format!("/{n}")});
    let page = |n: usize| json!({"id": format!("p{n}"), "label": "P"});
    let column = |n: usize| json!({"id": format!("c{n}"), "label": "C", "kind": "price", "value": "/v"});
    let bounds: [(&str, usize, Item<'_>); 6] = [
        ("/mcp/tools", TOOLS_LIMIT, &tool),
        ("/contributes/cardTabs", TABS_LIMIT, &tab),
        ("/contributes/pages", PAGES_LIMIT, &page),
        ("/contributes/listColumns", COLUMNS_LIMIT, &column),
        ("/contributes/cardActions", ACTIONS_LIMIT, &page),
        ("/backend/routes", ROUTES_LIMIT, &route),
    ];
    for (pointer, limit, item) in bounds {
        read(&with(valid(), pointer, Some(Array((0..limit).map(item).collect())))).unwrap();
        let over = problem(pointer, Some(Array((0..=limit).map(item).collect())));
        assert_eq!((over.code, over.pointer.as_str()), (Code::BadManifest, pointer));
        assert_eq!(
            (over.expected, over.found),
            (format!("an array of at most {limit}"), format!("an array of {}", limit + 1))
        );
    }
    let long = problem("/mcp/tools/0/description", Some(json!("é".repeat(TOOL_DESCRIPTION_LIMIT / 2) + "x")));
    assert_eq!((long.expected.as_str(), long.found.as_str()), ("at most 4096 bytes", "a string of 4097 bytes"));
    let large = problem("/mcp/tools/0/annotations", Some(json!({"x": "x".repeat(TOOL_BYTES_LIMIT)})));
    assert_eq!((large.pointer.as_str(), large.expected.as_str()), ("/mcp/tools/0", "at most 65536 bytes of JSON"));
}
