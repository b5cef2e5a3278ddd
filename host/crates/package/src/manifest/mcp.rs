//! What a plugin has for MCP clients: tools and prompts.

use std::{collections::HashSet, time::Duration};

use serde_json::{Map, Value};

use super::{
    Access, TOOL_BYTES_LIMIT, TOOL_DESCRIPTION_LIMIT, TOOL_NAME_ADVICE, TOOL_NAME_LIMIT, TOOLS_LIMIT,
    field::{Field, LINE_LIMIT, Object, line, scope, timeout},
};
use crate::refusal::Code;

/// The most prompts of one plugin, and the largest of them, in all.
pub(super) const PROMPTS_LIMIT: usize = 32;
pub(super) const PROMPT_BYTES_LIMIT: usize = 64 << 10;
/// The most arguments and messages of a prompt.
pub(super) const PROMPT_ARGUMENTS_LIMIT: usize = 16;
pub(super) const PROMPT_MESSAGES_LIMIT: usize = 32;
/// The most calls a minute, or at once, that a tool's limit can say.
pub(super) const TOOL_RATE_LIMIT: u32 = 1_000_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub handler: String,
    pub requires_confirmation: bool,
    /// A handler that says what a call would change, for the person who confirms it.
    pub preview: Option<String>,
    /// Always an object schema.
    pub input_schema: Option<Map<String, Value>>,
    pub output_schema: Option<Map<String, Value>>,
    pub scope: Option<Access>,
    pub timeout: Option<Duration>,
    pub rate_limit: Option<ToolRate>,
    pub annotations: Option<Map<String, Value>>,
}

/// How often one caller may call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRate {
    pub per_minute: u32,
    /// Calls at once; a tenth of a minute's when the manifest says nothing.
    pub burst: Option<u32>,
}

/// A text that a client offers its user, to begin a conversation with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub arguments: Vec<PromptArgument>,
    pub messages: Vec<PromptMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub description: Option<String>,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptMessage {
    pub role: PromptRole,
    /// `{{argument}}` stands for what the client gives.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptRole {
    User,
    Assistant,
}

/// A part of a prompt's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPart<'a> {
    Text(&'a str),
    /// The name in a placeholder.
    Argument(&'a str),
}

impl Tool {
    /// The scope that a call needs: what the manifest says, else `write` for what must be confirmed.
    pub fn access(&self) -> Access {
        self.scope.unwrap_or(if self.requires_confirmation { Access::Write } else { Access::Read })
    }
}

/// The parts of a prompt's text, in order. An opening without its closing is text.
pub fn text_parts(text: &str) -> Vec<TextPart<'_>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else { break };
        if !before.is_empty() {
            parts.push(TextPart::Text(before));
        }
        parts.push(TextPart::Argument(name.trim()));
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(TextPart::Text(rest));
    }
    parts
}

/// Tools and prompts of the manifest.
pub(super) fn read(object: &Object, plugin: &str) -> (Vec<Tool>, Vec<Prompt>) {
    let Some(mcp) = object.optional("mcp").and_then(|field| field.object()) else { return Default::default() };
    mcp.done(&["tools", "prompts"]);
    (tools(&mcp, plugin), prompts(&mcp, plugin))
}

fn tools(mcp: &Object, plugin: &str) -> Vec<Tool> {
    let fields = mcp.optional("tools").and_then(|field| field.bounded_array(TOOLS_LIMIT)).unwrap_or_default();
    let mut seen = HashSet::new();
    let mut tools = Vec::new();
    for field in fields {
        let Some(tool) = tool(&field, plugin) else { continue };
        if !seen.insert(tool.name.clone()) {
            field.wrong(Code::DuplicateTool, format!("a tool name other than {:?}, which is there already", tool.name));
        }
        tools.push(tool);
    }
    tools
}

