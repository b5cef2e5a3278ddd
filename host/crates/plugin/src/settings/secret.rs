//! Which settings are secrets: those that the schema marks `writeOnly`. Pure.
//!
//! Values are named by JSON pointer. Below a list there are no names that stay, so a list with a secret in it is a
//! secret as a whole. What cannot be decided counts as one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use cardinal_base::input::escape;

/// Steps into schemas inside each other; one that refers to itself has no end.
const DEPTH: usize = 64;
/// Schemas that are looked at for one document.
const MAX_VISITED: usize = 100_000;

/// What is shown of a secret that is set, and what keeps it when it is sent back.
pub fn mask() -> Value {
    json!({"set": true})
}

/// The secrets of a document, by pointer.
pub fn pointers(schema: &Value, document: &Value) -> BTreeSet<String> {
    let mut walk = Walk { root: schema, found: BTreeSet::new(), looks: MAX_VISITED };
    walk.visit(schema, document, "", DEPTH);
    if walk.looks == 0 {
        // A schema without end says nothing that could be relied on.
        let all = document.as_object().into_iter().flat_map(Map::keys);
        walk.found.extend(all.map(|name| format!("/{}", escape(name))));
    }
    walk.found
}

struct Walk<'s> {
    root: &'s Value,
    found: BTreeSet<String>,
    looks: usize,
}

impl<'s> Walk<'s> {
    fn visit(&mut self, schema: &'s Value, value: &Value, pointer: &str, depth: usize) {
        let Some(schema) = schema.as_object() else { return };
        if depth == 0 || self.looks == 0 {
            self.looks = 0;
            return;
        }
        self.looks -= 1;
        if schema.get("writeOnly") == Some(&Value::Bool(true)) && !pointer.is_empty() {
            self.found.insert(pointer.to_owned());
            return;
        }
        let references = ["$ref", "$dynamicRef"].iter().filter_map(|name| schema.get(*name));
        let Some(referred) = references.map(|reference| self.referred(reference)).collect::<Option<Vec<_>>>() else {
            // By an anchor, or to another document: it may say anything.
            match pointer {
                "" => self.looks = 0,
                pointer => drop(self.found.insert(pointer.to_owned())),
            }
            return;
        };
        for applied in Self::applied(schema).into_iter().chain(referred) {
            self.visit(applied, value, pointer, depth - 1);
        }
        match value {
            Value::Object(members) => self.members(schema, members, pointer, depth - 1),
            Value::Array(items) => self.items(schema, items, pointer, depth - 1),
            _ => {}
        }
    }

    /// Schemas that say something of the same value.
    fn applied(schema: &'s Map<String, Value>) -> Vec<&'s Value> {
        let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|name| schema.get(*name)?.as_array()).flatten();
        let alone = ["if", "then", "else"].iter().filter_map(|name| schema.get(*name));
        let dependent = ["dependentSchemas", "dependencies"].iter().filter_map(|name| schema.get(*name)?.as_object());
        let dependent = dependent.flat_map(Map::values);
        lists.chain(alone).chain(dependent).collect()
    }

    /// What a pointer leads to within the schema.
    fn referred(&self, reference: &Value) -> Option<&'s Value> {
        let pointer =
            percent_encoding::percent_decode_str(reference.as_str()?.strip_prefix('#')?).decode_utf8().ok()?;
        self.root.pointer(&pointer)
    }

    fn members(&mut self, schema: &'s Map<String, Value>, members: &Map<String, Value>, pointer: &str, depth: usize) {
        let named = |name: &str| schema.get(name).and_then(Value::as_object);
        let patterns: Vec<&Value> = named("patternProperties").into_iter().flat_map(Map::values).collect();
        for (name, value) in members {
            let declared = named("properties").and_then(|properties| properties.get(name));
            let others = ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|rule| schema.get(*rule));
            let rules: Vec<&Value> = match declared {
                Some(declared) => vec![declared],
                // Patterns are not tried: a value too many is hidden rather than one too few.
                None => others.chain(patterns.iter().copied()).collect(),
            };
            let place = format!("{pointer}/{}", escape(name));
            for rule in rules {
                self.visit(rule, value, &place, depth);
            }
        }
    }

    fn items(&mut self, schema: &'s Map<String, Value>, items: &[Value], pointer: &str, depth: usize) {
        let one = ["items", "contains", "additionalItems", "unevaluatedItems"];
        let rules = one.iter().filter_map(|name| schema.get(*name));
        let listed = schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
        let before = self.found.clone();
        for rule in rules.chain(listed) {
            for item in items {
                self.visit(rule, item, &format!("{pointer}/-"), depth);
            }
        }
        if self.found != before {
            self.found = before;
            self.found.insert(pointer.to_owned());
        }
    }
}

/// The document with these values hidden.
pub fn masked(document: &Value, secrets: &BTreeSet<String>) -> Value {
    let mut shown = document.clone();
    for pointer in secrets {
        if let Some(value) = shown.pointer_mut(pointer) {
            *value = mask();
        }
    }
    shown
}

/// Takes these values out of the document.
pub fn take(document: &mut Value, secrets: &BTreeSet<String>) -> BTreeMap<String, Value> {
    secrets.iter().filter_map(|pointer| Some((pointer.clone(), remove(document, pointer)?))).collect()
}

