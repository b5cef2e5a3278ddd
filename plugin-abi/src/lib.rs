#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod bytes;
pub mod door;
pub mod entry;
pub mod error;
pub mod extension;
pub mod future;
pub mod host;
pub mod module;
pub mod pairs;
pub mod record;
pub mod section;
pub mod stream;
pub mod values;
pub mod waker;

pub use abi_stable;
pub use bytes::{Bytes, Slice};
pub use entry::Entry;
pub use error::Error;
pub use future::Fut;
pub use host::{Answer, CallId, CtxId, HostApi, HostApiRef};
pub use module::{PluginModule, PluginModuleRef, Reply, Request};
pub use stream::Stream;

/// The plugin API that this crate describes; a manifest says it as `engine.plugin_api_version`.
pub const API_VERSION: u32 = 1;
/// The minor version: how much the growing tables hold. It is this crate's own.
pub const API_MINOR: u32 = section::decimal(env!("CARGO_PKG_VERSION_MINOR"));
/// Stands for the layouts that are frozen for ever: the text of `layout.txt`, in which a test holds them. All minor
/// versions of an API have the same. It finds mistakes, not malice.
pub const LAYOUT_HASH: u64 = section::hash(include_bytes!("layout.txt"));
