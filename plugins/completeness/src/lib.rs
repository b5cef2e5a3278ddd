//! How complete each card is by the operator's rules, and what it lacks. Other plugins' data is read by its kind alone.

mod check;
mod routes;
mod scores;
mod service;
mod settings;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod walk;

cardinal_plugin::plugin!(routes::routes);
