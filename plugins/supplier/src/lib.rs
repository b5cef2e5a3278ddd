//! Reads product pages of suppliers into master cards.

pub mod fetch;
pub mod product;
