//! Packages of plugins: found, read, checked and trusted. Bytes in, verdict out; nothing here opens a library.
//!
//! [`stages`] holds the order of these steps.

pub mod compat;
mod cron;
pub mod kept;
pub mod manifest;
pub mod owners;
pub mod package;
pub mod preflight;
pub mod refusal;
pub mod signature;
pub mod stages;
pub mod state;
pub mod trust;
