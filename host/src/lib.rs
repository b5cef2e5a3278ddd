//! The server behind the `cardinal` binary. `host/README.md` tells its two walks and its invariants.

pub mod backup;
pub mod check;
pub mod cli;
