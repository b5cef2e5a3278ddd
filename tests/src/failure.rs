//! What failed, told when it fails: a long run shows the rest at its end, and one that is cut off never.

use std::{
    io::Write as _,
    panic::{self, PanicHookInfo},
    sync::Once,
};

/// Bytes of one failure.
const SHOWN: usize = 4 << 10;

/// From now on the message of each panic goes to the real standard error as well, past the test runner's capture.
pub(crate) fn tell_at_once() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let capture = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            capture(panic);
            print(panic);
        }));
    });
}

fn print(panic: &PanicHookInfo<'_>) {
    let text = panic.to_string();
    let thread = std::thread::current();
    let shown = &text[..text.floor_char_boundary(SHOWN)];
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "\nfailed: {}: {shown}", thread.name().unwrap_or("a thread"));
}
