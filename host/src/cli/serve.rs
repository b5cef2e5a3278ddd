use std::process::ExitCode;

use rustix::process::Signal;

use super::{EXIT_USAGE, exit_code, print_error};
use cardinal_base::config::{self, Config, Settings};
use cardinal_control::sandbox;
use cardinal_observe::log::Log;
use cardinal_supervisor::{launch, serve};

/// Start the host: admin API, Admin UI, MCP, plugins and HTTP proxy
///
/// Every setting is an environment variable and a flag; the flag wins.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal serve
      with a private PostgreSQL below ./var/data, on http://127.0.0.1:8080
  LISTEN_ADDR=0.0.0.0:8080 BASE_URL=https://shop.example.com cardinal serve --data-dir /var/lib/cardinal
      behind a TLS proxy, with its data elsewhere")]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
    /// Of a command that has started this host for itself: it ends with it.
    #[arg(long, hide = true, value_name = "PID")]
    parent: Option<u32>,
}

/// Behind standard input, output and error.
const FIRST_INHERITED: i32 = 3;

pub(super) fn run(args: &Args) -> ExitCode {
    if let Some(Err(error)) = args.parent.map(|parent| launch::end_with(parent, Signal::TERM)) {
        return exit_code(Err(error));
    }
    let config = match Config::read(&args.settings) {
        Ok(config) => config,
        Err(bad) => {
            print_error(&format!("cardinal serve: {bad}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    // What a shell or a service manager left open is nobody else's to read: plugins' processes least of all.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let started = Log::start(&config.observe).and_then(|_| sandbox::close_process());
    for (variable, setting) in config::misspelt() {
        tracing::warn!(variable, "this variable is not a setting and has no effect; did you mean {setting}?");
    }
    exit_code(started.and_then(|()| serve::serve(config)))
}
