//! Contract 4: a body is what its operation says, or is refused with a pointer. The cases are made from the API's own
//! description: every body that JSON knows in the place of every value.

use std::collections::HashMap;

use cardinal_tests::{Answer, Host, Package, PluginsFolder, User, unique};
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

const CARDS: &str = "/v1/admin/master-cards";
/// Deeper types than this there are none.
const DEPTH: usize = 6;

/// The description of a type, with references followed.
struct Schema<'a> {
    document: &'a Value,
    schema: &'a Value,
}

impl<'a> Schema<'a> {
    fn new(document: &'a Value, mut schema: &'a Value) -> Self {
        while let Some(name) = schema["$ref"].as_str() {
            schema = document.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{name} is missing"));
        }
        Self { document, schema }
    }

    fn nested(&self, schema: &'a Value) -> Self {
        Self::new(self.document, schema)
    }

    fn branches(&self) -> Vec<Schema<'a>> {
        let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|list| self.schema[*list].as_array());
        lists.flatten().map(|branch| self.nested(branch)).collect()
    }

    /// Whether a value of this JSON type may stand here.
    fn allows(&self, value: &Value) -> bool {
        if let Some(names) = self.schema["enum"].as_array() {
            return names.contains(value);
        }
        if let Some(constant) = self.schema.get("const") {
            return constant == value;
        }
        let branches = self.branches();
        if !branches.is_empty() {
            return branches.iter().any(|branch| branch.allows(value));
        }
        let types: Vec<&str> = match &self.schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        match value {
            Value::Null => types.contains(&"null"),
            Value::Bool(_) => types.contains(&"boolean"),
            Value::Number(_) => types.contains(&"integer") || types.contains(&"number"),
            Value::String(_) => types.contains(&"string"),
            Value::Array(_) => types.contains(&"array"),
            Value::Object(_) => types.contains(&"object"),
        }
    }

    /// A value with the members that are required.
    fn sample(&self) -> Value {
        for value in [json!({}), json!([]), json!(1), json!(true), json!("text")] {
            if self.allows(&value) {
                return match value {
                    Value::Object(_) => self.required().map(|(name, schema)| (name, schema.sample())).collect(),
                    value => value,
                };
            }
        }
        self.schema["enum"][0].clone()
    }

    fn properties(&self) -> Vec<(String, Schema<'a>)> {
        let own = self.schema["properties"].as_object().into_iter().flatten();
        let own = own.map(|(name, schema)| (name.clone(), self.nested(schema)));
        own.chain(self.branches().iter().flat_map(Schema::properties)).collect()
    }

    fn required(&self) -> impl Iterator<Item = (String, Schema<'a>)> {
        let required = self.schema["required"].as_array().cloned().unwrap_or_default();
        self.properties().into_iter().filter(move |(name, _)| required.contains(&json!(name)))
    }

    fn items(&self) -> Option<Schema<'a>> {
        let own = self.schema.get("items").map(|items| self.nested(items));
        own.or_else(|| self.branches().iter().find_map(Schema::items))
    }

    /// Values with something wrong in one place, and the pointer to it.
    fn wrong(&self, depth: usize) -> Vec<(String, Value)> {
        let values = [json!([]), json!(["a", "b"]), json!("text"), json!(5), Value::Null, json!(true), json!({"x": 1})];
        let mut all: Vec<_> =
            values.into_iter().filter(|value| !self.allows(value)).map(|value| (String::new(), value)).collect();
        if depth == 0 {
            return all;
        }
        for (name, schema) in self.properties() {
            for (pointer, value) in schema.wrong(depth - 1) {
                let mut whole = self.sample();
                whole[&name] = value;
                all.push((format!("/{name}{pointer}"), whole));
            }
        }
        let items = self.items().map(|items| items.wrong(depth - 1)).unwrap_or_default();
        all.extend(items.into_iter().map(|(pointer, value)| (format!("/0{pointer}"), json!([value]))));
        all
    }
}

/// What stands in the place of path parameters.
struct Objects(HashMap<&'static str, String>);

impl Objects {
    async fn make(owner: &User) -> Self {
        let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
        let user = owner.post("/v1/admin/users", &json!({"username": unique("shape")})).await.expect(201);
        let view = owner.post("/v1/admin/views", &json!({"name": unique("shape")})).await.expect(201);
        let key = owner.make_key(json!({"name": unique("shape"), "scopes": ["cards:read"]})).await;
        Self(HashMap::from([
            ("master-cards", id(&owner.card("Shape").await)),
            ("users", id(&user["item"])),
            ("views", id(&view["item"])),
            ("api-keys", id(&key["item"])),
            ("plugin-registry", "echo".to_owned()),
        ]))
    }

    fn path(&self, template: &str) -> String {
        let resource = template.trim_start_matches("/v1/admin/").split('/').next().unwrap();
        let object = self.0.get(resource).cloned().unwrap_or_else(|| Uuid::now_v7().to_string());
        let parts = template.split('/').map(|part| if part.starts_with('{') { object.as_str() } else { part });
        parts.collect::<Vec<_>>().join("/")
    }
}

/// Words of a problem that look like the name of a type.
fn type_names(answer: &Answer) -> Vec<String> {
    let problem = answer.json();
    let text = format!("{} {}", problem["detail"], problem["errors"]);
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_owned);
    let is_name = |word: &String| {
        let letters: Vec<char> = word.chars().collect();
        let camel = letters.windows(2).any(|pair| pair[0].is_lowercase() && pair[1].is_uppercase());
        camel
            || ["struct", "enum", "tuple", "sequence", "map", "i64", "u32", "i32", "u64", "usize"]
                .contains(&word.as_str())
    };
    words.filter(is_name).collect()
}

