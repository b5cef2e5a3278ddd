//! A whole HTTP answer, and the checks that every test makes of one.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Answer {
    /// What was asked, for the message of a failed check.
    pub call: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The JSON body.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in the answer to {self}"))
    }

    /// Demands a status and gives the JSON body (`null` when it is empty).
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Demands an error of contract 2: status, code, and every field of a problem document.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let problem = self.problem();
        assert_eq!((self.status.as_u16(), problem["code"].as_str()), (status, Some(code)), "{self}");
        problem
    }

    /// Demands that the body is a problem document (RFC 9457) that agrees with the status line and headers.
    #[track_caller]
    pub fn problem(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self}");
        let problem = self.json();
        let code = problem["code"].as_str().unwrap_or_else(|| panic!("no code in {self}"));
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(!code.is_empty() && code.chars().all(kebab), "code is not kebab-case: {self}");
        assert!(problem["type"].as_str().is_some_and(|t| t.ends_with(&format!("/problems/{code}"))), "type: {self}");
        assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()), "title: {self}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "detail: {self}");
        assert_eq!(problem["status"].as_u64(), Some(u64::from(self.status.as_u16())), "{self}");
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{self}");
        if matches!(self.status.as_u16(), 429 | 503) {
            assert!(self.header("retry-after").is_some(), "Retry-After is missing: {self}");
        }
        if self.status.as_u16() == 401 {
            assert!(self.header("www-authenticate").is_some_and(|v| v.starts_with("Bearer")), "{self}");
        }
        problem
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} {:?}\n{}", self.call, self.status, self.headers, self.text())
    }
}
