//! From a card and the operator's rules to a score: pure.

use std::collections::{BTreeMap, BTreeSet};

use cardinal_plugin::{Card, Source};
use serde::Serialize;
use serde_json::Value;

use crate::settings::Settings;

/// Of sources, a list of addresses: what plugins agree on for pictures.
const PICTURES: &str = "images";
/// Of the card itself: an address, or a list of addresses.
const OWN_PICTURES: [&str; 3] = ["images", "image", "picture"];
const DESCRIPTION: &str = "description";

/// One rule, held against one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// `attribute:brand`, `description`, `pictures`, `kind:supplier`.
    pub rule: String,
    pub text: String,
    pub found: u64,
    pub wanted: u64,
    pub weight: u64,
    pub is_met: bool,
}

impl Check {
    fn new(rule: String, text: String, found: u64, wanted: u64, weight: u32) -> Self {
        Self { rule, text, found, wanted, weight: weight.into(), is_met: found >= wanted }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Score {
    /// 0 to 100; 100 only when nothing is missing.
    pub score: i16,
    /// The rules that the card breaks, the heaviest first.
    pub missing: Vec<String>,
    pub checks: Vec<Check>,
}

/// Scores a card. Sources of the kind `own` are this plugin's and do not count.
pub(crate) fn score(card: &Card, settings: &Settings, own: &str) -> Score {
    let mut sources = card.sources();
    sources.retain(|_, source| source.kind != own);
    let facts = Facts { attributes: &card.attributes, sources: &sources, count_sources: settings.count_sources };
    let checks = checks(&facts, settings);
    let total: u64 = checks.iter().map(|check| check.weight).sum();
    let points: u64 = checks.iter().map(points).sum();
    let score = if total == 0 { 100 } else { points / (total * UNIT / 100).max(1) };
    let is_complete = checks.iter().all(|check| check.is_met || check.weight == 0);
    let score = if is_complete { 100 } else { score.min(99) };
    let mut broken: Vec<&Check> = checks.iter().filter(|check| !check.is_met && check.weight > 0).collect();
    broken.sort_by_key(|check| std::cmp::Reverse(check.weight));
    let missing = broken.into_iter().map(|check| check.rule.clone()).collect();
    Score { score: i16::try_from(score).unwrap_or(100), missing, checks }
}

/// Parts of a weight, so that a rule that is met in part counts without fractions.
const UNIT: u64 = 10_000;

fn points(check: &Check) -> u64 {
    match check.wanted {
        0 => check.weight * UNIT,
        wanted => check.weight * UNIT * check.found.min(wanted) / wanted,
    }
}

/// What a rule asks for, in words.
pub(crate) fn text_of(rule: &str, settings: &Settings) -> String {
    match rule.split_once(':') {
        Some(("attribute", name)) => format!("The attribute {name} has a value."),
        Some(("kind", kind)) => format!("There is a source of kind {kind}."),
        _ if rule == "pictures" => format!("There are {} pictures or more.", settings.min_pictures),
        _ if rule == DESCRIPTION => format!("The description has {} characters or more.", settings.min_description),
        _ => "A rule that is no longer asked for.".to_owned(),
    }
}

fn checks(facts: &Facts<'_>, settings: &Settings) -> Vec<Check> {
    let check = |rule: String, found: u64, wanted: u64, weight: u32| {
        let text = text_of(&rule, settings);
        Check::new(rule, text, found, wanted, weight)
    };
    let mut checks = Vec::new();
    for name in &settings.required_attributes {
        let found = u64::from(facts.has(name));
        checks.push(check(format!("attribute:{name}"), found, 1, settings.weight_attribute));
    }
    if settings.min_description > 0 {
        let wanted = settings.min_description.into();
        checks.push(check(DESCRIPTION.to_owned(), facts.description_length(), wanted, settings.weight_description));
    }
    if settings.min_pictures > 0 {
        let wanted = settings.min_pictures.into();
        checks.push(check("pictures".to_owned(), facts.pictures(), wanted, settings.weight_pictures));
    }
    for kind in &settings.wanted_kinds {
        let found = u64::from(facts.sources.values().any(|source| source.kind == *kind));
        checks.push(check(format!("kind:{kind}"), found, 1, settings.weight_kind));
    }
    checks
}

/// What a card says of its product. Other plugins' data may have any shape.
struct Facts<'a> {
    attributes: &'a Value,
    sources: &'a BTreeMap<String, Source>,
    count_sources: bool,
}

impl<'a> Facts<'a> {
    /// The card's own value, then those of the sources that count.
    fn values(&self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        let sources = self.sources.values().filter(|_| self.count_sources).map(|source| &source.data);
        std::iter::once(self.attributes).chain(sources).filter_map(move |place| find(place, name))
    }

