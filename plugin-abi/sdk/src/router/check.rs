//! What is wrong with a router, in words for its author.

use std::collections::HashMap;

use http::Method;
use matchit::InsertError;

use super::Entry;

/// Every path can be looked up, and no two clash.
pub(super) fn routes(entries: &[Entry]) -> Result<(), String> {
    let mut by_method: HashMap<&Method, matchit::Router<()>> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        let Some((method, path)) = &entry.route else { continue };
        if !path.starts_with('/') {
            return Err(format!("{} is malformed: a path begins with `/`", described(entry)));
        }
        let table = by_method.entry(method).or_default();
        match table.insert(path.as_str(), ()) {
            Ok(()) => {}
            Err(InsertError::Conflict { with }) => return Err(clash(entry, &entries[..at], &with)),
            Err(error) => return Err(format!("{} is malformed: {error}", described(entry))),
        }
    }
    Ok(())
}

/// Says of a route and of the one before it, whose path is `with`, that they clash.
fn clash(entry: &Entry, before: &[Entry], with: &str) -> String {
    let is_it = |other: &&Entry| match (&other.route, &entry.route) {
        (Some((method, path)), Some((wanted, _))) => method == wanted && path == with,
        _ => false,
    };
    let other = before.iter().find(is_it).map_or_else(|| format!("the route `{with}`"), described);
    format!("{} clashes with {other}: a request could mean either; give one of them another path", described(entry))
}

/// `GET /items/{id} of `item` (src/routes.rs:9:10)`.
fn described(entry: &Entry) -> String {
    let (name, place) = (&entry.name, entry.place);
    match &entry.route {
        Some((method, path)) => format!("{method} {path} of `{name}` ({place})"),
        None => format!("`{name}` ({place})"),
    }
}

/// A name of the manifest leads to one function.
pub(super) fn name(entries: &[Entry], name: &str) -> Result<(), String> {
    let mut of_name = entries.iter().filter(|entry| entry.name == name);
    let Some(first) = of_name.next() else { return Ok(()) }; // the host says which name is missing
    let rival = of_name.find(|other| other.identity != first.identity && other.named == first.named);
    match rival {
        None => Ok(()),
        Some(rival) => Err(format!(
            "the manifest names the handler `{name}`, and the router has two functions of that name, {} and {}; \
             give the one that is meant a name of its own with `.handler(\"...\", f)`",
            described(first),
            described(rival)
        )),
    }
}

/// The last segment of a function's type name; `None` for closures.
pub(super) fn function_name<F>() -> Option<&'static str> {
    let full = std::any::type_name::<F>();
    let plain = full.split('<').next().unwrap_or(full);
    let name = plain.rsplit("::").next().unwrap_or(plain);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some(name)
}
