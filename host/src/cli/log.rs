//! Where this process's log lines go: standard error, as text or JSON.

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Observe};

/// To be called once, before anything is logged.
///
/// # Errors
/// The level is no level; [`crate::config::Config::read`] has checked that.
pub fn start(observe: &Observe) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&observe.log_level)?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match observe.log_format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    Ok(())
}
