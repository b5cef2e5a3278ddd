//! Plugins' prompts: texts that clients offer their users, to begin a conversation with. Whoever may read a plugin has
//! its prompts.

use rmcp::{
    ErrorData,
    model::{CacheScope, GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role},
};
use sha2::{Digest, Sha256};

use super::tool_list::{LIST_TTL_MS, PAGE, place};
use cardinal_identity::auth::caller::Caller;
use cardinal_package::manifest::{self, PromptRole, TextPart, text_parts};
use cardinal_plugin_host::registry::{PromptEntry, Snapshot};

/// Bytes of all texts of a prompt with its arguments in place.
const RESULT_LIMIT: usize = 256 << 10;

/// Those that the caller has, in the order of their names.
fn visible<'a>(snapshot: &'a Snapshot, caller: &'a Caller) -> impl Iterator<Item = &'a PromptEntry> {
    snapshot.prompts.values().map(|entry| &**entry).filter(|entry| caller.holds(&entry.scope))
}

/// Whether the caller has any.
pub(super) fn any(snapshot: &Snapshot, caller: &Caller) -> bool {
    visible(snapshot, caller).next().is_some()
}

/// What they look like, as a number that is the same in every process.
pub(super) fn view(snapshot: &Snapshot, caller: &Caller) -> u64 {
    let digest = visible(snapshot, caller).fold(Sha256::new(), |all, entry| {
        all.chain_update(serde_json::to_vec(&declare(&entry.prompt)).unwrap_or_default())
    });
    digest.finalize().first_chunk().copied().map_or(0, u64::from_be_bytes)
}

/// The page of them that a cursor asks for.
pub(super) fn list(snapshot: &Snapshot, caller: &Caller, cursor: Option<&str>) -> Result<ListPromptsResult, ErrorData> {
    let all: Vec<&PromptEntry> = visible(snapshot, caller).collect();
    let from = place(all.iter().map(|entry| &*entry.prompt.name), cursor)?;
    let page: Vec<Prompt> = all.iter().skip(from).take(PAGE).map(|entry| declare(&entry.prompt)).collect();
    let next = page.last().filter(|_| from + page.len() < all.len()).map(|prompt| prompt.name.clone());
    let mut result = ListPromptsResult::with_all_items(page);
    result.next_cursor = next;
    result.ttl_ms = Some(LIST_TTL_MS);
    result.cache_scope = Some(CacheScope::Private);
    Ok(result)
}

/// The prompt of this name, with these arguments in place.
pub(super) fn get(
    snapshot: &Snapshot,
    caller: &Caller,
    name: &str,
    arguments: &JsonObject,
) -> Result<GetPromptResult, ErrorData> {
    let invalid = |text: String| ErrorData::invalid_params(text, None);
    let entry = snapshot.prompts.get(name).filter(|entry| caller.holds(&entry.scope));
    let prompt = &entry.ok_or_else(|| invalid(format!("Unknown prompt: {name}")))?.prompt;
    check(prompt, arguments).map_err(invalid)?;
    let (mut messages, mut left) = (Vec::with_capacity(prompt.messages.len()), RESULT_LIMIT);
    for message in &prompt.messages {
        let text = filled(&message.text, arguments, &mut left).map_err(invalid)?;
        let role = match message.role {
            PromptRole::User => Role::User,
            PromptRole::Assistant => Role::Assistant,
        };
        messages.push(PromptMessage::new_text(role, text));
    }
    Ok(GetPromptResult::new(messages).with_description(prompt.description.clone()))
}

fn declare(prompt: &manifest::Prompt) -> Prompt {
    let argument = |argument: &manifest::PromptArgument| {
        let mut declared = PromptArgument::new(argument.name.clone()).with_required(argument.required);
        declared.description = argument.description.clone();
        declared
    };
    let arguments: Vec<PromptArgument> = prompt.arguments.iter().map(argument).collect();
    let mut declared = Prompt::new(prompt.name.clone(), Some(prompt.description.clone()), Some(arguments));
    declared.title = prompt.title.clone();
    declared
}

/// What is wrong with the arguments.
fn check(prompt: &manifest::Prompt, arguments: &JsonObject) -> Result<(), String> {
    for (name, value) in arguments {
        if !prompt.arguments.iter().any(|argument| argument.name == *name) {
            return Err(format!("The prompt has no argument `{name}`"));
        }
        if !value.is_string() {
            return Err(format!("The argument `{name}` is not a string"));
        }
    }
    let missing = prompt.arguments.iter().find(|argument| argument.required && !arguments.contains_key(&argument.name));
    missing.map_or(Ok(()), |argument| Err(format!("The argument `{}` is missing", argument.name)))
}

/// The text with its arguments in place; what is in them stays as it is. `left` is what may still be written.
fn filled(text: &str, arguments: &JsonObject, left: &mut usize) -> Result<String, String> {
    let mut filled = String::new();
    for part in text_parts(text) {
        let part = match part {
            TextPart::Text(text) => text,
            TextPart::Argument(name) => arguments.get(name).and_then(|value| value.as_str()).unwrap_or_default(),
        };
        *left = left.checked_sub(part.len()).ok_or_else(|| {
            format!("With these arguments the prompt is over {RESULT_LIMIT} bytes. Give shorter ones")
        })?;
        filled.push_str(part);
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(text: &str, arguments: serde_json::Value) -> Result<String, String> {
        let mut left = RESULT_LIMIT;
        filled(text, arguments.as_object().unwrap(), &mut left)
    }

    #[test]
    fn arguments_stand_in_the_place_of_their_names() {
        assert_eq!(fill("{{a}} and {{ b }}{{a}}.", json!({"a": "{{b}}", "b": "2"})).unwrap(), "{{b}} and 2{{b}}.");
        assert_eq!(fill("{{a}}{{", json!({})).unwrap(), "{{", "one that is left out is empty");
        let long = json!({"a": "x".repeat(RESULT_LIMIT / 2 + 1)});
        assert!(fill("{{a}}", long.clone()).is_ok());
        assert!(fill("{{a}}{{a}}", long).unwrap_err().contains("over 262144 bytes"));
    }
}
