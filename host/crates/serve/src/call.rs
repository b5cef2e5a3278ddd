//! A request as its handler gets it: its caller is known and its body within bounds.
//!
//! What a request may carry stands in its handler's signature, as `Call<Query<ListQuery>>` or
//! `Call<NoQuery, Json<NewUser>>`. The route's row takes both types from there: to refuse what does not fit, and to
//! describe them. A handler decodes the body when it needs it, so that who may not do what the path says hears that
//! first.

mod body;
mod credential;
mod entity_tag;
mod query;

use std::{
    marker::PhantomData,
    net::IpAddr,
    ops::{Deref, DerefMut},
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, header};
use uuid::{Uuid, fmt::Hyphenated};

pub(crate) use self::{
    body::{Body, Exact, ExactPatch, Json, JsonBody, MaybeJson, MergePatch, NoBody, Patch, RawBody, Reads},
    credential::{Credential, RECHECK_RIGHTS},
    entity_tag::{if_match, names_version, with_etag},
    query::{AnyQuery, NoQuery, Query, QueryNames, QueryType},
};
use crate::audit_action::AuditAction;
use crate::http::{
    error::{ApiError, ApiResult},
    request_body::RequestBody,
};
use cardinal_base::{codes, request_id::RequestId};
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_observe::trace::Trace;

/// A request with what its handler reads of query and body.
pub struct Call<Q = NoQuery, B = NoBody> {
    head: CallHead,
    types: PhantomData<fn() -> (Q, B)>,
}

/// What is known of every request that may be handled.
pub struct CallHead {
    pub request_id: RequestId,
    pub trace: Trace,
    pub peer: IpAddr,
    pub started: Instant,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub params: Params,
    /// What the route's row says of the audit log.
    pub audits: Option<AuditAction>,
    pub(crate) caller: Option<SharedCaller>,
    /// What the route reads ahead.
    pub(crate) bytes: Bytes,
    /// What it doesn't.
    pub(crate) stream: RequestBody,
}

impl CallHead {
    /// Who calls; routes that are not public always have one.
    pub(crate) fn caller(&self) -> ApiResult<&SharedCaller> {
        self.caller.as_ref().ok_or_else(|| ApiError::new(&codes::MISSING_TOKEN))
    }

    /// The same request once more, for a part of its body.
    pub(crate) fn without_body(&self) -> Self {
        Self {
            method: self.method.clone(),
            uri: self.uri.clone(),
            headers: self.headers.clone(),
            params: self.params.clone(),
            caller: self.caller.clone(),
            bytes: Bytes::new(),
            stream: RequestBody::none(),
            ..*self
        }
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl<Q, B> Call<Q, B> {
    pub fn new(head: CallHead) -> Self {
        Self { head, types: PhantomData }
    }
}

impl<Q: QueryType, B> Call<Q, B> {
    /// The query; 400 names what is wrong.
    pub fn query(&self) -> ApiResult<Q::Value> {
        Q::read(self.head.uri.query())
    }
}

impl<Q, B: JsonBody> Call<Q, B> {
    /// The body; 400 when it is not JSON, 422 names the field that is wrong.
    pub fn body(&self) -> ApiResult<B::Value> {
        B::decode(&self.head.bytes)
    }
}

impl<Q> Call<Q, RawBody> {
    /// The body as it comes in.
    pub(crate) fn into_stream(self) -> (CallHead, RequestBody) {
        let mut head = self.head;
        let stream = std::mem::replace(&mut head.stream, RequestBody::none());
        (head, stream)
    }
}

impl<Q, B> Deref for Call<Q, B> {
    type Target = CallHead;

    fn deref(&self) -> &CallHead {
        &self.head
    }
}

impl<Q, B> DerefMut for Call<Q, B> {
    fn deref_mut(&mut self) -> &mut CallHead {
        &mut self.head
    }
}

/// Path parameters, percent-decoded, in the order of the template.
#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    pub fn new<'p>(matched: impl Iterator<Item = (&'p str, &'p str)>) -> Self {
        Self(matched.map(|(name, value)| (name.to_owned(), decoded(value))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// An id; what is no UUID names nothing: 404. Nor does another spelling of one, in braces or without its hyphens:
    /// each thing has one address.
    pub fn id(&self, name: &str, what: &str) -> ApiResult<Uuid> {
        let text = self.get(name).filter(|text| text.len() == Hyphenated::LENGTH);
        text.and_then(|text| Uuid::try_parse(text).ok()).ok_or_else(|| ApiError::not_found(what))
    }
}

fn decoded(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}
