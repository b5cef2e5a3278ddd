//! A handler's input from wherever it came: query, path, JSON body or a tool's arguments. CSV rows and parameters of
//! the path are read by it, too.
//!
//! Values of the query and the path are text; here they become what the author's type asks for (`"10"` a number,
//! `"true"` a boolean, a repeated name a list). JSON values stay as strict as JSON is. A fault names its field with a
//! JSON pointer.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// The fields of an input, each where it came from.
#[derive(Default)]
pub(crate) struct Fields {
    fields: BTreeMap<String, Field>,
}

enum Field {
    /// From the path: what does not fit there is an address that leads nowhere.
    Param(String),
    Text(Vec<String>),
    Json(Value),
}

impl Fields {
    /// Adds a query's pairs. They never replace what is there.
    pub(crate) fn add_query(&mut self, query: &str) {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in pairs(query) {
            texts.entry(name).or_default().push(value);
        }
        for (name, values) in texts {
            self.fields.entry(name).or_insert(Field::Text(values));
        }
    }

    /// Adds the fields of a JSON object, in place of what is there.
    pub(crate) fn set_json(&mut self, object: Map<String, Value>) {
        self.fields.extend(object.into_iter().map(|(name, value)| (name, Field::Json(value))));
    }

    /// Adds a text under a name, in place of what is there.
    pub(crate) fn set_text(&mut self, name: &str, text: String) {
        self.fields.insert(name.to_owned(), Field::Text(vec![text]));
    }

    /// Adds a parameter of the path, in place of what is there.
    pub(crate) fn set_param(&mut self, name: &str, value: &str) {
        self.fields.insert(name.to_owned(), Field::Param(value.to_owned()));
    }

    /// The author's type. A field that does not fit is a 422 with its pointer; a parameter of the
    /// path that does not fit is a 404, as for an id that nobody has.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T> {
        self.parse().map_err(|(at, fault)| {
            if at.param {
                return nothing_there();
            }
            let pointer = at.name.or(fault.missing).map_or_else(String::new, |name| pointer(&name));
            Error::unprocessable(format!("The input does not fit: {}.", fault.text)).field(&pointer, &fault.text)
        })
    }

    /// A row of a file as the author's type; its line begins the pointer of a fault.
    pub(crate) fn read_row<T: DeserializeOwned>(self, line: u64) -> Result<T> {
        self.parse().map_err(|(at, fault)| {
            let pointer = at.name.or(fault.missing).map_or_else(String::new, |name| pointer(&name));
            Error::unprocessable(format!("Line {line} does not fit: {}.", fault.text))
                .field(&format!("/{line}{pointer}"), &fault.text)
        })
    }

    fn parse<T: DeserializeOwned>(self) -> Result<T, (At, Fault)> {
        let mut at = At::default();
        let access = Access { fields: self.fields.into_iter(), value: None, at: &mut at };
        let parsed = T::deserialize(de::value::MapAccessDeserializer::new(access));
        parsed.map_err(|fault| (at, fault))
    }
}

/// A parameter of the path as the author's type, without the other fields.
pub(crate) fn param<T: DeserializeOwned>(value: &str) -> Result<T> {
    T::deserialize(Texts(vec![value.to_owned()])).map_err(|_| nothing_there())
}

fn nothing_there() -> Error {
    Error::not_found("There is nothing at this address.")
}

/// The field that is being read, for the pointer of a fault.
#[derive(Default)]
struct At {
    name: Option<String>,
    param: bool,
}

/// The pairs of a query or form, decoded; `+` is a space.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// The JSON pointer of a top-level field.
pub(crate) fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// What went wrong, and which field is absent when that is it.
#[derive(Debug)]
struct Fault {
    text: String,
    missing: Option<String>,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<M: std::fmt::Display>(message: M) -> Self {
        Self { text: message.to_string(), missing: None }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { text: format!("the field `{field}` is missing"), missing: Some(field.to_owned()) }
    }
}

struct Access<'f, I> {
    fields: I,
    value: Option<Field>,
    at: &'f mut At,
}

impl<'de, I: Iterator<Item = (String, Field)>> MapAccess<'de> for Access<'_, I> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        *self.at = At::default();
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        *self.at = At { name: Some(name.clone()), param: matches!(value, Field::Param(_)) };
        self.value = Some(value);
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        match self.value.take() {
            Some(Field::Param(text)) => seed.deserialize(Texts(vec![text])),
            Some(Field::Text(texts)) => seed.deserialize(Texts(texts)),
            Some(Field::Json(value)) => seed.deserialize(value).map_err(de::Error::custom),
            None => Err(de::Error::custom("a value was read before its name")),
        }
    }
}

/// The texts given under one name; one is the usual case.
struct Texts(Vec<String>);

impl Texts {
    /// The only text; a name that was given twice where one value is wanted is a fault.
    fn one(mut self) -> Result<String, Fault> {
        match (self.0.len(), self.0.pop()) {
            (1, Some(text)) => Ok(text),
            _ => Err(de::Error::custom("it is given more than once")),
        }
    }

    fn parse<T: std::str::FromStr>(self, expected: &str) -> Result<T, Fault> {
        let text = self.one()?;
        text.parse().map_err(|_| de::Error::custom(format_args!("`{text}` is not {expected}")))
    }
}

