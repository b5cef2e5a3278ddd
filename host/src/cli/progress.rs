//! How far long work is: one line that changes on a terminal, plain lines otherwise.

use std::io::{self, IsTerminal as _, Write as _};

use crate::backup::Progress;

/// On standard error, so that standard output stays the command's result.
pub struct Lines {
    terminal: bool,
    rows: u64,
}

impl Lines {
    pub fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), rows: 0 }
    }
}

impl Progress for Lines {
    fn rows(&mut self, what: &str, rows: u64) {
        self.rows = rows;
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{what}: {rows} rows");
        }
    }

    fn done(&mut self, what: &str) {
        let rows = std::mem::take(&mut self.rows);
        let start = if self.terminal { "\r\x1b[K" } else { "" };
        let rows = if what.contains('.') { format!(": {rows} rows") } else { String::new() };
        let _ = writeln!(io::stderr(), "{start}{what}{rows}");
    }
}
