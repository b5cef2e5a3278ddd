//! Changing a card by JSON Merge Patch (RFC 7396).

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::card::{Faults, Status};
use super::error::CardError;
use cardinal_base::{exact::Object, input::maybe};

/// What a client sends to change a card: null is not a value for any of the fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CardPatch {
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "String", length(min = 1, max = 500))]
    title: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "String", length(min = 1, max = 120))]
    sku: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Status")]
    status: Option<Option<Status>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Map<String, Value>")]
    attributes: Option<Option<Object>>,
}

/// A checked change; what is `None` stays.
#[derive(Debug, Default)]
pub struct Change {
    pub title: Option<String>,
    pub sku: Option<String>,
    pub status: Option<Status>,
    /// A merge patch for the attributes, never with `sources`.
    pub attributes: Option<Object>,
}

impl CardPatch {
    pub fn check(self) -> Result<Change, CardError> {
        let mut faults = Faults::default();
        let change = Change {
            title: faults.required(self.title, "/title"),
            sku: faults.required(self.sku, "/sku"),
            status: faults.required(self.status, "/status"),
            attributes: faults.required(self.attributes, "/attributes"),
        };
        if let Some(title) = &change.title {
            faults.title(title);
        }
        if let Some(sku) = &change.sku {
            faults.sku(sku);
        }
        if let Some(attributes) = &change.attributes {
            faults.attributes(attributes);
        }
        faults.result().map(|()| change)
    }
}
