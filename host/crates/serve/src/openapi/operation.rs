//! One route, as its row describes it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{Entry, Facts, foreign, shared};
use cardinal_base::{
    codes::Code,
    page::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE},
};

/// Statuses that any route may answer with: a bad request line or header, another's host name, a limit, a host that
/// is at fault, busy or going.
const ALWAYS: [u16; 7] = [400, 414, 421, 429, 431, 500, 503];

/// A description that is being put together. Every function adds to it and gives it back.
pub struct Operation<'g> {
    read: &'g mut SchemaGenerator,
    written: &'g mut SchemaGenerator,
    id: &'static str,
    pub(super) tag: &'static str,
    summary: &'static str,
    description: Option<&'static str>,
    parameters: Vec<Value>,
    bodies: Vec<(&'static str, Value)>,
    works_without_body: bool,
    replies: BTreeMap<u16, Value>,
    fails: BTreeSet<u16>,
    codes: BTreeMap<u16, Vec<&'static Code>>,
}

impl<'g> Operation<'g> {
    pub(super) fn new(read: &'g mut SchemaGenerator, written: &'g mut SchemaGenerator) -> Self {
        Self {
            read,
            written,
            id: "",
            tag: "",
            summary: "",
            description: None,
            parameters: Vec::new(),
            bodies: Vec::new(),
            works_without_body: false,
            replies: BTreeMap::new(),
            fails: BTreeSet::new(),
            codes: BTreeMap::new(),
        }
    }

    /// Its unique and lasting id, the group that it is shown in, and one line for people.
    pub fn named(&mut self, id: &'static str, tag: &'static str, summary: &'static str) -> &mut Self {
        (self.id, self.tag, self.summary) = (id, tag, summary);
        self
    }

    /// What one line can't hold.
    pub fn notes(&mut self, description: &'static str) -> &mut Self {
        self.description = Some(description);
        self
    }

