//! Plugins: found, judged, loaded, called, retired. `host/README.md` tells their walk.
//!
//! What judges (`state`, `manifest`, `compat`, `preflight`) is pure: bytes in, verdict out. What
//! touches the disk is `package` and `trust`; what runs foreign code is `probe`, `library` and
//! `instance`. `registry` leads a plugin from one to the next.

pub mod active;
pub mod agreement;
pub mod arguments;
pub mod breaker;
pub mod bridge;
pub mod call;
pub mod compat;
pub mod connection;
pub mod context;
pub mod frontend;
pub mod guard;
pub mod inspect;
pub mod instance;
pub mod kept;
pub mod lane;
pub mod library;
pub mod manifest;
pub mod news;
pub mod package;
pub mod past;
pub mod placement;
pub mod preflight;
pub mod probe;
pub mod registry;
pub mod schema;
pub mod settings;
pub mod signature;
pub mod state;
pub mod trust;
pub mod watchdog;
