//! The API's description in OpenAPI 3.1. Pure: what is known of each route comes in, a document goes out.
//!
//! A route is described where it stands in the table: `Route::get(...).describe(|op| ...)`. Schemas come from the very
//! types that are read and written; what follows from the row itself (path, scope, body limit, usual failures) and from
//! its handler's signature (query, body) nobody says again.

mod documents;
mod foreign;
mod operation;
mod shared;

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

pub(crate) use self::{
    documents::{DocumentBody, Documents},
    foreign::{Foreign, PluginOperation},
    operation::Operation,
};

/// What the row of a route says by itself.
pub struct Facts {
    pub method: http::Method,
    /// As matchit takes it.
    pub path: &'static str,
    pub access: Entry,
    /// What types of body are taken and how many bytes, when the host reads one.
    pub body: Option<(&'static [&'static str], usize)>,
}

/// Who may come in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Everybody,
    Known,
    With(&'static str),
}

/// How a route is described.
pub(crate) type Describe = fn(&mut Operation<'_>);

/// The document of the core's routes, to which plugins' are added.
#[derive(Clone)]
pub struct Document {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    tags: Vec<Value>,
    base_url: String,
    version: &'static str,
}

impl Document {
    pub fn new(
        base_url: &str,
        version: &'static str,
        rows: impl Iterator<Item = (Facts, impl Fn(&mut Operation<'_>))>,
    ) -> Self {
        let mut written = generator(true);
        let mut read = generator(false);
        let mut paths = Map::new();
        let mut tags: Vec<&'static str> = Vec::new();
        for (facts, describe) in rows {
            let mut operation = Operation::new(&mut read, &mut written);
            describe(&mut operation);
            if !operation.tag.is_empty() && !tags.contains(&operation.tag) {
                tags.push(operation.tag);
            }
            let at = foreign::template(facts.path).0;
            let method = facts.method.as_str().to_ascii_lowercase();
            let described = operation.finish(&facts);
            if let Value::Object(methods) = paths.entry(at).or_insert_with(|| json!({})) {
                methods.insert(method, described);
            }
        }
        let mut schemas = written.take_definitions(true);
        schemas.extend(shared::schemas());
        let tags = tags.into_iter().map(|tag| json!({"name": tag})).collect();
        Self { paths, schemas, tags, base_url: base_url.to_owned(), version }
    }

    /// Adds the routes of plugins.
    pub fn add(&mut self, plugins: &[Foreign<'_>]) {
        for plugin in plugins {
            self.tags.push(plugin.tag());
            foreign::add(plugin, &mut self.paths, &mut self.schemas);
        }
    }

    /// The whole.
    pub(crate) fn into_value(self) -> Value {
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Cardinal",
                "version": self.version,
                "summary": "Product cards, and the plugins that enrich them.",
                "description": shared::ABOUT,
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "externalDocs": {"url": format!("{}/problems", self.base_url), "description": "Every error code"},
            "servers": [{"url": self.base_url}],
            "security": [{"bearer": []}],
            "tags": self.tags,
            "paths": self.paths,
            "components": {
                "schemas": self.schemas,
                "responses": shared::responses(&self.base_url),
                "headers": shared::headers(),
                "securitySchemes": shared::security(),
            },
        })
    }
}

/// The query parameters of a route, by its description.
pub(crate) fn query_names(describe: Describe) -> Vec<String> {
    let (mut read, mut written) = (generator(false), generator(true));
    let mut operation = Operation::new(&mut read, &mut written);
    describe(&mut operation);
    operation.query_names()
}

/// What is written is named and shared; what is read is small and stands where it is used.
fn generator(written: bool) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        settings.inline_subschemas = !written;
    });
    if written { settings.for_serialize() } else { settings.for_deserialize() }.into_generator()
}