fn tool(field: &Field, plugin: &str) -> Option<Tool> {
    let object = field.object()?;
    if !field.fits(TOOL_BYTES_LIMIT) {
        return None;
    }
    object.done(&[
        "name",
        "title",
        "description",
        "handler",
        "requires_confirmation",
        "preview",
        "input_schema",
        "output_schema",
        "scope",
        "timeout_ms",
        "rate_limit",
        "annotations",
    ]);
    let name = object.required("name", "the name of the tool").and_then(|field| own_name(&field, plugin, "action"));
    let description = object.required("description", "a text for the tool");
    let description = description.and_then(|field| field.text(TOOL_DESCRIPTION_LIMIT));
    let handler = object.required("handler", "the name of a handler").and_then(|field| field.line(LINE_LIMIT));
    // None where it is said in a way that cannot be read: that is a fault of its own.
    let confirm = object.optional("requires_confirmation").map_or(Some(false), |field| field.boolean());
    let tool = Tool {
        name: String::new(),
        title: line(&object, "title"),
        description: String::new(),
        handler: String::new(),
        requires_confirmation: confirm.unwrap_or(false),
        preview: preview(&object, confirm.unwrap_or(true)),
        input_schema: object.optional("input_schema").and_then(|field| field.object_schema()),
        output_schema: object.optional("output_schema").and_then(|field| field.object_schema()),
        scope: scope(&object),
        timeout: timeout(&object),
        rate_limit: object.optional("rate_limit").and_then(|field| rate(&field)),
        annotations: object.optional("annotations").and_then(|field| annotations(&field)),
    };
    Some(Tool { name: name?, description: description?.to_owned(), handler: handler?.to_owned(), ..tool })
}

/// MCP's hints for clients.
fn annotations(field: &Field) -> Option<Map<String, Value>> {
    const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let object = field.object()?;
    object.done(&[&["title"][..], &HINTS].concat());
    line(&object, "title");
    for hint in HINTS {
        object.optional(hint).and_then(|hint| hint.boolean());
    }
    Some(object.map.clone())
}

/// Nobody is asked about a call that needs no confirmation.
fn preview(tool: &Object, is_confirmed: bool) -> Option<String> {
    let field = tool.optional("preview")?;
    let handler = field.line(LINE_LIMIT)?;
    if !is_confirmed {
        field.wrong(Code::BadManifest, "a preview only with \"requires_confirmation\": true");
        return None;
    }
    Some(handler.to_owned())
}

fn rate(field: &Field) -> Option<ToolRate> {
    let object = field.object()?;
    object.done(&["per_minute", "burst"]);
    let number = |field: Field| field.integer(1..=u64::from(TOOL_RATE_LIMIT)).and_then(|n| u32::try_from(n).ok());
    let burst = object.optional("burst").and_then(number);
    let per_minute = object.required("per_minute", "how many calls a minute").and_then(number)?;
    Some(ToolRate { per_minute, burst })
}

fn prompts(mcp: &Object, plugin: &str) -> Vec<Prompt> {
    let fields = mcp.optional("prompts").and_then(|field| field.bounded_array(PROMPTS_LIMIT)).unwrap_or_default();
    let mut prompts: Vec<Prompt> = Vec::new();
    for field in fields {
        let Some(prompt) = prompt(&field, plugin) else { continue };
        if prompts.iter().any(|known| known.name == prompt.name) {
            let expected = format!("a prompt name other than {:?}, which is there already", prompt.name);
            field.wrong(Code::BadManifest, expected);
        }
        prompts.push(prompt);
    }
    prompts
}

fn prompt(field: &Field, plugin: &str) -> Option<Prompt> {
    let object = field.object()?;
    if !field.fits(PROMPT_BYTES_LIMIT) {
        return None;
    }
    object.done(&["name", "title", "description", "arguments", "messages"]);
    let name = object.required("name", "the name of the prompt").and_then(|field| own_name(&field, plugin, "prompt"));
    let description = object.required("description", "a text for the prompt");
    let description = description.and_then(|field| field.text(TOOL_DESCRIPTION_LIMIT));
    let arguments = arguments(&object);
    let messages = object.required("messages", "a list of messages");
    let messages = messages.and_then(|field| read_messages(&field, &arguments));
    let title = line(&object, "title");
    Some(Prompt { name: name?, title, description: description?.to_owned(), arguments, messages: messages? })
}

