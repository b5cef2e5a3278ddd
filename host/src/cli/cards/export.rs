use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;
use http::Request;
use http_body_util::BodyExt as _;
use tokio::{
    fs::{self, File},
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter},
};

use super::Format;
use crate::cli::{
    client::{self, Client},
    progress::Bar,
};
use cardinal_base::config::ClientSettings;

const EXPORT: &str = "/v1/admin/master-cards/export";
const LIST: &str = "/v1/admin/master-cards";

/// Write a host's cards into a file
///
/// All as they are at one moment, oldest first. The file appears under its name only when it is complete.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  CARDINAL_API_KEY=mpk_... cardinal cards export cards.ndjson
  cardinal cards export --key-file key --status active --format csv - | gzip > active.csv.gz")]
pub(super) struct Args {
    /// The file; - is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    overwrite: bool,
    /// How the file is written [default: by its name's ending, else ndjson]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// CSV to be opened in a spreadsheet: texts that it would compute begin with an apostrophe. To be read only; an
    /// import takes the apostrophe as part of the text
    #[arg(long)]
    spreadsheet: bool,
    /// Only with this in title or SKU
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
    /// Only cards of this status
    #[arg(long, value_parser = PossibleValuesParser::new(["draft", "active", "archived"]))]
    status: Option<String>,
    /// Only with a source of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only with a source of this plugin
    #[arg(long)]
    plugin: Option<String>,
    /// Only without a source of this kind
    #[arg(long, value_name = "KIND")]
    missing_kind: Option<String>,
    /// Only changed since, e.g. 2026-03-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    updated_since: Option<String>,
    /// Those that are deleted and not purged yet
    #[arg(long)]
    deleted: bool,
    #[command(flatten)]
    host: ClientSettings,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<()> {
    let format = Format::choose(args.format, &args.file);
    if args.spreadsheet && format != Format::Csv {
        bail!("--spreadsheet needs CSV: name the file .csv, or add --format csv");
    }
    let client = Client::new(&args.host.read()?)?;
    let to_stdout = args.file.as_os_str() == "-";
    if !to_stdout && !args.overwrite && args.file.exists() {
        bail!("{} exists: choose another name, or pass --overwrite", args.file.display());
    }
    let filters: Vec<(&str, Option<&str>)> = vec![
        ("q", args.q.as_deref()),
        ("status", args.status.as_deref()),
        ("kind", args.kind.as_deref()),
        ("plugin", args.plugin.as_deref()),
        ("missing_kind", args.missing_kind.as_deref()),
        ("updated_since", args.updated_since.as_deref()),
        ("deleted", args.deleted.then_some("true")),
    ];
    // For the bar alone.
    let expected = expected(&client, &filters).await?;
    let mut query = filters;
    query.push(("format", Some(format.name())));
    query.push(("spreadsheet", args.spreadsheet.then_some("true")));
    let answer = client.send(&format!("{EXPORT}{}", client::query(&query)), Request::new(client::empty())).await?;
    let mut bar = Bar::new("cards", expected);
    let rows = if to_stdout {
        copy(&client, answer, &mut stdout()?, &mut bar).await
    } else {
        keep(&client, answer, &args.file, &mut bar).await
    };
    bar.finish();
    let rows = rows?;
    // Beside the data there is no place for it.
    let summary =
        format!("{rows} lines in {}", if to_stdout { Path::new("standard output") } else { &args.file }.display());
    if to_stdout { writeln!(io::stderr(), "{summary}") } else { writeln!(io::stdout(), "{summary}") }
        .context("writing to standard output")
}

fn stdout() -> anyhow::Result<File> {
    let stdout = io::stdout().as_fd().try_clone_to_owned().context("opening standard output")?;
    Ok(File::from_std(stdout.into()))
}

async fn expected(client: &Client, filters: &[(&str, Option<&str>)]) -> Result<Option<u64>, client::RequestError> {
    let mut query = filters.to_vec();
    query.extend([("limit", Some("1")), ("fields", Some("id"))]);
    Ok(client.get(&format!("{LIST}{}", client::query(&query))).await?["total_estimate"].as_u64())
}

async fn keep(
    client: &Client,
    answer: http::Response<hyper::body::Incoming>,
    file: &Path,
    bar: &mut Bar,
) -> anyhow::Result<u64> {
    let mut name = file.file_name().context("the file has no name")?.to_owned();
    name.push(".part");
    let draft = file.with_file_name(name);
    let saved = async {
        let mut out = BufWriter::new(File::create(&draft).await.context("creating the file")?);
        let rows = copy(client, answer, &mut out, bar).await?;
        out.into_inner().sync_all().await.context("writing the file")?;
        fs::rename(&draft, file).await.context("renaming the file")?;
        anyhow::Ok(rows)
    };
    let saved = saved.await;
    if saved.is_err() {
        // What is there of it would pass for an export.
        let _ = fs::remove_file(&draft).await;
    }
    saved.with_context(|| file.display().to_string())
}

/// Copies the answer; the lines that it had.
async fn copy(
    client: &Client,
    answer: http::Response<hyper::body::Incoming>,
    out: &mut (impl AsyncWrite + Unpin),
    bar: &mut Bar,
) -> anyhow::Result<u64> {
    let (mut body, mut lines) = (answer.into_body(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| client.broken_off(error.into()))?.into_data() else { continue };
        out.write_all(&data).await.context("writing")?;
        let rows = data.iter().filter(|byte| **byte == b'\n').count() as u64;
        lines += rows;
        bar.moved(rows, rows);
    }
    out.flush().await.context("writing")?;
    Ok(lines)
}
