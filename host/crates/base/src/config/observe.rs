use std::io::IsTerminal as _;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::log_levels::LogLevels;
use super::network;
use super::reader::Reader;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Human,
    Json,
}

impl LogFormat {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
    }
}

/// What the host tells about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Observe {
    pub log_format: LogFormat,
    /// For people: standard error is a terminal.
    pub colours: bool,
    pub log_level: LogLevels,
    pub metrics_addr: Option<SocketAddr>,
    /// Without a slash at its end, and without credentials.
    pub otlp_endpoint: Option<String>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Logs and metrics")]
#[group(skip)]
pub(super) struct Args {
    /// human or json, e.g. json [default: human on a terminal, json elsewhere]
    #[arg(long, env, value_name = "FORMAT")]
    log_format: Option<String>,
    /// off, error, warn, info, debug or trace, also by module or plugin, e.g.
    /// info,cardinal::db=debug,plugin::supplier=trace; at info the MCP library (rmcp) writes warnings only
    /// [default: info]
    #[arg(long, env, value_name = "LEVEL")]
    log_level: Option<String>,
    /// A listener of its own for /metrics, without authentication, e.g. 127.0.0.1:9100 [default: none]
    #[arg(long, env, value_name = "ADDR")]
    metrics_addr: Option<String>,
    /// Collector that traces are sent to by OTLP over HTTP (JSON), at /v1/traces below this address, e.g.
    /// http://127.0.0.1:4318 [default: none]
    #[arg(long, env, value_name = "URL")]
    otel_exporter_otlp_endpoint: Option<String>,
}

impl Observe {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Observe {
        let on_terminal = std::io::stderr().is_terminal();
        let default_format = if on_terminal { LogFormat::Human } else { LogFormat::Json };
        Observe {
            colours: on_terminal,
            log_format: reader.value("LOG_FORMAT", &args.log_format, default_format, log_format),
            log_level: reader.value("LOG_LEVEL", &args.log_level, LogLevels::default(), str::parse),
            metrics_addr: reader.optional("METRICS_ADDR", &args.metrics_addr, network::socket_address),
            otlp_endpoint: reader.optional(
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                &args.otel_exporter_otlp_endpoint,
                network::collector_url,
            ),
        }
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        // What this was called at first.
        "human" | "text" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is neither human nor json")),
    }
}