/// Puts values back where they were taken from.
pub fn put(document: &mut Value, secrets: BTreeMap<String, Value>) {
    for (pointer, value) in secrets {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        if let Some(parent) = document.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.insert(unescape(name), value);
        }
    }
}

fn remove(document: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, name) = pointer.rsplit_once('/')?;
    document.pointer_mut(parent)?.as_object_mut()?.remove(&unescape(name))
}

fn unescape(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

/// What was sent back as it was shown is taken out of the document, with what lies there now put in its place where it
/// was stored; what lies there by another way comes back by that way.
///
/// # Errors
/// Each place that is said to be set and is not, with why.
pub fn keep(
    sent: &mut Value,
    stored: &Value,
    hidden: &BTreeSet<String>,
    own: &BTreeSet<String>,
    unreadable: &BTreeSet<String>,
) -> Result<(), Vec<(String, &'static str)>> {
    let mask = mask();
    let mut faults = Vec::new();
    for pointer in hidden.union(own) {
        if sent.pointer(pointer) != Some(&mask) {
            continue;
        }
        if unreadable.contains(pointer) {
            faults.push((pointer.clone(), "It was stored with another key and can't be kept: give the value again."));
            continue;
        }
        remove(sent, pointer);
        match stored.pointer(pointer) {
            Some(value) => put(sent, BTreeMap::from([(pointer.clone(), value.clone())])),
            None if hidden.contains(pointer) => {}
            None => faults.push((pointer.clone(), "Nothing is set there that could be kept: give the value.")),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(schema: &Value, document: &Value) -> Vec<String> {
        pointers(schema, document).into_iter().collect()
    }

    #[test]
    fn secrets_are_found_wherever_the_schema_marks_them() {
        let secret = json!({"type": "string", "writeOnly": true});
        let schema = json!({
            "properties": {
                "token": secret, "open": {"type": "string"},
                "smtp": {"properties": {"host": {}, "password": {"$ref": "#/$defs/secret"}}},
                "a/b": {"allOf": [{"anyOf": [secret]}]},
                "list": {"items": {"properties": {"key": secret}}},
                "plain": {"items": {"type": "string"}},
            },
            "patternProperties": {"^x-": secret},
            "if": {}, "then": {"properties": {"later": secret}},
            "dependencies": {"plain": {"properties": {"older": secret}}, "token": ["open"]},
            "$defs": {"secret": secret},
        });
        let document = json!({
            "token": "t", "open": "o", "smtp": {"host": "h", "password": "p"}, "a/b": "ab", "later": 1,
            "list": [{"key": 1}, {"key": 2}], "plain": ["x"], "x-1": "x", "other": 1, "older": 2,
        });
        let expected = ["/a~1b", "/later", "/list", "/older", "/other", "/smtp/password", "/token", "/x-1"];
        let found = found(&schema, &document);
        // What is under no name of its own may be under a pattern, so it is hidden too.
        assert_eq!(found, expected);
    }

    #[test]
    fn a_schema_without_end_hides_everything() {
        let schema = json!({"$ref": "#"});
        assert_eq!(found(&schema, &json!({"a": 1, "b": {"c": 2}})), ["/a", "/b"]);
        let branching = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {}}});
        assert_eq!(found(&branching, &json!({"a": 1})), ["/a"]);
    }

    #[test]
    fn what_is_referred_to_otherwise_counts_as_a_secret() {
        let schema = json!({
            "properties": {"a": {"$ref": "#token"}, "b": {"$ref": "token.json"}, "c": {"$ref": "#/$defs/open"}},
            "$defs": {"token": {"$anchor": "token", "writeOnly": true}, "open": {}},
        });
        assert_eq!(found(&schema, &json!({"a": "1", "b": "2", "c": "3"})), ["/a", "/b"]);
        assert_eq!(found(&json!({"$ref": "#all"}), &json!({"a": 1})), ["/a"]);
    }

    #[test]
    fn what_is_taken_out_is_put_back() {
        let whole = json!({"token": "t", "smtp": {"host": "h", "pass~/word": "p"}});
        let secrets = BTreeSet::from(["/token".to_owned(), "/smtp/pass~0~1word".to_owned()]);
        let mut open = whole.clone();
        let taken = take(&mut open, &secrets);
        assert_eq!(open, json!({"smtp": {"host": "h"}}));
        put(&mut open, taken);
        assert_eq!(open, whole);
        let shown = masked(&whole, &secrets);
        assert_eq!(shown, json!({"token": {"set": true}, "smtp": {"host": "h", "pass~/word": {"set": true}}}));
    }

    #[test]
    fn what_is_sent_back_as_shown_stays() {
        let set = |pointers: &[&str]| pointers.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
        let stored = json!({"token": "t"});
        let hidden = set(&["/token", "/environment"]);
        let mut sent = json!({"token": {"set": true}, "environment": {"set": true}, "open": {"set": true}});
        keep(&mut sent, &stored, &hidden, &set(&["/token"]), &set(&[])).unwrap();
        assert_eq!(sent, json!({"token": "t", "open": {"set": true}}));

        let mut sent = json!({"new": {"set": true}, "token": {"set": true}});
        let faults = keep(&mut sent, &stored, &hidden, &set(&["/new", "/token"]), &set(&["/token"])).unwrap_err();
        let places: Vec<&str> = faults.iter().map(|fault| fault.0.as_str()).collect();
        assert_eq!(places, ["/new", "/token"]);
    }
}
