//! The pictures that sources of kind `supplier` have of a product, whichever plugin wrote them: a wall of thumbnails,
//! and the choice of the one that stands for the product, kept in the card for others to read.

mod cache;
mod fetch;
mod pictures;
mod routes;
mod service;
mod settings;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod thumbnail;

cardinal_plugin::plugin!(routes::routes);
