//! What a handler reads of the body. Types of media and the limit are checked before the handler runs.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{http::error::ApiResult, openapi::Operation};
use cardinal_base::input;

/// What is read of the body before the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Nothing: there is none, or `null` or `{}`, as some clients send it.
    Nothing,
    /// Nothing; the handler takes the body as a stream. It may last for hours and has bounds of its own.
    Stream,
    Json,
    /// JSON or JSON Merge Patch; the type must be said.
    MergePatch,
}

impl Reads {
    /// Types of media that are taken; none where the host reads no body ahead.
    pub(crate) fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Nothing | Self::Stream => &[],
            Self::Json => &["application/json"],
            Self::MergePatch => &["application/merge-patch+json", "application/json"],
        }
    }
}

/// A type of body, in a handler's signature.
pub trait Body: 'static {
    const READS: Reads;

    fn describe(op: &mut Operation<'_>);
}

/// A body that the host reads ahead, as JSON.
pub trait JsonBody: Body {
    type Value;

    fn decode(body: &[u8]) -> ApiResult<Self::Value>;
}

/// No body.
pub struct NoBody;

impl NoBody {
    /// 422 for a field, as in any other body: who sends one expects it to do something.
    pub(crate) fn check(body: &[u8]) -> ApiResult<()> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NoFields {}
        if !body.trim_ascii().is_empty() {
            let (None | Some(NoFields {})) = input::json(body)?;
        }
        Ok(())
    }
}

impl Body for NoBody {
    const READS: Reads = Reads::Nothing;

    fn describe(_: &mut Operation<'_>) {}
}

/// A body that the handler reads as it comes in. The row describes it.
pub struct RawBody;

impl Body for RawBody {
    const READS: Reads = Reads::Stream;

    fn describe(_: &mut Operation<'_>) {}
}

/// JSON.
pub(crate) struct Json<T>(PhantomData<T>);

/// JSON that may be left out: then it is the default.
pub(crate) struct MaybeJson<T>(PhantomData<T>);

/// JSON for a `T` that holds every number as text, or none that could change.
pub(crate) struct Exact<T>(PhantomData<T>);

/// JSON Merge Patch, or JSON of the same sense.
pub(crate) struct MergePatch<T>(PhantomData<T>);

/// The same for a `T` as of [`Exact`], with the patch as it was sent.
pub(crate) struct ExactPatch<T>(PhantomData<T>);

/// A patch that was read, and its text.
pub(crate) struct Patch<T> {
    pub change: T,
    pub sent: Box<RawValue>,
}

impl<T: JsonSchema + 'static> Body for Json<T> {
    const READS: Reads = Reads::Json;

    fn describe(op: &mut Operation<'_>) {
        op.reads::<T>();
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> JsonBody for Json<T> {
    type Value = T;

    fn decode(body: &[u8]) -> ApiResult<T> {
        Ok(input::json(body)?)
    }
}

impl<T: JsonSchema + 'static> Body for MaybeJson<T> {
    const READS: Reads = Reads::Json;

    fn describe(op: &mut Operation<'_>) {
        op.may_read::<T>();
    }
}

impl<T: DeserializeOwned + Default + JsonSchema + 'static> JsonBody for MaybeJson<T> {
    type Value = T;

    fn decode(body: &[u8]) -> ApiResult<T> {
        if body.is_empty() { Ok(T::default()) } else { Ok(input::json(body)?) }
    }
}

impl<T: JsonSchema + 'static> Body for Exact<T> {
    const READS: Reads = Reads::Json;

    fn describe(op: &mut Operation<'_>) {
        op.reads::<T>();
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> JsonBody for Exact<T> {
    type Value = T;

    fn decode(body: &[u8]) -> ApiResult<T> {
        Ok(input::exact_json(body)?)
    }
}

impl<T: JsonSchema + 'static> Body for MergePatch<T> {
    const READS: Reads = Reads::MergePatch;

    fn describe(op: &mut Operation<'_>) {
        op.reads::<T>();
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> JsonBody for MergePatch<T> {
    type Value = T;

    fn decode(body: &[u8]) -> ApiResult<T> {
        Ok(input::json(body)?)
    }
}

impl<T: JsonSchema + 'static> Body for ExactPatch<T> {
    const READS: Reads = Reads::MergePatch;

    fn describe(op: &mut Operation<'_>) {
        op.reads::<T>();
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> JsonBody for ExactPatch<T> {
    type Value = Patch<T>;

    fn decode(body: &[u8]) -> ApiResult<Patch<T>> {
        Ok(Patch { change: input::exact_json(body)?, sent: input::exact_json(body)? })
    }
}