    /// The query: each field of `T` is a parameter. A parameter that is not described here is refused.
    pub fn query<T: JsonSchema>(&mut self) -> &mut Self {
        let schema = without_null(T::json_schema(self.read).to_value());
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.iter().any(|required| required == name);
            self.parameters.push(parameter(name, "query", is_required, schema.clone()));
        }
        self
    }

    /// The parameters of a list that say which page.
    pub(crate) fn paged(&mut self) -> &mut Self {
        self.param(
            "limit",
            "Entries per page.",
            json!({"minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE}),
        )
        .param("cursor", "`next_cursor` of the previous page.", json!({}))
    }

    /// The parameters of a list of cards that say which.
    pub(crate) fn card_filter(&mut self) -> &mut Self {
        self.param(
            "q",
            "In title or SKU: anywhere from 3 characters on, else where they begin.",
            json!({"maxLength": 200}),
        )
        .param("status", "Only of this status.", json!({"enum": ["draft", "active", "archived"]}))
        .param("kind", "Only with a source of this kind.", json!({"minLength": 1, "maxLength": 200}))
        .param("plugin", "Only with a source of this plugin.", json!({"minLength": 1, "maxLength": 200}))
        .param("missing_kind", "Only without a source of this kind.", json!({"minLength": 1, "maxLength": 200}))
        .param("updated_since", "Only changed since.", json!({"format": "date-time"}))
        .param("deleted", "Those that are deleted and not purged yet.", json!({"enum": ["true", "false"]}))
    }

    /// More of a parameter's schema than its type says: limits, an enum, an example. Of a parameter of the path, too.
    pub fn param(&mut self, name: &'static str, description: &'static str, more: Value) -> &mut Self {
        let known = self.parameters.iter_mut().find(|parameter| parameter["name"] == name);
        let parameter = match known {
            Some(parameter) => parameter,
            None => {
                self.parameters.push(parameter(name, "path", true, json!({"type": "string"})));
                let last = self.parameters.len() - 1;
                &mut self.parameters[last]
            }
        };
        parameter["description"] = description.into();
        if let (Value::Object(schema), Value::Object(more)) = (&mut parameter["schema"], more) {
            schema.extend(more);
        }
        self
    }

    /// A request header.
    pub fn header(&mut self, name: &'static str, description: &'static str) -> &mut Self {
        let mut header = parameter(name, "header", false, json!({"type": "string"}));
        header["description"] = description.into();
        self.parameters.push(header);
        self
    }

    /// The JSON body, of the types that the row reads.
    pub fn reads<T: JsonSchema>(&mut self) -> &mut Self {
        let schema = T::json_schema(self.read).to_value();
        self.bodies.push(("", schema));
        self
    }

    /// The same, and it may be left out.
    pub(crate) fn may_read<T: JsonSchema>(&mut self) -> &mut Self {
        self.works_without_body = true;
        self.reads::<T>()
    }

    /// A body of another type, which the handler reads itself.
    pub fn body(&mut self, media_type: &'static str, schema: Value) -> &mut Self {
        self.bodies.push((media_type, schema));
        self
    }

    /// 200 with JSON.
    pub fn ok<T: JsonSchema>(&mut self) -> &mut Self {
        self.replies_with::<T>(200, "Done.")
    }

    /// 201 with JSON, and where the new thing is.
    pub fn created<T: JsonSchema>(&mut self) -> &mut Self {
        self.replies_with::<T>(201, "Made.").location(201)
    }

    /// 202 with JSON, and where its progress is.
    pub fn accepted<T: JsonSchema>(&mut self) -> &mut Self {
        self.replies_with::<T>(202, "Begun.").location(202)
    }

    pub(crate) fn no_content(&mut self) -> &mut Self {
        self.replies.insert(204, reply("Done.", None));
        self
    }

    /// JSON with another status.
    pub(crate) fn replies_with<T: JsonSchema>(&mut self, status: u16, description: &str) -> &mut Self {
        let schema = self.written.subschema_for::<T>().to_value();
        self.replies_as(status, description, "application/json", schema)
    }

    /// A body of another type.
    pub(crate) fn replies_as(&mut self, status: u16, description: &str, media_type: &str, schema: Value) -> &mut Self {
        let known = self.replies.entry(status).or_insert_with(|| reply(description, None));
        known["content"][media_type] = json!({"schema": schema});
        self
    }

    /// An answer without a body.
    pub fn answers(&mut self, status: u16, description: &str) -> &mut Self {
        self.replies.insert(status, reply(description, None));
        self
    }

    fn location(&mut self, status: u16) -> &mut Self {
        if let Some(reply) = self.replies.get_mut(&status) {
            reply["headers"]["Location"] = shared::header("Location");
        }
        self
    }

    /// `ETag` on what was written so far; for reading, `If-None-Match` and 304.
    pub fn etag(&mut self) -> &mut Self {
        for (_, reply) in self.replies.range_mut(200..300) {
            reply["headers"]["ETag"] = shared::header("ETag");
        }
        self
    }

    /// `If-None-Match`, and 304 when nothing has changed.
    pub(crate) fn unless_known(&mut self) -> &mut Self {
        self.etag().header("If-None-Match", "An `ETag`: 304 when the object still has it.");
        self.replies.insert(304, json!({"description": "Unchanged.", "headers": {"ETag": shared::header("ETag")}}));
        self
    }

    /// `If-Match`, and 412 when somebody else was first.
    pub fn if_match(&mut self) -> &mut Self {
        self.header("If-Match", "The `ETag` that the change was made from, or `*`.").fails(&[412])
    }

    /// Further statuses of failures.
    pub fn fails(&mut self, statuses: &[u16]) -> &mut Self {
        self.fails.extend(statuses);
        self
    }

    /// Failures that are worth naming one by one.
    pub fn refuses(&mut self, codes: &[&'static Code]) -> &mut Self {
        for code in codes {
            self.codes.entry(code.status).or_default().push(code);
        }
        self
    }

    /// The query parameters that were described so far.
    pub(super) fn query_names(&self) -> Vec<String> {
        let of_query = self.parameters.iter().filter(|parameter| parameter["in"] == "query");
        of_query.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
    }

    /// The operation object.
    pub(super) fn finish(mut self, facts: &Facts) -> Value {
        let (template, names) = foreign::template(facts.path);
        let mut order = Vec::new();
        for name in &names {
            let described =
                self.parameters.iter().position(|parameter| parameter["in"] == "path" && parameter["name"] == **name);
            order.push(match described {
                Some(described) => self.parameters.remove(described),
                None if name == "id" => parameter(name, "path", true, json!({"type": "string", "format": "uuid"})),
                None => parameter(name, "path", true, json!({"type": "string", "minLength": 1})),
            });
        }
        order.append(&mut self.parameters);
        let bodies = self.bodies(facts);
        let responses = self.responses(facts, !names.is_empty(), bodies.is_some());
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "parameters": order,
            "responses": responses,
        });
        if let Some(description) = self.description {
            operation["description"] = description.into();
        }
        if let Some(bodies) = bodies {
            operation["requestBody"] = bodies;
        }
        match facts.access {
            Entry::Everybody => operation["security"] = json!([]),
            Entry::Known => {}
            Entry::With(scope) => operation["x-required-scope"] = scope.into(),
        }
        debug_assert!(!template.is_empty());
        operation
    }

    fn bodies(&mut self, facts: &Facts) -> Option<Value> {
        let mut content = Map::new();
        for (media_type, schema) in std::mem::take(&mut self.bodies) {
            match (media_type, facts.body) {
                ("", Some((types, _))) => {
                    content.extend(types.iter().map(|name| ((*name).to_owned(), json!({"schema": schema}))));
                }
                ("", None) => drop(content.insert("application/json".to_owned(), json!({"schema": schema}))),
                (name, _) => drop(content.insert(name.to_owned(), json!({"schema": schema}))),
            }
        }
        if content.is_empty() {
            return None;
        }
        let mut body = json!({"required": !self.works_without_body, "content": content});
        if let Some((_, limit)) = facts.body {
            body["description"] = format!("At most {limit} bytes.").into();
        }
        Some(body)
    }

    fn responses(&mut self, facts: &Facts, names_an_object: bool, has_body: bool) -> Value {
        let mut statuses: BTreeSet<u16> = std::mem::take(&mut self.fails);
        statuses.extend(ALWAYS);
        if facts.access != Entry::Everybody {
            statuses.extend([401, 403]);
        }
        if names_an_object {
            statuses.insert(404);
        }
        if has_body {
            statuses.extend([408, 413, 415, 422]);
        }
        let mut responses = Map::new();
        for (status, mut reply) in std::mem::take(&mut self.replies) {
            if status < 400 {
                let headers = shared::on_every_reply(facts.access != Entry::Everybody);
                for (name, header) in headers {
                    reply["headers"][name] = header;
                }
            }
            responses.insert(status.to_string(), reply);
        }
        for (status, codes) in &self.codes {
            statuses.remove(status);
            responses.insert(status.to_string(), shared::refusal(*status, codes));
        }
        for status in statuses {
            responses.entry(status.to_string()).or_insert_with(|| shared::response(status));
        }
        Value::Object(responses)
    }
}

fn parameter(name: &str, place: &str, required: bool, mut schema: Value) -> Value {
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let mut parameter = json!({"name": name, "in": place, "required": required, "schema": schema});
    if let Some(description) = description {
        parameter["description"] = description;
    }
    parameter
}

fn reply(description: &str, content: Option<Value>) -> Value {
    let mut reply = json!({"description": description});
    if let Some(content) = content {
        reply["content"] = content;
    }
    reply
}

/// A query has no null: what may be left out is left out.
fn without_null(mut schema: Value) -> Value {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    for property in properties.values_mut() {
        if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                property["type"] = only.clone();
            }
        }
        if let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice["type"] != "null");
            if let [only] = choices.as_slice() {
                let mut only = only.clone();
                if let (Some(description), Value::Object(only)) = (property.get("description"), &mut only) {
                    only.entry("description").or_insert_with(|| description.clone());
                }
                *property = only;
            }
        }
        if let Value::Object(members) = property {
            members.remove("default");
        }
    }
    schema
}
