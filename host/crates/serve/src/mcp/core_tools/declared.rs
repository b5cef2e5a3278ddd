//! How the core's tools are declared to clients.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{Action, CoreTool};

const READ: &str = "cards:read";
const WRITE: &str = "cards:write";
const READ_JOBS: &str = "jobs:read";
/// As the admin API demands it of who starts a job; what the job does to cards wants `cards:write`, too.
const WRITE_JOBS: &str = "jobs:write";
/// Cards that can be named one by one: a person is shown them all.
const IDS_LIMIT: usize = 1_000;

pub(super) fn all() -> Vec<CoreTool> {
    vec![bulk_update(), create(), export(), get(), history(), restore(), search(), update(), get_job()]
}

fn bulk_update() -> CoreTool {
    let input = json!({"type": "object", "properties": {
        "action": {
            "enum": ["archive", "activate", "draft", "delete", "remove_source", "set_attribute", "remove_attribute"],
            "description": "What is done to each card",
        },
        "ids": {
            "type": "array", "items": {"type": "string", "format": "uuid"}, "minItems": 1, "maxItems": IDS_LIMIT,
            "description": "These cards",
        },
        "filter": {"type": "object", "properties": filters(), "additionalProperties": false, "description": "In place of `ids`: all cards that fit; an empty one picks every card"},
        "source_key": {"type": "string", "description": "For remove_source: the source's key"},
        "key": {"type": "string", "description": "For set_attribute and remove_attribute: the attribute's name"},
        "value": {"description": "For set_attribute: the value, any JSON but null"},
        "dry_run": {"type": "boolean", "default": true, "description": "Only show how many cards it would be for, and what would change of some"},
        "expected_count": {"type": "integer", "minimum": 0, "description": "With `dry_run: false`: the `count` of the dry run. Nothing is done when the number is another by then"},
    }, "required": ["action"], "additionalProperties": false});
    let sample = json!({"type": "object", "properties": {
        "id": {"type": "string"}, "sku": {"type": "string"}, "title": {"type": "string"},
        "changes": {"type": "array", "items": {"type": "object"}, "description": "By JSON pointer; an empty pointer is the card itself"},
    }, "required": ["id", "changes"]});
    let output = json!({"type": "object", "properties": {
        "dry_run": {"type": "boolean"},
        "count": {"type": ["integer", "null"], "description": "Cards that it is for"},
        "missing": {"type": "integer", "description": "Ids that name no card"},
        "sample": {"type": "array", "items": sample, "description": "Some of the cards, and what would change of each"},
        "item": job(),
        "note": note(),
    }, "required": ["dry_run", "count"]});
    let about = "Archives, activates or deletes many cards, makes them drafts, removes a source of each, or sets or removes \
        an attribute. By default it only shows what it would do; with `dry_run: false` it becomes a job, which a person confirms first. See jobs_get.";
    tool(Action::BulkUpdate, "cards_bulk_update", "Change many cards", about, input, output)
}

fn create() -> CoreTool {
    let input = json!({"type": "object", "properties": {
        "title": title(), "sku": sku(), "status": status("`draft` when it is left out"),
        "attributes": {"type": "object", "description": "Any JSON but `sources`, which plugins write"},
    }, "required": ["title", "sku"], "additionalProperties": false});
    tool(
        Action::Create,
        "cards_create",
        "Create a card",
        "Makes a product card. A person confirms it first.",
        input,
        one_card(),
    )
}

fn export() -> CoreTool {
    let mut members = filters();
    members["format"] = json!({
        "enum": ["ndjson", "csv", "csv_for_spreadsheets"], "default": "ndjson",
        "description": "A line of JSON for each card, or a table. In the one for spreadsheets a text that one would compute \
                        begins with an apostrophe",
    });
    members["fields"] = json!({"type": "string", "description": "Only these members of each card, comma-separated: id, sku, title, status, attributes, version, created_at, updated_at"});
    let input = json!({"type": "object", "properties": members, "additionalProperties": false});
    let output = json!({"type": "object", "properties": {
        "uri": {"type": "string", "description": "The resource"},
        "mime_type": {"type": "string"},
        "count": {"type": ["integer", "null"], "description": "Cards that fit now; null when they take too long to count"},
        "expires_at": {"type": "string"},
        "rest_url": {"type": "string", "description": "The same from the admin API, whatever its size"},
        "note": note(),
    }, "required": ["uri", "mime_type", "count", "expires_at", "rest_url"]});
    let about = "Gives a link to a file of all product cards that fit, as a resource for the same caller. It is made when it is \
        read. Use cards_search to look at cards one page at a time.";
    tool(Action::Export, "cards_export", "Export cards", about, input, output)
}

