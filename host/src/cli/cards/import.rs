use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method, Request, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
};

use super::Format;
use crate::cli::{
    client::{self, Client},
    progress::Bar,
};
use cardinal_base::config::ClientSettings;

const IMPORT: &str = "/v1/admin/master-cards/import";
/// Bytes of the file that are read at a time.
const PIECE: usize = 64 << 10;
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Bad rows that are shown; all of them go to --errors.
const MAX_SHOWN: usize = 20;

/// Write the cards of a file into a host
///
/// Valid rows are written; invalid rows are reported with their line number. With --atomic, all rows are written or
/// none. A row has `title` and `sku`, perhaps `status` and `attributes`; in CSV a column `attributes.brand` is one
/// attribute. Exits with 1 if a row was refused or the import did not finish; it can be repeated with --mode upsert.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  CARDINAL_API_KEY=mpk_... cardinal cards import cards.ndjson
  cardinal cards import --key-file key --mode upsert --dry-run --errors bad.ndjson prices.csv
  zcat cards.ndjson.gz | cardinal cards import --key-file key -")]
pub(super) struct Args {
    /// The file; - is standard input
    file: PathBuf,
    /// What to do when a SKU exists: report an error (create) or update the card (upsert)
    #[arg(long, value_enum, default_value = "create")]
    mode: Mode,
    /// Validate only; write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write all rows or, when one is invalid, none; up to 100,000 rows
    #[arg(long)]
    atomic: bool,
    /// Take the rows' sources and ids, as an export has them; needs a key with the scope *
    #[arg(long)]
    keep_sources: bool,
    /// How the file is written [default: by its name's ending, else ndjson]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File for every invalid row, a line of JSON each
    #[arg(long, value_name = "FILE")]
    errors: Option<PathBuf>,
    #[command(flatten)]
    host: ClientSettings,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    Create,
    Upsert,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<()> {
    let client = Client::new(&args.host.read()?)?;
    let (source, length) = open(&args.file).await?;
    let bar = Arc::new(Mutex::new(Bar::new("cards", length)));
    let sent = client.send(&path(args), request(args, source, Arc::clone(&bar))?).await;
    let answer = client.whole(sent.inspect_err(|_| finish(&bar))?).await?;
    let mut job = answer["item"].clone();
    let id = job["id"].as_str().context("the answer has no job id")?.to_owned();
    while ["queued", "running"].contains(&job["state"].as_str().unwrap_or_default()) {
        tokio::time::sleep(POLL_INTERVAL).await;
        job = client.get(&format!("/v1/admin/jobs/{id}")).await?["item"].take();
    }
    finish(&bar);
    if let Some(file) = &args.errors {
        save_errors(&client, &id, file).await?;
    }
    report(args, &job)
}

async fn open(file: &PathBuf) -> anyhow::Result<(Box<dyn AsyncRead + Send + Sync + Unpin>, Option<u64>)> {
    if file.as_os_str() == "-" {
        let stdin = io::stdin().as_fd().try_clone_to_owned().context("reading standard input")?;
        return Ok((Box::new(File::from_std(stdin.into())), None));
    }
    let opened = File::open(file).await.with_context(|| format!("opening {}", file.display()))?;
    let facts = opened.metadata().await.with_context(|| format!("opening {}", file.display()))?;
    if facts.is_dir() {
        anyhow::bail!("{} is a folder: give a CSV or NDJSON file, or - for standard input", file.display());
    }
    Ok((Box::new(opened), facts.is_file().then_some(facts.len())))
}

fn path(args: &Args) -> String {
    let mode = match args.mode {
        Mode::Create => "create",
        Mode::Upsert => "upsert",
    };
    let yes = |flag: bool| flag.then_some("true");
    let query = client::query(&[
        ("mode", Some(mode)),
        ("dry_run", yes(args.dry_run)),
        ("atomic", yes(args.atomic)),
        ("sources", args.keep_sources.then_some("keep")),
    ]);
    format!("{IMPORT}{query}")
}

fn request(
    args: &Args,
    source: Box<dyn AsyncRead + Send + Sync + Unpin>,
    bar: Arc<Mutex<Bar>>,
) -> anyhow::Result<Request<client::Upload>> {
    let pieces = stream::try_unfold((source, bar), |(mut source, bar)| async move {
        let mut piece = vec![0; PIECE];
        let read = source.read(&mut piece).await?;
        if read == 0 {
            return Ok::<_, io::Error>(None);
        }
        piece.truncate(read);
        let rows = piece.iter().filter(|byte| **byte == b'\n').count();
        bar.lock().moved(rows as u64, read as u64);
        Ok(Some((Frame::data(Bytes::from(piece)), (source, bar))))
    });
    let mut request = Request::new(StreamBody::new(pieces).boxed());
    *request.method_mut() = Method::POST;
    let media_type = Format::choose(args.format, &args.file).media_type();
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(request)
}

fn finish(bar: &Mutex<Bar>) {
    bar.lock().finish();
}

async fn save_errors(client: &Client, job: &str, file: &PathBuf) -> anyhow::Result<()> {
    let mut out = File::create(file).await.with_context(|| format!("making {}", file.display()))?;
    let request = Request::new(client::empty());
    let mut body = client.send(&format!("/v1/admin/jobs/{job}/errors"), request).await?.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|error| client.broken_off(error.into()))?.into_data() {
            out.write_all(&data).await.with_context(|| format!("writing {}", file.display()))?;
        }
    }
    out.flush().await.with_context(|| format!("writing {}", file.display()))
}

/// What became of it on standard output, bad rows on standard error.
fn report(args: &Args, job: &Value) -> anyhow::Result<()> {
    let mut err = io::stderr();
    let errors = job["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for error in errors.iter().take(MAX_SHOWN) {
        let _ = writeln!(err, "line {}: {}", error["line"], error["detail"].as_str().unwrap_or_default());
    }
    let failed = job["failed"].as_u64().unwrap_or_default();
    if failed > MAX_SHOWN as u64 && args.errors.is_none() {
        let _ = writeln!(err, "and {} more; --errors FILE keeps them all", failed - MAX_SHOWN as u64);
    }
    for note in job["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(err, "{note}");
    }
    let count = |name: &str| job["counts"][name].as_u64().unwrap_or_default();
    let (state, id) = (job["state"].as_str().unwrap_or_default(), job["id"].as_str().unwrap_or_default());
    let would = if args.dry_run { "nothing was written; would be " } else { "" };
    let summary = format!(
        "{would}{} created, {} updated, {} unchanged, {failed} refused ({state}, job {id})",
        count("created"),
        count("updated"),
        count("unchanged"),
    );
    writeln!(io::stdout(), "{summary}").context("writing to standard output")?;
    if state != "done" {
        anyhow::bail!("the import did not finish: {}", job["reason"].as_str().unwrap_or(state));
    }
    anyhow::ensure!(failed == 0, "{failed} rows were refused");
    Ok(())
}
