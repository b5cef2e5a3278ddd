//! The binary contract between Cardinal and its plugins.
//!
//! Both sides compile this crate, each its own copy; what crosses between them is only what is
//! laid out here. `README.md` beside this crate holds the rules of compatibility.
//!
//! * **Layouts** are `#[repr(C)]` and derive [`abi_stable::StableAbi`], which lets the loader
//!   compare the two copies before the first call. No type of another crate appears in one.
//! * **Memory** is freed by the side that made it: every owning type carries its own `drop`.
//! * **Text** from the other side is bytes until checked. Tags and codes are integers, never Rust
//!   enums: an unknown value must be an error, not undefined behaviour.
//! * **Panics** never cross: whatever crosses is built by this crate's constructors
//!   ([`future::Fut::new`], [`stream::Stream::new`], [`door::guard`]), which catch them in the
//!   call, in every poll and in every drop.
//!
//! A plugin author never meets this crate; the SDK (`cardinal-plugin`) wraps it in safe Rust.

#![deny(missing_docs)]

pub mod bytes;
pub mod door;
pub mod error;
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
