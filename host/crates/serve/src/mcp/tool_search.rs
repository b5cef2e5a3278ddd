//! Finding a tool among many: `tools_search`, and `tools_call`, which calls one that was found. A connection that asks
//! for it (`?search=true`) lists these two in the place of more tools than a model chooses well from.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use rmcp::model::{CallToolRequestParams, CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Visit,
    narrowing::Narrowing,
    plugin_tools,
    tool_list::{ListedTool, ToolList},
};
use cardinal_base::scope::MCP_USE;
use cardinal_identity::auth::caller::Caller;

/// A connection with so many tools lists them all, however it asks.
const SEARCHED_ABOVE: usize = 40;
pub(super) const SEARCH: &str = "tools_search";
pub(super) const CALL: &str = "tools_call";

const FOUND: u64 = 10;
const FOUND_LIMIT: u64 = 50;
/// Bytes of an answer. The first tool is in it in any case.
const ANSWER_LIMIT: usize = 64 << 10;
/// Bytes of a search.
const QUERY_LIMIT: usize = 500;

/// Both, in the order of their names.
static TOOLS: LazyLock<[ListedTool; 2]> =
    LazyLock::new(|| [call(), search()].map(|tool| ListedTool::new(tool, MCP_USE, false)));
/// What takes arguments of [`SEARCH`] and of [`CALL`].
static VALIDATORS: LazyLock<[Option<jsonschema::Validator>; 2]> = LazyLock::new(|| {
    let compiled = |tool: Tool| jsonschema::validator_for(&Value::Object((*tool.input_schema).clone())).ok();
    [compiled(search()), compiled(call())]
});

/// The tools that are listed to the caller on its connection: of many these two alone, where it asks for that.
pub(super) fn listed<'a>(tools: &'a ToolList, caller: &'a Caller, narrowing: &'a Narrowing) -> Vec<&'a ListedTool> {
    let admitted: Vec<&ListedTool> = narrowing.admitted(tools, caller).collect();
    if narrowing.search && admitted.len() > SEARCHED_ABOVE {
        return TOOLS.iter().collect();
    }
    admitted
}

fn search() -> Tool {
    let input = json!({"type": "object", "properties": {
        "query": {"type": "string", "maxLength": QUERY_LIMIT, "description": "Words of what the tool is to do, or of its name; empty for any"},
        "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_LIMIT, "description": format!("Tools to show; {FOUND} when it is left out")},
    }, "required": ["query"], "additionalProperties": false});
    let about = format!(
        "Finds tools by what they do. This server has more than are listed; call one that was found with `{CALL}`."
    );
    declared(SEARCH, "Find tools", about, input, ToolAnnotations::new().read_only(true))
}

fn call() -> Tool {
    let input = json!({"type": "object", "properties": {
        "name": {"type": "string", "description": format!("The tool's name, as `{SEARCH}` shows it")},
        "arguments": {"type": "object", "description": "As the tool's inputSchema wants them"},
    }, "required": ["name"], "additionalProperties": false});
    let about =
        format!("Calls a tool that `{SEARCH}` has found. It answers, and asks a person, as the tool itself does.");
    declared(CALL, "Call a tool", about, input, ToolAnnotations::new())
}

fn declared(name: &'static str, title: &str, about: String, input: Value, hints: ToolAnnotations) -> Tool {
    let Value::Object(input) = input else { return Tool::new(name, about, Arc::<JsonObject>::default()) };
    Tool::new_with_raw(name, Some(about.into()), Arc::new(input))
        .with_title(title)
        .with_annotations(hints.open_world(false))
}

/// What is wrong with the arguments of [`SEARCH`].
pub(super) fn complaints(arguments: &JsonObject) -> Option<String> {
    cardinal_plugin_host::arguments::complaints(VALIDATORS[0].as_ref()?, arguments)
}

