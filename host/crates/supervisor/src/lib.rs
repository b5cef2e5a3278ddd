//! The supervisor: the private PostgreSQL, the worker's processes, and the short-lived ones that make plugins' schemas.

pub mod keeper;
pub mod provision;
