//! The rules of cards, sources, filters, patches and rows of imports.
//!
//! What is absent: SQL and HTTP. All of it is pure.

pub mod card;
pub mod error;
pub mod fields;
pub mod file;
pub mod filter;
pub mod page;
pub mod patch;
pub mod row;
pub mod source;
