//! Plugins: loaded, called, retired. `host/README.md` describes their stages; what is found and judged before any of
//! their code runs is `cardinal-package`.
//!
//! What is absent: plugins' schemas, which the supervisor is asked to make.
//!
//! What runs foreign code is `probe`, `library` and `instance`. `registry` leads a plugin from one to the next.

pub mod active;
pub mod agreement;
pub mod arguments;
mod breaker;
pub mod bridge;
pub mod connection;
pub mod context;
pub mod error;
pub mod exports;
pub mod fault;
pub mod frontend;
mod guard;
pub mod inspect;
pub mod instance;
pub mod job;
pub mod lane;
pub mod library;
mod listen;
pub mod news;
mod placement;
pub mod probe;
pub mod progress;
pub mod quarantine;
pub mod registry;
mod schema;
pub mod settings;
pub mod watchdog;
pub mod whole_numbers;

pub use instance::call;