fn get() -> CoreTool {
    let input = json!({"type": "object", "properties": {
        "id": id(),
        "fields": fields("Only these members of the card"),
        "source": {"type": "string", "description": "Only this one of its sources, by its key, in place of all attributes"},
    }, "required": ["id"], "additionalProperties": false});
    let about = "Reads one product card by its id. Attributes of a large card come only when `fields` or `source` ask for them.";
    tool(Action::Get, "cards_get", "Read a card", about, input, one_card())
}

fn get_job() -> CoreTool {
    let input = json!({"type": "object", "properties": {
        "id": {"type": "string", "format": "uuid", "description": "The job's id"},
    }, "required": ["id"], "additionalProperties": false});
    let output = json!({"type": "object", "properties": {"item": job()}, "required": ["item"]});
    let about = "Says how far a job is, and what failed: of a bulk change, or an import.";
    tool(Action::GetJob, "jobs_get", "Progress of a job", about, input, output)
}

fn history() -> CoreTool {
    let input = json!({"type": "object", "properties": {
        "id": id(),
        "limit": {"type": "integer", "minimum": 1, "maximum": 200, "description": "Changes of a page; 25 when it is left out"},
        "cursor": cursor(),
    }, "required": ["id"], "additionalProperties": false});
    let change = json!({"type": "object", "properties": {
        "version": {"type": "integer", "description": "Of the card after it"},
        "at": {"type": "string"},
        "actor": {"type": "object", "description": "Who made it"},
        "action": {"type": "string"},
        "change": {"description": "What was sent"},
        "omitted": omitted(),
    }, "required": ["version", "at", "action"]});
    let about = "Gives who changed a card, when and how, newest first; of deleted cards too.";
    tool(Action::History, "cards_history", "History of a card", about, input, page_schema(change))
}

fn restore() -> CoreTool {
    let input = json!({"type": "object", "properties": {
        "id": id(),
        "version": {"type": "integer", "minimum": 1, "description": "Make title, SKU, status and attributes what they were at this version; leave it out to bring a deleted card back"},
        "current_version": {"type": "integer", "minimum": 1, "description": "Only if the card is at this version now"},
    }, "required": ["id"], "additionalProperties": false});
    let about = "Makes a card what it was at an earlier version (see cards_history), as a new version, or brings a deleted card \
        back. Sources stay as they are. A person confirms it first.";
    tool(Action::Restore, "cards_restore", "Restore a card", about, input, one_card())
}

fn search() -> CoreTool {
    let mut members = filters();
    members["sort"] =
        json!({"enum": ["title", "-title", "sku", "-sku", "created_at", "-created_at", "updated_at", "-updated_at"]});
    members["fields"] = fields("These members of each card; `id,sku,title,status,kinds` when it is left out");
    members["limit"] = json!({"type": "integer", "minimum": 1, "maximum": 200, "description": "Cards of a page; 25 when it is left out"});
    members["cursor"] = cursor();
    let input = json!({"type": "object", "properties": members, "additionalProperties": false});
    let mut output = page_schema(card());
    output["properties"]["total_estimate"] = json!({"type": "integer", "description": "Cards that fit, on all pages"});
    let about = "Finds product cards by words of their title or SKU and by filters, and gives a page of them. Read one with cards_get.";
    tool(Action::Search, "cards_search", "Search cards", about, input, output)
}

fn update() -> CoreTool {
    let input = json!({"type": "object", "properties": {
        "id": id(),
        "version": {"type": "integer", "minimum": 1, "description": "The card's version that the change was made for, as cards_get gives it; another one is refused"},
        "title": title(), "sku": sku(), "status": status("The new status"),
        "attributes": {"type": "object", "description": "A JSON Merge Patch: what it names is replaced, null removes, the rest stays. Not `sources`, which plugins write"},
    }, "required": ["id", "version"], "additionalProperties": false});
    let about = "Changes title, SKU, status or attributes of a product card. A person confirms it first.";
    tool(Action::Update, "cards_update", "Change a card", about, input, one_card())
}

