//! Routes that others wrote: a plugin's paths and schemas as they stand in its manifest. Whatever they say, the
//! document stays whole: no schema points out of itself, none is larger than it may be, what is no schema is left out.

use serde_json::{Map, Value, json};

use super::shared;

/// Bytes of one schema, and of all of a plugin's.
const SCHEMA_LIMIT: usize = 64 * 1024;
const PLUGIN_LIMIT: usize = 1024 * 1024;
/// Members whose values are data and no schemas.
const DATA: [&str; 5] = ["const", "enum", "default", "example", "examples"];
/// What would give a schema another base to find its parts from, or names outside of this document.
const BASES: [&str; 7] =
    ["$schema", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

/// A plugin in service.
pub struct Foreign<'p> {
    pub name: &'p str,
    pub title: &'p str,
    pub description: Option<&'p str>,
    pub prefix: &'p str,
    pub operations: Vec<PluginOperation<'p>>,
}

/// One of its routes.
pub struct PluginOperation<'p> {
    pub method: &'p http::Method,
    /// As matchit takes it, below the prefix.
    pub path: &'p str,
    pub handler: &'p str,
    pub summary: Option<&'p str>,
    pub scope: &'p str,
    pub timeout_ms: u64,
    pub max_body_bytes: usize,
    pub request_schema: Option<&'p Value>,
    pub response_schema: Option<&'p Value>,
}

impl Foreign<'_> {
    pub(super) fn tag(&self) -> Value {
        let about = self.description.unwrap_or(self.title);
        json!({"name": self.group(), "description": format!("Plugin {}. {about}", self.name)})
    }

    fn group(&self) -> String {
        format!("plugin {}", self.name)
    }
}

/// A path of matchit as OpenAPI writes it, and the names in it. `{*rest}` becomes `{rest}`, `{{` is a brace.
pub(super) fn template(path: &str) -> (String, Vec<String>) {
    let (mut out, mut names) = (String::with_capacity(path.len()), Vec::new());
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.peek() == Some(&c) => {
                chars.next();
                out.push_str(if c == '{' { "%7B" } else { "%7D" });
            }
            '{' => {
                let name: String = chars.by_ref().take_while(|c| *c != '}').filter(|c| *c != '*').collect();
                out.push_str(&format!("{{{name}}}"));
                names.push(name);
            }
            c => out.push(c),
        }
    }
    (out, names)
}

pub(super) fn add(plugin: &Foreign<'_>, paths: &mut Map<String, Value>, schemas: &mut Map<String, Value>) {
    let snake = plugin.name.replace('-', "_");
    let mut left = PLUGIN_LIMIT;
    let mut ids: Vec<String> = Vec::new();
    for operation in &plugin.operations {
        let (below, names) = template(operation.path);
        let at = format!("/v1/admin/plugins/{}{below}", plugin.prefix);
        let Value::Object(methods) = paths.entry(at).or_insert_with(|| json!({})) else { continue };
        let method = operation.method.as_str().to_ascii_lowercase();
        // OpenAPI has names for these alone, and room for one of each.
        let known = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
        if !known.contains(&method.as_str()) || methods.contains_key(&method) {
            continue;
        }
        let id = unique(&format!("plugin_{snake}_{}", operation.handler), &mut ids);
        let mut take = |what: &str, schema: Option<&Value>| {
            let name = format!("{id}_{what}");
            let schema = schema.map(|schema| adopted(schema, &name, &mut left))?;
            schemas.insert(name.clone(), schema);
            Some(json!({"$ref": format!("#/components/schemas/{name}")}))
        };
        let (request, response) =
            (take("request", operation.request_schema), take("response", operation.response_schema));
        methods.insert(method, described(plugin, operation, &id, &names, request, response));
    }
}

fn unique(wanted: &str, ids: &mut Vec<String>) -> String {
    let plain: String = wanted.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut id = plain.clone();
    let mut number = 1;
    while ids.contains(&id) {
        number += 1;
        id = format!("{plain}_{number}");
    }
    ids.push(id.clone());
    id
}

fn described(
    plugin: &Foreign<'_>,
    operation: &PluginOperation<'_>,
    id: &str,
    names: &[String],
    request: Option<Value>,
    response: Option<Value>,
) -> Value {
    let parameter = |name: &String| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let mut responses: Map<String, Value> = [400, 401, 403, 404, 413, 414, 415, 421, 422, 429, 431, 500, 502, 503, 504]
        .into_iter()
        .map(|status| (status.to_string(), json!({"$ref": "#/components/responses/PluginProblem"})))
        .collect();
    let headers: Map<String, Value> =
        shared::on_every_reply(true).into_iter().map(|(name, header)| (name.to_owned(), header)).collect();
    let content = response.map(|schema| json!({"application/json": {"schema": schema}}));
    let mut done = json!({"description": "The plugin's answer.", "headers": headers});
    if let Some(content) = content {
        done["content"] = content;
    }
    responses.insert("200".to_owned(), done);
    responses.insert("default".to_owned(), json!({"description": "Whatever else the plugin answers with."}));
    let mut described = json!({
        "operationId": id,
        "tags": [plugin.group()],
        "summary": operation.summary.unwrap_or(operation.handler),
        "parameters": names.iter().map(parameter).collect::<Vec<_>>(),
        "responses": responses,
        "x-required-scope": operation.scope,
        "x-plugin": plugin.name,
        "x-timeout-ms": operation.timeout_ms,
    });
    if *operation.method != http::Method::GET {
        let limit = operation.max_body_bytes;
        described["x-max-body-bytes"] = limit.into();
        let content = match request {
            Some(schema) => json!({"application/json": {"schema": schema}}),
            None => json!({"*/*": {"schema": {}}}),
        };
        described["requestBody"] = json!({"description": format!("At most {limit} bytes."), "content": content});
    }
    described
}

