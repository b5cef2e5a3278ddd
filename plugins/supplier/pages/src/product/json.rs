//! JSON as shops really write it, with numbers kept digit for digit.

mod repair;

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Real product data is some ten levels deep. Deeper values read as [`Json::Nothing`].
const MAX_DEPTH: usize = 64;

/// What frames the JSON of an old page, so that browsers without scripts would not show it.
const BEFORE: [&str; 5] = ["<!--", "//", "/*", "*/", "<![CDATA["];
const AFTER: [&str; 6] = ["-->", "//", "/*", "*/", "]]>", ";"];

#[derive(Debug)]
pub(super) enum Json {
    Nothing,
    /// As it stood in the page: `19.90` is not `19.9`, and no float has touched it.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// The value of a block. Mistakes that do not hide what is meant are forgiven; of a block that is
    /// broken further down, the whole values before the break count.
    pub(super) fn parse(text: &str) -> Option<Json> {
        // What frames the whole is a comment too, when it stands in lines of its own.
        let parse = |text| Json::parse_whole(text).ok();
        parse(unframed(text)).or_else(|| parse_mended(text)).or_else(|| parse_mended(unframed(text)))
    }

    /// The value of a file that is nothing but JSON, without a mistake.
    pub(super) fn parse_whole(text: &str) -> serde_json::Result<Json> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Ok(read(raw, 0))
    }

    pub(super) fn get(&self, key: &str) -> &Json {
        match self {
            Json::Object(fields) => fields.get(key).unwrap_or(&Json::Nothing),
            _ => &Json::Nothing,
        }
    }

    /// The items of a list; any other value is a list of itself. JSON-LD means the same by both.
    pub(super) fn items(&self) -> &[Json] {
        match self {
            Json::Nothing => &[],
            Json::List(items) => items,
            one => std::slice::from_ref(one),
        }
    }
}

fn unframed(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let before = text.len();
        for frame in BEFORE {
            text = text.strip_prefix(frame).unwrap_or(text).trim_start();
        }
        for frame in AFTER {
            text = text.strip_suffix(frame).unwrap_or(text).trim_end();
        }
        if text.len() == before {
            return text;
        }
    }
}

fn parse_mended(text: &str) -> Option<Json> {
    let mended = repair::repaired(text);
    let values = serde_json::Deserializer::from_str(&mended).into_iter::<&RawValue>();
    let mut values: Vec<Json> = values.map_while(Result::ok).map(|raw| read(raw, 0)).collect();
    if values.len() > 1 { Some(Json::List(values)) } else { values.pop() }
}

fn read(raw: &RawValue, depth: usize) -> Json {
    let text = raw.get();
    let value = match text.as_bytes().first() {
        _ if depth == MAX_DEPTH => None,
        Some(b'{') => object(text, depth),
        Some(b'[') => list(text, depth),
        Some(b'"') => serde_json::from_str(text).ok().map(Json::Text),
        Some(b'-' | b'0'..=b'9') => Some(Json::Number(text.to_owned())),
        _ => None,
    };
    value.unwrap_or(Json::Nothing)
}

fn object(text: &str, depth: usize) -> Option<Json> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let fields = fields.into_iter().map(|(key, raw)| (short_name(&key).to_owned(), read(raw, depth + 1)));
    Some(Json::Object(fields.collect()))
}

fn list(text: &str, depth: usize) -> Option<Json> {
    let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(Json::List(items.into_iter().map(|raw| read(raw, depth + 1)).collect()))
}

/// `http://schema.org/Product`, `https://schema.org/Product` and `schema:Product` are `Product`.
pub(super) fn short_name(name: &str) -> &str {
    const PREFIXES: [&str; 5] =
        ["https://schema.org/", "http://schema.org/", "https://www.schema.org/", "http://www.schema.org/", "schema:"];
    PREFIXES.into_iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::Json;

    fn price(text: &str) -> String {
        match Json::parse(text).as_ref().map(|json| json.get("price")) {
            Some(Json::Number(digits)) => digits.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!(price(r#"{"price": 19.90}"#), "19.90");
        let long = "12345678901234567890.123456789012345678";
        assert_eq!(price(&format!(r#"{{"price": {long}}}"#)), long);
    }

    #[test]
    fn frames_around_the_json_are_removed() {
        for (before, after) in [
            ("<!--", "-->"),
            ("//<![CDATA[\n", "\n//]]>"),
            ("/*<![CDATA[*/", "/*]]>*/"),
            ("\n<!-- //", "// -->;\n"),
            ("", ";"),
        ] {
            assert_eq!(price(&format!(r#"{before}{{"price":1}}{after}"#)), "1", "{before}");
        }
    }

    #[test]
    fn several_values_in_one_block_are_a_list() {
        let Some(Json::List(values)) = Json::parse(r#"{"price": 1} {"price": 2} {"price": "#) else {
            panic!("no list");
        };
        assert_eq!(values.len(), 2);
        assert!(Json::parse("{\"price\": ").is_none());
    }

    #[test]
    fn line_breaks_inside_strings_are_forgiven() {
        assert_eq!(price("{\"name\": \"two\nlines\",\n\t\"price\": 5}"), "5");
    }

    #[test]
    fn a_tower_of_brackets_is_harmless() {
        let tower = "[".repeat(200_000) + &"]".repeat(200_000);
        assert!(Json::parse(&tower).is_some());
        assert!(Json::parse(&"[".repeat(200_000)).is_none());
    }
}
