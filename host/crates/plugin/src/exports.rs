//! The list of handlers that an instance gives, read as what it is: a stranger's text.

use http::Method;
use serde::Deserialize;

use cardinal_package::refusal::{Code, Refusal};

/// The largest list that is read, and the most handlers in it.
const LIST_LIMIT: usize = 1 << 20;
const COUNT_LIMIT: usize = 2_000;
const NAME_LIMIT: usize = 120;
const PATH_LIMIT: usize = 1_024;

/// One handler of a plugin's router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The number that a call takes.
    pub id: u32,
    pub name: String,
    pub kind: ExportKind,
}

impl Export {
    /// For people: the route, or the handler's name where it serves tools alone.
    pub fn describe(&self) -> String {
        match &self.kind {
            ExportKind::Route { method, path } => format!("{method} {path}"),
            ExportKind::Handler => self.name.clone(),
        }
    }
}

/// What a handler serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportKind {
    /// A route below the plugin's prefix, and tools by its name.
    Route { method: Method, path: String },
    /// Tools alone.
    Handler,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    method: Option<String>,
    path: Option<String>,
}

/// Reads and checks the list.
pub fn parse(list: &[u8]) -> Result<Vec<Export>, Refusal> {
    if list.len() > LIST_LIMIT {
        return Err(refuse(format!("a list of {} bytes", list.len())));
    }
    let entries: Vec<Entry> = serde_json::from_slice(list).map_err(|error| refuse(error.to_string()))?;
    if entries.len() > COUNT_LIMIT {
        return Err(refuse(format!("{} handlers", entries.len())));
    }
    (0..).zip(entries).map(|(id, entry)| check(id, entry)).collect()
}

fn check(id: u32, entry: Entry) -> Result<Export, Refusal> {
    let Entry { name, method, path } = entry;
    if name.is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
        return Err(refuse(format!("the handler name {name:?}")));
    }
    let kind = match (method, path) {
        (None, None) => ExportKind::Handler,
        (Some(method), Some(path)) => {
            if !path.starts_with('/') || path.len() > PATH_LIMIT || path.chars().any(|c| c.is_control() || c == '?') {
                return Err(refuse(format!("the path {path:?} of handler {name}")));
            }
            let method = Method::from_bytes(method.as_bytes())
                .map_err(|_| refuse(format!("the method {method:?} of handler {name}")))?;
            ExportKind::Route { method, path }
        }
        _ => return Err(refuse(format!("handler {name} with only one of method and path"))),
    };
    Ok(Export { id, name, kind })
}

fn refuse(found: String) -> Refusal {
    Refusal::new(Code::RouteInvalid, "The plugin's list of handlers cannot be read.")
        .expected(r#"a JSON array of {"name", "method"?, "path"?}"#)
        .found(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_follow_the_order() {
        let exports = parse(br#"[{"name":"preview","method":"GET","path":"/preview"},{"name":"warm","x":1}]"#).unwrap();
        assert_eq!(exports[0].kind, ExportKind::Route { method: Method::GET, path: "/preview".into() });
        assert_eq!((exports[1].id, &exports[1].kind), (1, &ExportKind::Handler));
    }

    #[test]
    fn a_wrong_list_is_refused() {
        for list in [
            &b"\xff"[..],
            b"{}",
            br#"[{"name":""}]"#,
            br#"[{"name":"a\nb"}]"#,
            br#"[{"name":"a","path":"/x"}]"#,
            br#"[{"name":"a","method":"GET","path":"x"}]"#,
            br#"[{"name":"a","method":"G T","path":"/x"}]"#,
            br#"[{"name":"a","method":"GET","path":"/x?y"}]"#,
        ] {
            assert_eq!(parse(list).unwrap_err().code, Code::RouteInvalid, "{}", String::from_utf8_lossy(list));
        }
        let many = format!("[{}]", vec![r#"{"name":"a"}"#; COUNT_LIMIT + 1].join(","));
        assert!(parse(many.as_bytes()).is_err());
    }
}