macro_rules! parsed {
    ($expected:literal: $($method:ident $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.parse($expected)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Texts {
    type Error = Fault;

    parsed!("a whole number": deserialize_i8 visit_i8, deserialize_i16 visit_i16, deserialize_i32 visit_i32,
        deserialize_i64 visit_i64, deserialize_i128 visit_i128);
    parsed!("a whole number from 0": deserialize_u8 visit_u8, deserialize_u16 visit_u16, deserialize_u32 visit_u32,
        deserialize_u64 visit_u64, deserialize_u128 visit_u128);
    parsed!("a number": deserialize_f32 visit_f32, deserialize_f64 visit_f64);
    parsed!("`true` or `false`": deserialize_bool visit_bool);

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.len() > 1 { self.deserialize_seq(visitor) } else { visitor.visit_string(self.one()?) }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(Each(self.0.into_iter()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_enum(self.one()?.into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct tuple_struct map struct identifier ignored_any
    }
}

struct Each(std::vec::IntoIter<String>);

impl<'de> SeqAccess<'de> for Each {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        self.0.next().map(|text| seed.deserialize(Texts(vec![text]))).transpose()
    }
}

/// The fields of a JSON document that must be an object (or nothing at all).
pub(crate) fn object(bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match from_json(bytes)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::unprocessable("The body must be a JSON object.").field("", "is not an object")),
    }
}

/// A JSON document as `T`: 400 `invalid-json` when it is not JSON, 422 when it does not fit.
pub(crate) fn from_json<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            return Error::unprocessable(format!("The body does not fit: {error}.")).field("", &error.to_string());
        }
        Error::with_code(400, "invalid-json", format!("The body is not JSON: {error}."))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        Up,
        Down,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct Input {
        id: uuid::Uuid,
        limit: Option<u32>,
        #[serde(default)]
        deep: bool,
        #[serde(default)]
        tag: Vec<String>,
        order: Option<Order>,
        ratio: Option<f64>,
        extra: Option<Value>,
    }

    const ID: &str = "0190d3a0-0000-7000-8000-000000000001";

    fn fields(query: &str, body: Value, params: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        fields.add_query(query);
        fields.set_json(object(body.to_string().as_bytes()).unwrap());
        params.iter().for_each(|(name, value)| fields.set_param(name, value));
        fields
    }

    #[test]
    fn text_becomes_what_the_type_asks_for() {
        let input: Input = fields(
            "limit=10&deep=true&tag=a+b&tag=c%26&order=down&ratio=0.5&unknown=1",
            json!({ "extra": { "n": [1] } }),
            &[("id", ID)],
        )
        .read()
        .unwrap();
        assert_eq!((input.limit, input.deep, input.order, input.ratio), (Some(10), true, Some(Order::Down), Some(0.5)));
        assert_eq!((input.tag, input.id), (vec!["a b".to_owned(), "c&".to_owned()], ID.parse().unwrap()));
        assert_eq!(input.extra, Some(json!({ "n": [1] })));
    }

    #[test]
    fn the_path_wins_over_the_body_and_the_body_over_the_query() {
        let other = "0190d3a0-0000-7000-8000-000000000002";
        let input: Input = fields("limit=1&id=x", json!({ "limit": 2, "id": other }), &[("id", ID)]).read().unwrap();
        assert_eq!((input.limit, input.id), (Some(2), ID.parse().unwrap()));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (query, body, pointer) in [
            ("limit=ten", json!({}), "/limit"),
            ("limit=1&limit=2", json!({}), "/limit"),
            ("", json!({ "limit": "10" }), "/limit"), // JSON stays strict
            ("deep=maybe", json!({}), "/deep"),
            ("order=left", json!({}), "/order"),
            ("id=x", json!({ "id": "nonsense" }), "/id"),
        ] {
            let params: &[_] = if pointer == "/id" { &[] } else { &[("id", ID)] };
            let error = fields(query, body, params).read::<Input>().unwrap_err();
            assert_eq!(error.status(), Some(422));
            assert!(format!("{error:?}").contains(&format!("\"pointer\":\"{pointer}\"")), "{error:?}");
        }
        let missing = Fields::default().read::<Input>().unwrap_err();
        assert!(format!("{missing:?}").contains("\"/id\""), "{missing:?}");
    }

    #[test]
    fn a_parameter_of_the_path_that_does_not_fit_leads_nowhere() {
        let error = fields("", json!({}), &[("id", "7")]).read::<Input>().unwrap_err();
        assert_eq!(error.status(), Some(404));
        assert_eq!(param::<uuid::Uuid>("7").unwrap_err().status(), Some(404));
        assert_eq!((param::<u8>("7").unwrap(), param::<Order>("up").unwrap()), (7, Order::Up));
    }

    #[test]
    fn a_body_that_is_no_json_or_no_object_is_told_apart() {
        assert_eq!(object(b"{").unwrap_err().code(), Some("invalid-json"));
        assert_eq!(object(b"[1]").unwrap_err().status(), Some(422));
        assert!(object(b" \n").unwrap().is_empty());
    }
}
