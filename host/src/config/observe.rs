use std::io::IsTerminal as _;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use super::network;
use super::reader::Reader;

const DEFAULT_LOG_LEVEL: &str = "info";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

/// What the host tells about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Observe {
    pub log_format: LogFormat,
    /// Directives as `tracing_subscriber::EnvFilter` takes them.
    pub log_level: String,
    pub metrics_addr: Option<SocketAddr>,
    pub otlp_endpoint: Option<String>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Logs and metrics")]
#[group(skip)]
pub(super) struct Args {
    /// text or json, e.g. json [default: text on a terminal, json elsewhere]
    #[arg(long, env, value_name = "FORMAT")]
    log_format: Option<String>,
    /// off, error, warn, info, debug or trace, also by module, e.g. info,cardinal::mcp=debug [default: info]
    #[arg(long, env, value_name = "LEVEL")]
    log_level: Option<String>,
    /// A listener of its own for /metrics, without authentication, e.g. 127.0.0.1:9100 [default: none]
    #[arg(long, env, value_name = "ADDR")]
    metrics_addr: Option<String>,
    /// Where traces are sent, e.g. http://127.0.0.1:4318 [default: nowhere]
    #[arg(long, env, value_name = "URL")]
    otel_exporter_otlp_endpoint: Option<String>,
}

impl Observe {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Observe {
        let on_terminal = std::io::stderr().is_terminal();
        let default_format = if on_terminal { LogFormat::Text } else { LogFormat::Json };
        Observe {
            log_format: reader.value("LOG_FORMAT", &args.log_format, default_format, log_format),
            log_level: reader.value("LOG_LEVEL", &args.log_level, DEFAULT_LOG_LEVEL.to_owned(), log_level),
            metrics_addr: reader.optional("METRICS_ADDR", &args.metrics_addr, network::socket_address),
            otlp_endpoint: reader.optional("OTEL_EXPORTER_OTLP_ENDPOINT", &args.otel_exporter_otlp_endpoint, |text| {
                network::http_url(text).map(String::from)
            }),
        }
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is neither text nor json")),
    }
}

/// Stricter than `EnvFilter`, which takes any misspelt level for the name of a module and goes silent.
fn log_level(text: &str) -> Result<String, String> {
    let bad = || format!("{text:?} is no level: write off, error, warn, info, debug or trace, or info,module=debug");
    for directive in text.split(',') {
        let level = directive.rsplit('=').next().unwrap_or(directive).trim().to_ascii_lowercase();
        if !LEVELS.contains(&level.as_str()) {
            return Err(bad());
        }
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|_| bad())
}
