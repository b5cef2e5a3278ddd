//! HTTP without a framework: bodies, replies, errors, what a path may look like.

pub(crate) mod assets;
pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod cors;
pub(crate) mod entity_tag;
pub mod error;
pub(crate) mod forwarded;
pub(crate) mod host;
pub(crate) mod paced;
pub mod path;
pub(crate) mod problem;
pub(crate) mod rate_limit;
pub(crate) mod reply;
pub(crate) mod request_body;
