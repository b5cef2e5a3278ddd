//! HTTP without a framework: bodies, replies, errors, what a path may look like.

pub mod assets;
pub mod body;
pub mod compression;
pub mod cors;
pub mod entity_tag;
pub mod error;
pub mod forwarded;
pub mod host;
pub mod paced;
pub mod path;
pub mod problem;
pub mod rate_limit;
pub mod reply;
pub mod request_body;