/// What is wrong with the answer to a wrong body; none when it is refused as it has to be.
fn fault(answer: &Answer, pointer: &str) -> Option<&'static str> {
    if answer.status.as_u16() != 422 {
        return Some("is not refused with 422");
    }
    let problem = answer.problem();
    let pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().filter_map(|one| one["pointer"].as_str()).collect();
    if !pointers.contains(&pointer) {
        return Some("does not point there");
    }
    (!type_names(answer).is_empty()).then_some("names a type of the program")
}

#[tokio::test]
async fn every_wrong_body_of_the_description_is_refused_with_a_pointer() {
    let plugins = PluginsFolder::bundled().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let caller = owner.unlimited().await;
    let document = owner.get("/v1/admin/openapi.json").await.expect(200);
    let objects = Objects::make(owner).await;
    let (mut operations, mut cases, mut faults) = (0, 0, Vec::new());
    for (template, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let content = operation["requestBody"]["content"].as_object().into_iter().flatten();
            let json = content.filter(|(kind, _)| kind.ends_with("json")).collect::<Vec<_>>();
            // A plugin's body is its own business, and MCP answers in JSON-RPC.
            let [(kind, media), ..] = json[..] else { continue };
            if !template.starts_with("/v1/admin/") || template.starts_with("/v1/admin/plugins/") {
                continue;
            }
            operations += 1;
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            // They want a person: a key never sets a password, nor decides for one.
            let wants_person = template.ends_with("/auth/password") || template.starts_with("/v1/admin/approvals/");
            let caller = if wants_person { &**owner } else { &caller };
            for (pointer, body) in Schema::new(&document, &media["schema"]).wrong(DEPTH) {
                cases += 1;
                let call = caller.call(method.clone(), &objects.path(template));
                let answer = call.body(kind, body.to_string()).send().await;
                if let Some(fault) = fault(&answer, &pointer) {
                    faults.push(format!(
                        "{method} {template} {body} {fault} ({pointer}): {} {}",
                        answer.status,
                        answer.text()
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {cases}:\n{}", faults.len(), faults.join("\n"));
    assert!(operations >= 18 && cases >= 500, "{operations} operations, {cases} cases");
}

#[tokio::test]
async fn a_field_is_refused_where_no_body_is_described() {
    let plugins = PluginsFolder::bundled().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let caller = host.owner().await.unlimited().await;
    let document = caller.get("/v1/admin/openapi.json").await.expect(200);
    let objects = Objects::make(host.owner().await).await;
    let mut operations = 0;
    for (template, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let is_ours = template.starts_with("/v1/admin/") && !template.starts_with("/v1/admin/plugins/");
            if !is_ours || method == "get" || !operation["requestBody"].is_null() {
                continue;
            }
            operations += 1;
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let caller = if template.starts_with("/v1/admin/approvals/") { host.owner().await } else { &caller };
            let answer = caller.call(method.clone(), &objects.path(template)).json(&json!({"typo": 1})).send().await;
            let fault = fault(&answer, "/typo");
            assert!(fault.is_none(), "{method} {template} {fault:?}: {answer}");
        }
    }
    assert!(operations >= 15, "{operations} operations");
    // Some clients send these with every call.
    for nothing in [json!({}), Value::Null] {
        let path = format!("{CARDS}/{}", host.owner().await.card("Gone").await["id"].as_str().unwrap());
        caller.call(Method::DELETE, &path).json(&nothing).send().await.expect(204);
    }
}

#[tokio::test]
async fn an_array_does_nothing_in_the_place_of_an_object() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("As it was").await;
    let at = format!("{CARDS}/{}", card["id"].as_str().unwrap());
    for (method, path, body) in [
        (Method::POST, CARDS, json!(["An array", unique("SKU")])),
        (Method::PATCH, at.as_str(), json!(["x"])),
        (Method::PUT, "/v1/admin/proxy-routes", json!([[]])),
        (Method::POST, "/v1/admin/auth/login", json!([cardinal_tests::OWNER, cardinal_tests::OWNER_PASSWORD])),
        (Method::PUT, "/v1/admin/system/log-level", json!(["cardinal", "debug", 1])),
    ] {
        let problem = owner.call(method, path).json(&body).send().await.refused(422, "validation-failed");
        let told = json!([{"pointer": "", "detail": "Expected an object, found an array."}]);
        assert_eq!(problem["errors"], told, "{path}");
    }
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await, card);
}

#[tokio::test]
async fn a_wrong_type_is_no_broken_json() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for status in [Value::Null, json!(5), json!(["draft"]), json!({"draft": null}), json!("lost")] {
        let body = json!({"title": "a", "sku": unique("SKU"), "status": status});
        let problem = owner.post(CARDS, &body).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], "/status");
        let detail = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("`draft`, `active`, `archived`"), "{detail}");
    }
    for broken in ["{", "{\"title\": }", "{\"title\": 5", "[\"a\"", "{} {}", ""] {
        let answer = owner.call(Method::POST, CARDS).body("application/json", broken).send().await;
        answer.refused(400, "invalid-json");
    }
}