fn arguments(prompt: &Object) -> Vec<PromptArgument> {
    let fields = prompt.optional("arguments").and_then(|field| field.bounded_array(PROMPT_ARGUMENTS_LIMIT));
    let mut arguments: Vec<PromptArgument> = Vec::new();
    for field in fields.unwrap_or_default() {
        let Some(argument) = argument(&field) else { continue };
        if arguments.iter().any(|known| known.name == argument.name) {
            let expected = format!("an argument other than {:?}, which is there already", argument.name);
            field.wrong(Code::BadManifest, expected);
        }
        arguments.push(argument);
    }
    arguments
}

fn argument(field: &Field) -> Option<PromptArgument> {
    let object = field.object()?;
    object.done(&["name", "description", "required"]);
    let description = line(&object, "description");
    let required = object.optional("required").and_then(|field| field.boolean()).unwrap_or(false);
    let field = object.required("name", "the name of the argument")?;
    let name = field.line(LINE_LIMIT)?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.bytes().all(is_plain) {
        field.wrong(Code::BadManifest, "a name of letters, digits, _ and -");
        return None;
    }
    Some(PromptArgument { name: name.to_owned(), description, required })
}

fn read_messages(field: &Field, arguments: &[PromptArgument]) -> Option<Vec<PromptMessage>> {
    let fields = field.bounded_array(PROMPT_MESSAGES_LIMIT)?;
    if fields.is_empty() {
        field.wrong(Code::BadManifest, "at least one message");
        return None;
    }
    Some(fields.iter().filter_map(|field| message(field, arguments)).collect())
}

fn message(field: &Field, arguments: &[PromptArgument]) -> Option<PromptMessage> {
    let object = field.object()?;
    object.done(&["role", "text"]);
    let role = object.required("role", ROLES).and_then(|field| role(&field));
    let field = object.required("text", "the text of the message")?;
    let text = field.text(PROMPT_BYTES_LIMIT)?;
    let is_known = |part: &TextPart| match part {
        TextPart::Text(_) => true,
        TextPart::Argument(name) => arguments.iter().any(|argument| argument.name == *name),
    };
    if let Some(TextPart::Argument(name)) = text_parts(text).into_iter().find(|part| !is_known(part)) {
        field.wrong(Code::BadManifest, format!("{{{{…}}}} of `arguments` only; {name:?} is none of them"));
        return None;
    }
    Some(PromptMessage { role: role?, text: text.to_owned() })
}

const ROLES: &str = "\"user\" or \"assistant\"";

fn role(field: &Field) -> Option<PromptRole> {
    match field.string()? {
        "user" => Some(PromptRole::User),
        "assistant" => Some(PromptRole::Assistant),
        _ => {
            field.wrong(Code::BadManifest, ROLES);
            None
        }
    }
}

/// A name that begins with the plugin's.
fn own_name(field: &Field, plugin: &str, what: &str) -> Option<String> {
    let name = field.string()?;
    if plugin.is_empty() {
        return None; // the plugin's own name is wrong and already a problem
    }
    let prefix = format!("plugin_{}_", plugin.replace('-', "_"));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let fits = name.len() <= TOOL_NAME_LIMIT
        && name.strip_prefix(&prefix).is_some_and(|action| !action.is_empty() && action.bytes().all(plain));
    if !fits {
        field.wrong(Code::BadToolName, format!("{prefix}<{what}>, at most {TOOL_NAME_LIMIT} characters"));
        return None;
    }
    if name.len() > TOOL_NAME_ADVICE {
        field.warn(format!("Many MCP clients refuse names over {TOOL_NAME_ADVICE} characters."));
    }
    Some(name.to_owned())
}
