#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod bytes;
pub mod door;
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
pub use error::Error;
pub use future::Fut;
pub use host::{CallId, CtxId, HostApi, HostApiRef};
pub use module::{PluginModule, PluginModuleRef, Reply, Request};
pub use stream::Stream;

/// The plugin API that this crate describes; a manifest says it as `engine.plugin_api_version`.
pub const API_VERSION: u32 = 1;
