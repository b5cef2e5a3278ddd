//! Lines for a shell that ask the plugin's routes.

use std::path::Path;

use serde_json::Value;

use crate::cli::text::plain;

/// Where the lines go, and what they ask.
pub(super) struct CurlLines<'a> {
    pub url: &'a str,
    /// The file with a key to the host.
    pub key: &'a Path,
    /// The id of a card, when there is one.
    pub card: Option<&'a str>,
}

impl CurlLines<'_> {
    /// One for each route of a plugin's entry in the registry. Where a route is about a card and there is none, the
    /// first line makes it, and the others have its id from there.
    pub(super) fn lines_for(&self, item: &Value) -> Vec<String> {
        let prefix = item["api_prefix"].as_str().unwrap_or_default();
        let routes: Vec<&Value> = item["routes"].as_array().into_iter().flatten().collect();
        let needs_card = self.card.is_none() && routes.iter().any(|route| route_path(route).split('/').any(is_card));
        let makes_card = needs_card.then(|| self.make_card());
        makes_card.into_iter().chain(routes.iter().map(|route| self.ask(prefix, route))).collect()
    }

    fn ask(&self, prefix: &str, route: &Value) -> String {
        let method = match route["method"].as_str().unwrap_or("GET") {
            "GET" => String::new(),
            method @ ("POST" | "PUT" | "PATCH") => format!(" -X {method} {JSON} -d '{{}}'"),
            method => format!(" -X {}", plain(method)),
        };
        let parts: Vec<&str> = route_path(route).split('/').map(|part| self.filled(part)).collect();
        let path = parts.join("/");
        // A variable of the shell's stands in double quotes alone.
        let quote = if path.contains(CARD_VARIABLE) { '"' } else { '\'' };
        let path = plain(&path);
        format!("{}{method} {quote}{}/v1/admin/plugins/{}{path}{quote}", self.curl(), self.url, plain(prefix))
    }

    fn filled<'a>(&'a self, part: &'a str) -> &'a str {
        if is_card(part) { self.card.unwrap_or(CARD_VARIABLE) } else { part }
    }

    fn make_card(&self) -> String {
        let body = format!(r#"{JSON} -d '{{"sku": "CHAIR-1", "title": "Chair"}}'"#);
        let id = r#"grep -o '"id":"[^"]*"' | head -n 1 | cut -d '"' -f 4"#;
        format!("CARD=$({} -sS {body} '{}/v1/admin/master-cards' | {id})", self.curl(), self.url)
    }

    fn curl(&self) -> String {
        format!("curl -H \"Authorization: Bearer $(cat '{}')\"", self.key.display())
    }
}

const CARD_VARIABLE: &str = "$CARD";
const JSON: &str = "-H 'Content-Type: application/json'";

fn route_path(route: &Value) -> &str {
    route["path"].as_str().unwrap_or("/")
}

/// A parameter that is a card's id by its name, as `cardinal plugin test` takes it.
fn is_card(part: &str) -> bool {
    part.strip_prefix('{').and_then(|part| part.strip_suffix('}')).is_some_and(|name| name.contains("card"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(card: Option<&str>, paths: &[&str]) -> Vec<String> {
        let routes: Vec<Value> = paths.iter().map(|path| json!({"method": "GET", "path": path})).collect();
        let item = json!({"api_prefix": "notes", "routes": routes});
        CurlLines { url: "http://h", key: Path::new("/k"), card }.lines_for(&item)
    }

    const CURL: &str = "curl -H \"Authorization: Bearer $(cat '/k')\"";

    #[test]
    fn a_card_that_is_there_stands_in_the_lines() {
        let found = lines(Some("C-1"), &["/cards/{card_id}/notes", "/notes/{id}"]);
        let (first, second) = ("/cards/C-1/notes", "/notes/{id}");
        let expected = [first, second].map(|path| format!("{CURL} 'http://h/v1/admin/plugins/notes{path}'"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_that_sends_something_has_a_body_to_fill() {
        let routes = json!([{"method": "POST", "path": "/a"}, {"method": "DELETE", "path": "/a"}]);
        let item = json!({"api_prefix": "notes", "routes": routes});
        let found = CurlLines { url: "http://h", key: Path::new("/k"), card: None }.lines_for(&item);
        let url = "'http://h/v1/admin/plugins/notes/a'";
        assert_eq!(found[0], format!("{CURL} -X POST {JSON} -d '{{}}' {url}"));
        assert_eq!(found[1], format!("{CURL} -X DELETE {url}"));
    }

    #[test]
    fn without_a_card_the_first_line_makes_one() {
        let found = lines(None, &["/", "/cards/{card_id}"]);
        assert!(
            found[0].starts_with("CARD=$(curl ") && found[0].contains("'http://h/v1/admin/master-cards'"),
            "{found:?}"
        );
        assert_eq!(found[1], format!("{CURL} 'http://h/v1/admin/plugins/notes/'"));
        assert_eq!(found[2], format!("{CURL} \"http://h/v1/admin/plugins/notes/cards/$CARD\""));
        assert_eq!(lines(None, &["/notes/{id}"]).len(), 1, "no route is about a card");
    }
}
