use std::io::Write as _;

/// Prints the version.
pub(super) fn run() -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "cardinal {}", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
