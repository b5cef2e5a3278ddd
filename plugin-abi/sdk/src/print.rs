//! `println!` and `eprintln!` for plugins. All libraries share the worker's standard output, where a line has no owner;
//! these go to the plugin's own log instead.

use std::fmt::Arguments;

use cardinal_plugin_abi::Slice;

use crate::{Level, panics::logger, scope::Scope};

/// In place of the standard library's: a line in the plugin's log, at `info`, with the call that the thread works for.
///
/// ```
/// use cardinal_plugin::println;
///
/// println!("{} pages", 3);
/// ```
#[macro_export]
macro_rules! println {
    () => { $crate::__private::print($crate::Level::Info, ::core::format_args!("")) };
    ($($arg:tt)*) => { $crate::__private::print($crate::Level::Info, ::core::format_args!($($arg)*)) };
}

/// In place of the standard library's: a line in the plugin's log, at `warn`. See [`println!`](crate::println).
#[macro_export]
macro_rules! eprintln {
    () => { $crate::__private::print($crate::Level::Warn, ::core::format_args!("")) };
    ($($arg:tt)*) => { $crate::__private::print($crate::Level::Warn, ::core::format_args!($($arg)*)) };
}

/// Writes the line; to standard error where there is no instance, as in an author's unit tests.
pub fn print(level: Level, line: Arguments<'_>) {
    let Some((host, ctx)) = logger() else { return ::std::eprintln!("{line}") };
    let call = Scope::current().call;
    (host.log())(ctx, call, level as u32, Slice::text(&line.to_string()), Slice::default(), Slice::default());
}
