//! The process boundary: what supervisor and worker say to each other, what a worker keeps itself from before it opens
//! a plugin, and the journal that outlives a crash.
//!
//! Neither side's work is here.

pub mod crash;
pub mod link;
pub mod local_socket;
pub mod machine_memory;
pub mod sandbox;