/// The tools that fit best, with all that a call needs.
pub(super) fn run(tools: &ToolList, visit: &Visit, arguments: &JsonObject) -> CallToolResult {
    let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
    let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(FOUND);
    let found = ranked(visit.narrowing.admitted(tools, &visit.caller), query);
    let (mut shown, mut bytes) = (Vec::new(), 0);
    for tool in found.iter().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let Ok(text) = serde_json::to_string(&tool.tool) else { continue };
        bytes += text.len();
        if bytes > ANSWER_LIMIT && !shown.is_empty() {
            break;
        }
        shown.push(text);
    }
    let more = found.len() - shown.len();
    let text = format!("{{\"tools\":[{}],\"more\":{more}}}", shown.join(","));
    match serde_json::from_str(&text) {
        Ok(value) => plugin_tools::structured(value, text),
        Err(_) => plugin_tools::failure("internal-error: the tools could not be shown."),
    }
}

/// Those that have a word of the query, those that have most and in the most telling place first.
fn ranked<'a>(tools: impl Iterator<Item = &'a ListedTool>, query: &str) -> Vec<&'a ListedTool> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut found: Vec<(usize, &ListedTool)> =
        tools.map(|tool| (score(tool, &words), tool)).filter(|(score, _)| *score > 0 || words.is_empty()).collect();
    // Equal ones stay in the order of their names.
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().map(|(_, tool)| tool).collect()
}

fn score(tool: &ListedTool, words: &[&str]) -> usize {
    let lower = |text: Option<&str>| text.unwrap_or_default().to_lowercase();
    let tool = &tool.tool;
    let places =
        [(4, tool.name.to_lowercase()), (3, lower(tool.title.as_deref())), (1, lower(tool.description.as_deref()))];
    let of_word =
        |word: &&str| places.iter().filter(|(_, text)| text.contains(*word)).map(|(worth, _)| worth).sum::<usize>();
    // A tool that has every word comes before one that has some of them often.
    words.iter().map(of_word).map(|score| if score > 0 { score + 10 } else { 0 }).sum()
}

/// The arguments of [`CALL`], with every digit.
#[derive(Deserialize)]
struct ExactCall<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// Makes of a call of [`CALL`] the call of the tool that it names, as if the client had made that.
///
/// # Errors
/// What is wrong with the arguments.
pub(super) fn unwrap(request: &mut CallToolRequestParams, visit: &mut Visit) -> Result<(), String> {
    let mut wrapped = request.arguments.take().unwrap_or_default();
    if let Some(validator) = &VALIDATORS[1]
        && let Some(complaints) = cardinal_plugin_host::arguments::complaints(validator, &wrapped)
    {
        return Err(complaints);
    }
    if let Some(Value::String(name)) = wrapped.remove("name") {
        request.name = name.into();
    }
    if let Some(Value::Object(arguments)) = wrapped.remove("arguments") {
        request.arguments = Some(arguments);
    }
    let inner = |bytes: Bytes| {
        let call: ExactCall<'_> = serde_json::from_slice(&bytes).ok()?;
        Some(Bytes::copy_from_slice(call.arguments.get().as_bytes()))
    };
    visit.exact_arguments = visit.exact_arguments.take().and_then(inner);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &'static str, title: &str, about: &'static str) -> ListedTool {
        let tool = Tool::new(name, about, Arc::<JsonObject>::default()).with_title(title);
        ListedTool::new(tool, "cards:read", false)
    }

    #[test]
    fn what_has_every_word_comes_first() {
        let tools = [
            tool("cards_get", "Read a card", "Reads one product card by its id"),
            tool("cards_history", "History of a card", "Who changed a card"),
            tool("plugin_supplier_preview", "Look at a page", "Reads the product page of a supplier"),
        ];
        let names = |query: &str| -> Vec<String> {
            ranked(tools.iter(), query).iter().map(|tool| tool.tool.name.to_string()).collect()
        };
        assert_eq!(names("product PAGE"), ["plugin_supplier_preview", "cards_get"]);
        assert_eq!(names("cards_history")[0], "cards_history");
        assert_eq!(names("card history"), ["cards_history", "cards_get"]);
        assert_eq!(names(" "), ["cards_get", "cards_history", "plugin_supplier_preview"]);
        assert_eq!(names("nothing"), Vec::<String>::new());
    }
}