    fn has(&self, name: &'a str) -> bool {
        self.values(name).any(is_value)
    }

    fn description_length(&self) -> u64 {
        let texts = self.values(DESCRIPTION).filter_map(Value::as_str);
        texts.map(|text| text.trim().chars().count() as u64).max().unwrap_or(0)
    }

    fn pictures(&self) -> u64 {
        let own = OWN_PICTURES.iter().filter_map(|name| find(self.attributes, name));
        let all = own.chain(self.sources.values().filter_map(|source| find(&source.data, PICTURES)));
        let addresses: BTreeSet<&str> = all.flat_map(texts).filter(|text| is_web_address(text)).collect();
        addresses.len() as u64
    }
}

fn find<'a>(place: &'a Value, name: &str) -> Option<&'a Value> {
    if name.starts_with('/') { place.pointer(name) } else { place.get(name) }
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_web_address(text: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme)))
}

fn is_value(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cardinal_plugin::testing::test_card;
    use serde_json::{Value, json};

    use super::{Score, score};
    use crate::settings::tests::with;

    fn scored(attributes: Value, settings: &Value) -> Score {
        let card = serde_json::from_value(test_card("Lamp", json!({ "attributes": attributes }))).unwrap();
        score(&card, &with(settings), "completeness")
    }

    #[test]
    fn a_card_is_complete_when_it_or_its_sources_have_everything() {
        let shop =
            json!({ "kind": "supplier", "data": { "gtin": "4006381333931", "images": ["https://a.example/1.png"] } });
        let attributes =
            json!({ "brand": "Lumo", "price": 0, "description": "x".repeat(80), "sources": { "other:shop": shop } });
        let complete = scored(attributes.clone(), &Value::Null);
        assert_eq!((complete.score, complete.missing), (100, vec![]));
        let own = scored(attributes, &json!({ "count_sources": false }));
        assert_eq!(own.missing, ["attribute:gtin"], "pictures of sources count, their other data does not");
    }

    #[test]
    fn what_is_missing_is_named_the_heaviest_first_and_parts_count_in_part() {
        let empty = scored(json!({}), &Value::Null);
        let rules = ["description", "pictures", "attribute:brand", "attribute:gtin", "attribute:price"];
        assert_eq!((empty.score, empty.missing), (0, rules.map(str::to_owned).to_vec()));
        let half = scored(json!({ "description": "x".repeat(40) }), &Value::Null);
        assert_eq!(half.score, 12, "1.5 of 12");
        let short =
            scored(json!({ "description": "x".repeat(79) }), &json!({ "required_attributes": [], "min_pictures": 0 }));
        assert_eq!((short.score, short.missing), (98, vec!["description".to_owned()]));
        let nearly = json!({ "description": "x".repeat(99_999) });
        let rules = json!({ "required_attributes": [], "min_pictures": 0, "min_description": 100_000 });
        assert_eq!(scored(nearly, &rules).score, 99, "100 is for what is complete");
        let none = json!({ "required_attributes": [], "min_pictures": 0, "min_description": 0 });
        assert_eq!(scored(json!({}), &none).score, 100, "no rule, nothing missing");
    }

    #[test]
    fn empty_values_are_missing_and_pointers_lead_inside() {
        let rules = json!({ "required_attributes": ["a", "b", "c", "d", "/size/width"], "min_pictures": 0, "min_description": 0 });
        let card = json!({ "a": " ", "b": [], "c": null, "d": false, "size": { "width": 3 } });
        assert_eq!(scored(card, &rules).missing, ["attribute:a", "attribute:b", "attribute:c"]);
    }

    #[test]
    fn pictures_are_counted_once_and_only_addresses_count() {
        let data = json!({ "images": ["https://a.example/1.png", "https://a.example/1.png", 7, "", "x"] });
        let sources = json!({ "o:s": { "kind": "k", "data": data } });
        let attributes = json!({ "image": "HTTPS://a.example/2.png", "images": { "a": 1 }, "sources": sources });
        let checks = scored(attributes, &json!({ "min_pictures": 3 })).checks;
        let pictures = checks.iter().find(|check| check.rule == "pictures").unwrap();
        assert_eq!((pictures.found, pictures.wanted, pictures.is_met), (2, 3, false));
    }

    #[test]
    fn its_own_source_is_no_data_of_the_card() {
        let own = json!({ "kind": "completeness", "data": { "brand": "x" } });
        let rules = json!({
            "wanted_kinds": ["completeness", "supplier"],
            "required_attributes": ["brand"],
            "min_pictures": 0,
            "min_description": 0
        });
        let broken = scored(json!({ "sources": { "completeness:score": own } }), &rules).missing;
        assert_eq!(broken, ["attribute:brand", "kind:completeness", "kind:supplier"]);
    }
}
