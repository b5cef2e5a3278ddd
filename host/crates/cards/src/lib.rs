//! The rules of cards; pure, no database, no HTTP.

pub mod card;
pub mod error;
pub mod fields;
pub mod file;
pub mod filter;
pub mod page;
pub mod patch;
pub mod row;
pub mod source;
