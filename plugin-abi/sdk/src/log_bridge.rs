//! From the crates `log` and `tracing` to the plugin's log.
//!
//! Both have one place in a library for whoever takes the lines, and it is taken for good, while instances come and go:
//! new settings make a new one. So nothing here belongs to an instance. Each line goes to the instance and the call
//! that its thread works for; on a thread of the plugin's own to those of the span it is in, else to the newest
//! instance.

mod filter;
#[cfg(feature = "log")]
mod records;
#[cfg(feature = "tracing")]
mod spans;

use std::sync::Once;

use cardinal_plugin_abi::Slice;
use serde_json::{Map, Value};

use self::filter::Filter;
use crate::{
    Error, Level, Result,
    panics::logger_of,
    scope::{Origin, Scope},
};

/// Longer values of fields are cut, and fields beyond the sum left out: the host cuts JSON at 16 KiB, wherever that is.
const VALUE_LIMIT: usize = 2 << 10;
const FIELDS_LIMIT: usize = 12 << 10;

/// Chooses which lines of `tracing` and `log` reach the host, for all instances of the library.
///
/// The text has a level for everything, and levels for targets (a crate, a module) that differ, separated by commas:
/// `warn,notes=debug,hyper::proto=off`. Of several targets that match, the longest counts; a text without a level of
/// its own means `info` for the rest. Levels are `off`, `error`, `warn`, `info`, `debug` and `trace`.
///
/// Unless it is called, the level is `info`, and `trace` for the plugin's own crate, taken to be called as the plugin.
/// The operator's own levels are applied after it. Calling it again replaces the filter. It has no effect on
/// [`PluginContext::log`](crate::PluginContext::log).
///
/// ```
/// use cardinal_plugin::{Level, PluginContext, Request, Response, Result, Router, block_on, set_log_filter};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn read(_: PluginContext, _: Request) -> Result<Response> {
///     tracing::debug!(target: "feeds::parser", rows = 3, "a feed was read");
///     tracing::info!(target: "hyper", "of another crate");
///     Ok(Response::empty())
/// }
///
/// # fn main() -> Result<()> {
/// let manifest = r#"{ "name": "feeds", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/read", read));
/// set_log_filter("warn,feeds=debug")?;
/// block_on(host.send(TestRequest::post("/read")));
/// let lines = host.log();
/// assert_eq!(lines.len(), 1);
/// assert!(lines[0].is(Level::Debug) && lines[0].message == "a feed was read" && lines[0].field("rows") == 3);
///
/// assert!(set_log_filter("feeds=loud").is_err());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// An internal error when the text is not of this form. The filter stays as it was.
pub fn set_log_filter(directives: &str) -> Result<()> {
    let most = filter::set(Filter::parse(directives).map_err(Error::internal)?);
    apply(most);
    Ok(())
}

/// Takes the places of both crates, when nobody has; called when an instance is made.
pub(crate) fn install(plugin: &str) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let most = filter::set_default(plugin);
        // An author's own subscriber or logger, set before, stays.
        #[cfg(feature = "tracing")]
        let _ = tracing::subscriber::set_global_default(spans::Bridge);
        #[cfg(feature = "log")]
        let _ = log::set_logger(&records::BRIDGE);
        apply(most);
    });
}

/// `most` is the finest level that passes anywhere; 0 is none.
fn apply(most: u32) {
    #[cfg(feature = "log")]
    log::set_max_level(records::level_filter(most));
    #[cfg(feature = "tracing")]
    tracing::callsite::rebuild_interest_cache();
    let _ = most;
}

/// Writes a line. `origin` is where it is from when its thread belongs to no instance.
fn write(origin: Origin, level: Level, message: &str, fields: Map<String, Value>) {
    let current = Scope::current();
    let Origin { ctx, call } = if current.ctx == 0 { origin } else { current };
    let Some((host, found)) = logger_of(ctx) else { return };
    let call = if found == ctx { call } else { 0 };
    let fields = Value::from(bounded(fields)).to_string();
    (host.log())(found, call, level as u32, Slice::text(message), Slice::text(&fields), Slice::default());
}

/// What of the fields fits; `fields_cut` says that something did not.
fn bounded(fields: Map<String, Value>) -> Map<String, Value> {
    let (mut kept, mut size, mut is_cut) = (Map::new(), 0, false);
    for (name, mut value) in fields {
        if let Value::String(text) = &mut value
            && text.len() > VALUE_LIMIT
        {
            text.truncate(text.floor_char_boundary(VALUE_LIMIT));
            is_cut = true;
        }
        size += name.len() + value.to_string().len();
        if size > FIELDS_LIMIT {
            is_cut = true;
            break;
        }
        kept.insert(name, value);
    }
    if is_cut {
        kept.insert("fields_cut".to_owned(), true.into());
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_fit_into_a_line() {
        let mut fields = Map::from_iter([("a".to_owned(), json!(1)), ("b".to_owned(), json!("ü".repeat(VALUE_LIMIT)))]);
        let kept = bounded(fields.clone());
        assert_eq!(
            (kept["a"].clone(), kept["b"].as_str().unwrap().len(), kept["fields_cut"].clone()),
            (json!(1), VALUE_LIMIT, json!(true))
        );
        (0..100).for_each(|n| drop(fields.insert(format!("c{n}"), json!("x".repeat(1000)))));
        assert!(Value::from(bounded(fields)).to_string().len() < 16 << 10);
    }
}