fn tool(action: Action, name: &'static str, title: &str, about: &'static str, input: Value, output: Value) -> CoreTool {
    let writes = matches!(action, Action::BulkUpdate | Action::Create | Action::Restore | Action::Update);
    let annotations = ToolAnnotations::new().read_only(!writes).open_world(false);
    let validator = jsonschema::validator_for(&input).ok();
    let mut declaration =
        Tool::new_with_raw(name, Some(about.into()), object(input)).with_raw_output_schema(object(output));
    declaration.title = Some(title.to_owned());
    CoreTool {
        declaration: declaration.with_annotations(if writes { annotations.destructive(true) } else { annotations }),
        scope: match action {
            Action::BulkUpdate => WRITE_JOBS,
            Action::GetJob => READ_JOBS,
            _ if writes => WRITE,
            _ => READ,
        },
        requires_confirmation: writes,
        validator,
        action,
    }
}

/// What picks cards.
fn filters() -> Value {
    json!({
        "q": {"type": "string", "description": "Text in the title or SKU"},
        "status": status("Only cards of this status"),
        "kind": {"type": "string", "description": "Only cards with a source of this kind"},
        "missing_kind": {"type": "string", "description": "Only cards without a source of this kind"},
        "plugin": {"type": "string", "description": "Only cards with a source of this plugin"},
        "updated_since": {"type": "string", "description": "Only cards changed since this time, for example 2026-01-31T00:00:00Z"},
    })
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

fn id() -> Value {
    json!({"type": "string", "format": "uuid", "description": "The card's id"})
}

fn title() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 500})
}

fn sku() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 120, "description": "No other card has it"})
}

fn status(about: &str) -> Value {
    json!({"type": "string", "enum": ["draft", "active", "archived"], "description": about})
}

fn cursor() -> Value {
    json!({"type": "string", "description": "`next_cursor` of the previous page"})
}

fn fields(about: &str) -> Value {
    let about = format!(
        "{about}, comma-separated: id, title, sku, status, kinds, attributes, version, created_at, updated_at. For example \
         `title,attributes`"
    );
    json!({"type": "string", "description": about})
}

fn note() -> Value {
    json!({"type": "string", "description": "What is not in the answer, and how to get it"})
}

fn omitted() -> Value {
    json!({"type": "object", "description": "Members that are too large for the answer, with their bytes"})
}

fn card() -> Value {
    json!({"type": "object", "properties": {
        "id": {"type": "string"},
        "sku": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "string"},
        "kinds": {"type": "array", "items": {"type": "string"}, "description": "Kinds of its sources"},
        "version": {"type": "integer"},
        "attributes": {"type": "object"},
        "created_at": {"type": "string"},
        "updated_at": {"type": "string"},
        "omitted": omitted(),
    }, "required": ["id"]})
}

fn job() -> Value {
    json!({"type": "object", "properties": {
        "id": {"type": "string"},
        "action": {"type": "string"},
        "state": {"type": "string", "description": "queued, running, done, failed, cancelled or interrupted"},
        "done": {"type": "integer"},
        "total": {"type": ["integer", "null"]},
        "failed": {"type": "integer"},
        "reason": {"type": ["string", "null"], "description": "Why it ended before its time"},
        "errors": {"type": "array", "items": {"type": "object"}, "description": "The first of what failed"},
    }, "required": ["id", "state", "done", "total", "failed"]})
}

fn one_card() -> Value {
    json!({"type": "object", "properties": {"item": card(), "note": note()}, "required": ["item"]})
}

fn page_schema(item: Value) -> Value {
    json!({"type": "object", "properties": {
        "items": {"type": "array", "items": item},
        "next_cursor": {"type": ["string", "null"], "description": "`cursor` of the next page; null on the last"},
        "note": note(),
    }, "required": ["items", "next_cursor"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_declared_in_full() {
        let tools = all();
        assert!(tools.is_sorted_by_key(|tool| tool.declaration.name.clone()));
        for tool in &tools {
            let declared = &tool.declaration;
            assert!(tool.validator.is_some() && declared.output_schema.is_some(), "{}", declared.name);
            let annotations = declared.annotations.as_ref().unwrap();
            assert_eq!(annotations.read_only_hint, Some(!tool.requires_confirmation), "{}", declared.name);
            assert_eq!(tool.scope.ends_with(":write"), tool.requires_confirmation, "{}", declared.name);
        }
    }

    #[test]
    fn a_change_names_the_version_that_it_was_made_for() {
        let complains = |arguments: Value| update().complaints(arguments.as_object().unwrap());
        assert_eq!(complains(json!({"id": "x", "version": 1, "title": "t"})), None);
        assert!(complains(json!({"id": "x", "title": "t"})).unwrap().contains("version"));
        assert!(complains(json!({"id": "x", "version": 1, "confirm": true})).unwrap().contains("confirm"));
    }
}
