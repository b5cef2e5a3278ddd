//! `println!` and `eprintln!` for plugins. All libraries share the worker's standard output, where a line has no owner;
//! these go to the plugin's own log instead.

use std::fmt::Arguments;

use cardinal_plugin_abi::Slice;

use crate::{Level, panics::logger, scope::Scope};

/// Writes a line to the plugin's log at `info`, in place of the standard library's macro of this name.
///
/// The line belongs to the call that the thread works for, and to the newest instance of the plugin on a thread of the
/// plugin's own. It takes the arguments of [`std::println!`] and has the bounds of
/// [`PluginContext::log`](crate::PluginContext::log). Where no plugin runs, as in an author's unit tests, it goes to
/// standard error.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, println};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn count(_: PluginContext, _: Request) -> Result<Response> {
///     println!("{} pages", 3);
///     Ok(Response::empty())
/// }
///
/// let manifest = r#"{ "name": "feeds", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/count", count));
/// block_on(host.send(TestRequest::get("/count")));
/// assert_eq!(host.log()[0].message, "3 pages");
/// ```
#[macro_export]
macro_rules! println {
    () => { $crate::__private::print($crate::Level::Info, ::core::format_args!("")) };
    ($($arg:tt)*) => { $crate::__private::print($crate::Level::Info, ::core::format_args!($($arg)*)) };
}

/// Writes a line to the plugin's log at `warn`, in place of the standard library's macro of this name. See
/// [`println!`](crate::println).
///
/// ```
/// use cardinal_plugin::{Level, PluginContext, Request, Response, Result, block_on, eprintln, testing::TestRequest};
///
/// async fn read(_: PluginContext, _: Request) -> Result<Response> {
///     eprintln!("{} of {} prices cannot be read", 3, 1200);
///     Ok(Response::empty())
/// }
///
/// # use cardinal_plugin::{Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// block_on(host.call(read, TestRequest::post("/")));
/// assert!(host.log()[0].is(Level::Warn) && host.log()[0].message == "3 of 1200 prices cannot be read");
/// ```
#[macro_export]
macro_rules! eprintln {
    () => { $crate::__private::print($crate::Level::Warn, ::core::format_args!("")) };
    ($($arg:tt)*) => { $crate::__private::print($crate::Level::Warn, ::core::format_args!($($arg)*)) };
}

/// Writes the line that [`println!`](crate::println) or [`eprintln!`](crate::eprintln) made; to standard error where
/// there is no instance, as in an author's unit tests.
#[doc(hidden)]
pub fn print(level: Level, line: Arguments<'_>) {
    let Some((host, ctx)) = logger() else { return ::std::eprintln!("{line}") };
    let call = Scope::current().call;
    (host.log())(ctx, call, level as u32, Slice::text(&line.to_string()), Slice::default(), Slice::default());
}
