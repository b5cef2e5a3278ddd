//! The server behind the `cardinal` binary. `host/README.md` tells its two walks and its invariants.

pub mod config;
