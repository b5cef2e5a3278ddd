//! The one failure type of the request path.

mod layers;

use std::{borrow::Cow, time::Duration};

use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value, json};

use cardinal_base::codes::{self, Code};

/// A failure: plain words for the client, a cause for the log.
pub struct ApiError(Box<Inner>);

struct Inner {
    status: StatusCode,
    code: Cow<'static, str>,
    title: Cow<'static, str>,
    detail: Option<String>,
    fields: Vec<(String, String)>,
    extra: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<anyhow::Error>,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// How long a client is asked to wait when the answer is 503 and nothing better is known.
const RETRY_AFTER_SECONDS: u32 = 1;

impl ApiError {
    /// A failure with a code of the contract.
    pub fn new(code: &'static Code) -> Self {
        let error = Self::custom(code.status(), code.name, code.title);
        if code.status == 503 { error.retry_after(RETRY_AFTER_SECONDS) } else { error }
    }

    /// A failure with a plugin's own status and code.
    pub fn custom(status: StatusCode, code: impl Into<Cow<'static, str>>, title: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            status,
            code: code.into(),
            title: title.into(),
            detail: None,
            fields: Vec::new(),
            extra: Map::new(),
            headers: Vec::new(),
            cause: None,
        }))
    }

    /// A failure that is ours; the client learns nothing but the request id.
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        Self::new(&codes::INTERNAL_ERROR).cause(cause)
    }

    /// 405 with the methods that work.
    pub(crate) fn method_not_allowed<'m>(methods: impl Iterator<Item = &'m Method>) -> Self {
        let mut allow = Vec::new();
        for method in methods {
            allow.push(method.as_str());
            if method == Method::GET {
                allow.push("HEAD");
            }
        }
        Self::new(&codes::METHOD_NOT_ALLOWED).header(header::ALLOW, allow.join(", "))
    }

    /// 422 with one field.
    pub fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(&codes::VALIDATION_FAILED).field(pointer, detail)
    }

    /// 404 for an object.
    pub fn not_found(what: &str) -> Self {
        Self::new(&codes::NOT_FOUND).detail(format!("There is no such {what}."))
    }

    /// Plain words for the client.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// One field that is wrong, by JSON pointer.
    pub fn field(mut self, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        self.0.fields.push((pointer.into(), detail.into()));
        self
    }

    /// The same for a client that knows what is in this object without it around.
    pub fn without_prefix(mut self, pointer: &str) -> Self {
        for (field, _) in &mut self.0.fields {
            if let Some(inner) = field.strip_prefix(pointer).filter(|inner| inner.starts_with('/')) {
                *field = inner.to_owned();
            }
        }
        self
    }

    /// A further member of the problem.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.extra.insert(name.to_owned(), value.into());
        self
    }

    /// A response header.
    pub fn header(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.0.headers.retain(|(known, _)| *known != name);
            self.0.headers.push((name, value));
        }
        self
    }

    /// `Retry-After`.
    pub fn retry_after(self, seconds: u32) -> Self {
        self.header(header::RETRY_AFTER, seconds.to_string())
    }

    /// The seconds of `Retry-After`.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        let (_, value) = self.0.headers.iter().find(|(name, _)| *name == header::RETRY_AFTER)?;
        value.to_str().ok()?.parse().ok()
    }

    /// The same failure, sent so much later: the client has waited for that time already.
    pub(crate) fn sent_after(self, time: Duration) -> Self {
        match self.retry_after_seconds() {
            Some(seconds) => {
                let waited = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
                self.retry_after(seconds.saturating_sub(waited).max(1))
            }
            None => self,
        }
    }

    /// The text for the log.
    pub fn cause(mut self, cause: impl Into<anyhow::Error>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    pub fn code(&self) -> &str {
        &self.0.code
    }

    pub fn client_detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// A further member that [`with`](Self::with) has set.
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.0.extra.get(name)
    }

    pub fn fields(&self) -> &[(String, String)] {
        &self.0.fields
    }

    /// Headers that the answer needs beside those of any problem document.
    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.0.headers
    }

    /// Whether the database is away: nothing is wrong with what was asked.
    pub fn is_outage(&self) -> bool {
        self.code() == codes::DATABASE_UNAVAILABLE.name
    }

    /// The cause chain, for the log.
    pub fn cause_text(&self) -> Option<String> {
        self.0.cause.as_ref().map(|cause| format!("{cause:#}"))
    }

    /// The problem document.
    pub(crate) fn to_problem(&self, base_url: &str, request_id: &str) -> Value {
        let inner = &self.0;
        let mut problem = json!({
            "type": format!("{base_url}/problems/{}", inner.code),
            "title": inner.title,
            "status": inner.status.as_u16(),
            "detail": inner.detail.as_deref().unwrap_or(&inner.title),
            "code": inner.code,
            "request_id": request_id,
        });
        if let Value::Object(members) = &mut problem {
            if inner.status == StatusCode::UNPROCESSABLE_ENTITY {
                let errors = inner.fields.iter().map(|(pointer, detail)| json!({"pointer": pointer, "detail": detail}));
                members.insert("errors".to_owned(), errors.collect());
            }
            for (name, value) in &inner.extra {
                members.entry(name).or_insert_with(|| value.clone());
            }
        }
        problem
    }
}

/// For the log: everything, in words.
impl std::fmt::Debug for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = &self.0;
        write!(f, "{} {}", inner.status.as_u16(), inner.code)?;
        if let Some(detail) = &inner.detail {
            write!(f, ": {detail}")?;
        }
        for (pointer, detail) in &inner.fields {
            write!(f, "; {pointer}: {detail}")?;
        }
        match &inner.cause {
            Some(cause) => write!(f, ": {cause:#}"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.detail.as_deref().unwrap_or(&self.0.title))
    }
}

impl std::error::Error for ApiError {}
