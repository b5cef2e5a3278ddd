//! How types that are not ours are described in JSON Schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A time of RFC 3339: `#[schemars(with = "DateTime")]` beside `#[serde(with = "time::serde::rfc3339")]`.
pub struct DateTime;

impl JsonSchema for DateTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DateTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// Who did something.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "what is stored is JSON, and this is its description")]
pub struct Actor {
    /// `user`, `api_key`, `oidc`, `plugin`, `local`, `host`, `others`, or `client`: the user of an MCP client, as it
    /// says.
    kind: String,
    id: Option<uuid::Uuid>,
    name: Option<String>,
}
