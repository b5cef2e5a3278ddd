//! HTTP without a framework: bodies, replies, errors, what a path may look like.

pub mod assets;
pub mod body;
pub mod codes;
pub mod compression;
pub mod cors;
pub mod error;
pub mod exact;
pub mod forwarded;
pub mod hop_by_hop;
pub mod host;
pub mod input;
pub mod paced;
pub mod page;
pub mod path;
pub mod problem;
pub mod reply;
pub mod request_body;
pub mod request_id;
pub mod schema;
pub mod strict;
