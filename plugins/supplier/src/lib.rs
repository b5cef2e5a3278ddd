//! Reads product pages of suppliers into master cards. The plugin to read before writing one:
//! `README.md` beside this crate walks through it.

mod bulk;
mod cache;
pub mod fetch;
pub mod politeness;
mod routes;
mod service;
mod settings;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

cardinal_plugin::plugin!(routes::routes);
