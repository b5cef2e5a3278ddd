//! `cardinal mcp stdio`: a client's messages, line by line, to a host and back.

use std::{io, os::fd::AsFd as _, sync::Arc};

use anyhow::{Context as _, bail};
use http::{HeaderMap, HeaderValue};
use tokio::{
    fs::File,
    io::{AsyncWriteExt as _, BufReader},
    sync::mpsc,
};

use super::{
    bridge::Bridge,
    lines::{LINE_LIMIT, Line, next_line},
};
use crate::cli::client::Client;
use cardinal_base::config::ClientSettings;

/// Lines that wait for a client that reads slowly; then the host's streams wait.
const MAX_WAITING_LINES: usize = 64;

/// Speak MCP over standard input and output, for clients that start a program
///
/// Passes each message on to a host, and the host's messages back. The client gets what the key may do, and may take
/// away of it. Nothing but messages is written to standard output; what goes wrong besides is on standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  cardinal mcp stdio --url https://shop.example.com --key-file cardinal.key
In a client's configuration:
  {\"mcpServers\": {\"cardinal\": {\"command\": \"cardinal\",
    \"args\": [\"mcp\", \"stdio\", \"--url\", \"https://shop.example.com\", \"--key-file\", \"/home/ada/cardinal.key\"]}}}")]
pub(super) struct Args {
    /// Only these tools: comma-separated names, in which * stands for any text, e.g. cards_*
    #[arg(long, value_name = "NAMES")]
    tools: Option<String>,
    /// Only tools that read and that no person confirms
    #[arg(long)]
    readonly: bool,
    /// More than 40 tools are found by searching, and not listed
    #[arg(long)]
    search: bool,
    #[command(flatten)]
    host: ClientSettings,
}

impl Args {
    fn narrowing(&self) -> anyhow::Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Some(tools) = &self.tools {
            let Ok(tools) = HeaderValue::from_str(tools) else {
                bail!(
                    "--tools takes a comma-separated list of tool \
                names"
                )
            };
            headers.insert("x-mcp-tools", tools);
        }
        for (name, is_on) in [("x-mcp-readonly", self.readonly), ("x-mcp-search", self.search)] {
            if is_on {
                headers.insert(name, HeaderValue::from_static("true"));
            }
        }
        Ok(headers)
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (client, narrowing) = (Client::new(&args.host.read()?)?, args.narrowing()?);
    let runtime = crate::cli::runtime()?;
    let outcome = runtime.block_on(run_session(client, narrowing));
    // A read of standard input cannot be called off; nobody waits for it.
    runtime.shutdown_background();
    outcome
}

async fn run_session(client: Client, narrowing: HeaderMap) -> anyhow::Result<()> {
    let (out, written) = mpsc::channel(MAX_WAITING_LINES);
    let bridge = Arc::new(Bridge::new(client, narrowing, out));
    let mut writer = tokio::spawn(write(written));
    let input = io::stdin().as_fd().try_clone_to_owned().context("opening standard input")?;
    let mut input = BufReader::new(File::from_std(input.into()));
    loop {
        let line = tokio::select! {
            line = next_line(&mut input) => line.context("reading standard input")?,
            // The client reads no more.
            ended = &mut writer => return ended.context("writing to standard output")?,
        };
        match line {
            Line::Message(line) => bridge.take(&line).await,
            Line::TooLong => bridge.refuse(&format!("the message is over {LINE_LIMIT} bytes")).await,
            Line::End => break,
        }
    }
    bridge.finish().await;
    drop(bridge);
    writer.await.context("writing to standard output")?
}

async fn write(mut lines: mpsc::Receiver<String>) -> anyhow::Result<()> {
    let out = io::stdout().as_fd().try_clone_to_owned().context("opening standard output")?;
    let mut out = File::from_std(out.into());
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        out.write_all(line.as_bytes()).await.context("writing to standard output")?;
        out.flush().await.context("writing to standard output")?;
    }
    Ok(())
}