/// A schema of a plugin as a part of this document: what points into itself points to where it stands now.
fn adopted(schema: &Value, name: &str, left: &mut usize) -> Value {
    let nothing = |why: &str| json!({"description": format!("The plugin's own schema is left out: {why}.")});
    let size = serde_json::to_vec(schema).map_or(usize::MAX, |bytes| bytes.len());
    if size > SCHEMA_LIMIT || size > *left {
        return nothing("it is too large");
    }
    // The check follows `$schema`, which may name anything.
    let mut adopted = schema.clone();
    rebased(&mut adopted, schema, name);
    let mut alone = adopted.clone();
    without_pointers(&mut alone);
    if !(adopted.is_object() || adopted.is_boolean()) || !jsonschema::draft202012::meta::is_valid(&alone) {
        return nothing("it is not JSON Schema 2020-12");
    }
    *left -= size;
    adopted
}

fn rebased(part: &mut Value, whole: &Value, name: &str) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(|item| rebased(item, whole, name)),
        Value::Object(members) => {
            members.retain(|key, value| !(BASES.contains(&key.as_str()) && value.is_string()));
            if let Some(pointer) = members.get("$ref").and_then(Value::as_str).map(str::to_owned) {
                let inside = pointer.strip_prefix('#').filter(|rest| whole.pointer(&unescaped(rest)).is_some());
                match inside {
                    Some(rest) => {
                        drop(members.insert("$ref".to_owned(), format!("#/components/schemas/{name}{rest}").into()))
                    }
                    None => drop(members.remove("$ref")), // it would point to nowhere, or out of the document
                }
            }
            for (key, value) in members.iter_mut() {
                if !DATA.contains(&key.as_str()) {
                    rebased(value, whole, name);
                }
            }
        }
        _ => {}
    }
}

fn unescaped(fragment: &str) -> String {
    percent_encoding::percent_decode_str(fragment).decode_utf8_lossy().into_owned()
}

fn without_pointers(part: &mut Value) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(without_pointers),
        Value::Object(members) => {
            members.retain(|key, value| !(key == "$ref" && value.is_string()));
            members.values_mut().for_each(without_pointers);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_openapi_writes_it() {
        for (path, written, names) in [
            ("/", "/", vec![]),
            ("/a/{id}", "/a/{id}", vec!["id"]),
            ("/a/{id}/b/{*rest}", "/a/{id}/b/{rest}", vec!["id", "rest"]),
            ("/a/{{x}}", "/a/%7Bx%7D", vec![]),
            ("/v{n}.json", "/v{n}.json", vec!["n"]),
        ] {
            assert_eq!(template(path), (written.to_owned(), names.into_iter().map(str::to_owned).collect()), "{path}");
        }
    }

    fn adopt(schema: Value) -> Value {
        adopted(&schema, "n", &mut PLUGIN_LIMIT.clone())
    }

    #[test]
    fn a_schema_points_into_itself_or_nowhere() {
        let schema = adopt(json!({
            "$id": "https://elsewhere.example/x", "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {
                "$ref": {"type": "string"},
                "a": {"$ref": "#/$defs/a%20b"},
                "b": {"$ref": "#/$defs/gone", "type": "string"},
                "c": {"$ref": "https://elsewhere.example/y"},
                "d": {"$ref": "#"},
                "e": {"const": {"$ref": "#/data"}},
            },
            "$defs": {"a b": {"type": "integer"}},
        }));
        assert_eq!(
            schema,
            json!({
                "properties": {
                    "$ref": {"type": "string"},
                    "a": {"$ref": "#/components/schemas/n/$defs/a%20b"},
                    "b": {"type": "string"},
                    "c": {},
                    "d": {"$ref": "#/components/schemas/n"},
                    "e": {"const": {"$ref": "#/data"}},
                },
                "$defs": {"a b": {"type": "integer"}},
            })
        );
    }

    #[test]
    fn what_is_no_schema_or_too_large_is_left_out() {
        for wrong in
            [json!({"type": 5}), json!({"properties": []}), json!("text"), json!(null), json!({"required": "x"})]
        {
            assert!(adopt(wrong.clone())["description"].as_str().unwrap().contains("not JSON Schema"), "{wrong}");
        }
        let large = json!({"description": "x".repeat(SCHEMA_LIMIT)});
        assert!(adopt(large)["description"].as_str().unwrap().contains("too large"));
        let mut left = 100;
        let small = json!({"description": "x".repeat(60)});
        assert_eq!(adopted(&small, "n", &mut left), small);
        assert_ne!(adopted(&small, "n", &mut left), small, "all of a plugin's together are bounded");
    }
}
