use super::*;

#[test]
fn tools_have_limits_and_previews() {
    let (manifest, _) = read(&valid()).unwrap();
    let tool = &manifest.tools[0];
    assert_eq!(tool.rate_limit, Some(ToolRate { per_minute: 60, burst: Some(5) }));
    assert_eq!(tool.preview.as_deref(), Some("shown"));
    let rate = |value: Value| problem("/mcp/tools/0/rate_limit", Some(value));
    assert_eq!(rate(json!(60)).expected, "an object");
    assert_eq!(rate(json!({})).pointer, "/mcp/tools/0/rate_limit/per_minute");
    assert_eq!(rate(json!({"per_minute": 0})).expected, "a whole number from 1 to 1000000");
    assert_eq!(rate(json!({"per_minute": 1, "burst": "all"})).pointer, "/mcp/tools/0/rate_limit/burst");
    let unasked = problem("/mcp/tools/0/requires_confirmation", Some(json!(false)));
    assert_eq!(unasked.pointer, "/mcp/tools/0/preview");
}

#[test]
fn prompts_are_texts_with_placeholders_of_their_arguments() {
    let (manifest, warnings) = read(&valid()).unwrap();
    assert_eq!(warnings, []);
    let prompt = &manifest.prompts[0];
    assert_eq!(prompt.arguments.iter().map(|argument| argument.required).collect::<Vec<_>>(), [true, false]);
    let parts = [
        TextPart::Text("Compare "),
        TextPart::Argument("sku"),
        TextPart::Text(" at "),
        TextPart::Argument("shop"),
        TextPart::Text("."),
    ];
    assert_eq!(text_parts(&prompt.messages[0].text), parts);
    assert_eq!(text_parts("a {{ b"), [TextPart::Text("a {{ b")], "an opening by itself is text");
    assert_eq!(text_parts(""), []);
}

#[test]
fn a_prompt_that_is_wrong_names_its_place() {
    let at = |pointer: &str, value: Value| problem(&format!("/mcp/prompts/0{pointer}"), Some(value));
    for name in ["compare", "plugin_price_watch_", "plugin_other_compare", "plugin_price_watch_ü"] {
        assert_eq!(at("/name", json!(name)).code, Code::BadToolName, "{name}");
    }
    assert_eq!(at("/messages", json!([])).expected, "at least one message");
    assert_eq!(at("/messages/0/role", json!("system")).expected, "\"user\" or \"assistant\"");
    let unknown = at("/messages/0/text", json!("Compare {{sku}} with {{other}}."));
    assert_eq!(unknown.pointer, "/mcp/prompts/0/messages/0/text");
    assert!(unknown.expected.contains("\"other\" is none of them"), "{unknown:?}");
    assert_eq!(at("/arguments/2", json!({"name": "a b"})).pointer, "/mcp/prompts/0/arguments/2/name");
    assert_eq!(at("/arguments/2", json!({"name": "sku"})).pointer, "/mcp/prompts/0/arguments/2");
    assert_eq!(at("/description", json!(7)).pointer, "/mcp/prompts/0/description");
    let large = at("/messages/0/text", json!("x".repeat(64 << 10)));
    assert_eq!((large.pointer.as_str(), large.expected.as_str()), ("/mcp/prompts/0", "at most 65536 bytes of JSON"));
    let twice = valid()["mcp"]["prompts"][0].clone();
    assert!(problem("/mcp/prompts/1", Some(twice)).expected.contains("which is there already"));
    let many = vec![valid()["mcp"]["prompts"][0].clone(); 33];
    assert_eq!(problem("/mcp/prompts", Some(json!(many))).expected, "an array of at most 32");
}
