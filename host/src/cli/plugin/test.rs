mod arguments;
mod database_wall;
mod edges;
mod frontend;
mod panics;
mod requests;
mod routes;
mod swap;
mod threads;
mod tools;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use http::Method;
use serde_json::{Value, json};

use self::{requests::Subject, threads::Blocking};
use super::{
    build,
    cargo::{self, Profile},
    check::check_manifest,
    install,
    own_host::{self, OwnHost},
    remote::{REGISTRY, block_on, describe},
    stop::Stop,
};
use crate::cli::{
    client::Client,
    text::{plain, plain_lines, print_line},
};
use cardinal_base::config::{HostEndpoint, Remote, Secret};
use cardinal_package::manifest;

/// How long the host may take to put the plugin into service.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Rate limits would refuse what a swap under load asks.
const SETTINGS: [(&str, &str); 1] = [("API_KEY_RATE_PER_MINUTE", "100000000")];
/// For the plugin's own tests.
const URL_VARIABLE: &str = "CARDINAL_TEST_URL";
const KEY_VARIABLE: &str = "CARDINAL_TEST_KEY";
const DATABASE_VARIABLE: &str = "CARDINAL_TEST_DATABASE";

/// Test a plugin in a throwaway host, with its own tests and with what every plugin has to do
///
/// Builds the crate, starts a host with a PostgreSQL of its own in a temporary folder, and checks: every route answers;
/// the plugin's database role reaches nothing but its own; what it draws is drawn for a card in Chromium, where one is
/// installed; every tool is listed, those that read answer, those that must be confirmed ask; a swap under load loses
/// no request; odd input makes nothing panic, and where it does, the line of the code is told; no handler blocks its
/// thread for two seconds; it ends in order. Then
/// come the crate's own tests, by `cargo test`: CARDINAL_TEST_URL is the host's address there, CARDINAL_TEST_KEY a key
/// that may do everything, and CARDINAL_TEST_DATABASE the address of its PostgreSQL, for tests with `TestHost`. Exits 0
/// when all is well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin test
  cardinal plugin test notes -- --offline
      with arguments for cargo
  PLUGIN_SETTINGS_NOTES='{\"longest_note\": 10}' cardinal plugin test notes
      with settings of the plugin")]
pub(super) struct Args {
    /// Folder of the crate
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Build with optimisation
    #[arg(long)]
    release: bool,
    /// Leave the crate's own tests out
    #[arg(long)]
    without_own: bool,
    /// Arguments for cargo
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// What came of a check, in words.
pub(super) enum Outcome {
    Good(String),
    Bad(String),
    /// It could not be made, or has nothing to look at.
    Skipped(String),
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    build::is_plugin(&args.folder)?;
    check_manifest(&args.folder)?;
    let place = tempfile::Builder::new()
        .prefix("cardinal-plugin-test-")
        // The host's worker, which may have an account of its own, reads the plugin in there.
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .context("making a temporary folder")?;
    block_on(async {
        let mut stop = Stop::listen()?;
        let mut session = Session { args, place: place.path(), host: None, failed: 0 };
        let outcome = tokio::select! {
            () = stop.requested() => Err(anyhow::anyhow!("stopped before the end")),
            outcome = session.test() => outcome,
        };
        let ended = session.end(outcome.is_ok()).await;
        outcome.and(ended)?;
        let (text, code) = match session.failed {
            0 => ("\nall checks passed".to_owned(), ExitCode::SUCCESS),
            failed => (format!("\n{failed} failed"), ExitCode::FAILURE),
        };
        print_line(&text)?;
        Ok(code)
    })
}

struct Session<'a> {
    args: &'a Args,
    place: &'a Path,
    host: Option<OwnHost>,
    failed: usize,
}

impl Session<'_> {
    async fn test(&mut self) -> anyhow::Result<()> {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let host = self.host.insert(OwnHost::launch(self.place, listen, &SETTINGS)?);
        let profile = if self.args.release { Profile::Release } else { Profile::Debug };
        let (started, built) =
            tokio::join!(host.until_it_serves(), cargo::build(&self.args.folder, profile, &self.args.cargo));
        started?;
        let local = host.client();
        let Some(library) = built? else { bail!("the crate does not compile") };
        let item = self.load(&local, &library).await?;
        let url = own_host::url(self.place)?;
        let (client, key) = with_key(&local, &url, &["*"]).await?;
        let name = item["name"].as_str().unwrap_or_default();
        let own = ["read", "write"].map(|access| format!("plugin:{name}:{access}"));
        // Without `mcp:unattended`: tools that must be confirmed ask who calls with it.
        let (narrow, _) = with_key(&local, &url, &["mcp:use", &own[0], &own[1]]).await?;
        let card = json!({"sku": "TEST-1", "title": "A card for tests"});
        let card = client.ask(Method::POST, "/v1/admin/master-cards", Some(&card)).await?;
        let card = card["item"]["id"].as_str().context("the host returned no card")?.to_owned();
        let subject = Subject { client, item, card };
        let mut blocking = Blocking::default();
        self.note("routes", routes::check(&subject).await)?;
        // Before a swap or a reload begins anew with the count.
        blocking.look(&subject).await?;
        self.note("database", database_wall::check(self.place).await)?;
        self.note("frontend", frontend::check(&subject, &url, &key, self.place).await)?;
        self.note("tools", tools::check(&subject, &narrow).await)?;
        blocking.look(&subject).await?;
        self.note("swap", swap::check(&subject).await)?;
        self.note("panics", panics::check(&subject).await)?;
        blocking.look(&subject).await?;
        self.note("threads", Ok(blocking.outcome()))?;
        if !self.args.without_own {
            let database = own_host::database_url(self.place)?;
            let variables =
                [(URL_VARIABLE, url.as_str()), (KEY_VARIABLE, key.as_str()), (DATABASE_VARIABLE, database.expose())];
            let outcome = match cargo::test(&self.args.folder, &self.args.cargo, &variables).await? {
                true => Outcome::Good("the crate's own tests pass".to_owned()),
                false => Outcome::Bad("the crate's own tests fail; see cargo's output".to_owned()),
            };
            self.note("own tests", Ok(outcome))?;
        }
        Ok(())
    }

    /// The plugin's entry in the registry, once it is in service.
    async fn load(&self, client: &Client, library: &Path) -> anyhow::Result<Value> {
        let package = install::checked(library)?;
        let name = manifest::hints(&package.manifest).name.context("manifest.json has no plugin name")?;
        let placed = install::place(&package, library, &name, &own_host::plugins_dir(self.place))?;
        let sha256 = install::checked(&placed)?.sha256;
        client.ask(Method::POST, &format!("{REGISTRY}/rescan"), None).await?;
        match install::decided(client, &name, &sha256, LOAD_TIMEOUT).await? {
            (0, item) => Ok(item),
            (_, item) => bail!("the host refuses it: {}", describe(&item).trim_end()),
        }
    }

    /// A check that could not be made to its end is a bad one, too.
    fn note(&mut self, what: &str, outcome: anyhow::Result<Outcome>) -> anyhow::Result<()> {
        let (word, text) = match outcome.unwrap_or_else(|error| Outcome::Bad(format!("{error:#}"))) {
            Outcome::Good(text) => ("ok", text),
            Outcome::Skipped(text) => ("skipped", text),
            Outcome::Bad(text) => {
                self.failed += 1;
                ("FAILED", text)
            }
        };
        print_line(&format!("{word:<8} {what:<10} {}", plain_lines(&text).replace('\n', "\n                    ")))
    }

    /// Ends the host, which is a check of its own when the others came to their end.
    async fn end(&mut self, checked: bool) -> anyhow::Result<()> {
        let Some(host) = self.host.take() else { return Ok(()) };
        let ended = host.stop().await;
        if !checked {
            return Ok(());
        }
        let outcome = ended.map(|status| match status.success() {
            true => Outcome::Good("host and plugin stopped cleanly".to_owned()),
            false => Outcome::Bad(format!("the host exited with {status}: {}", own_host::last_words(self.place))),
        });
        self.note("end", outcome)
    }
}

/// A client with a new key that holds these scopes, and the key.
async fn with_key(local: &Client, url: &str, scopes: &[&str]) -> anyhow::Result<(Client, String)> {
    let body = json!({"name": format!("cardinal plugin test: {}", scopes.join(" ")), "scopes": scopes});
    let made = local.ask(Method::POST, "/v1/admin/api-keys", Some(&body)).await?;
    let key = made["key"].as_str().context("the host returned no key")?.to_owned();
    let remote = Remote { way: HostEndpoint::Address(url.parse()?), key: Some(Secret::new(key.clone())) };
    Ok((Client::new(&remote)?, key))
}

/// Some of a list, so that a line stays readable.
pub(super) fn some(list: &[String]) -> String {
    const MAX_SHOWN: usize = 5;
    let mut text = list.iter().take(MAX_SHOWN).map(|it| plain(it)).collect::<Vec<_>>().join("\n");
    if list.len() > MAX_SHOWN {
        text.push_str(&format!("\nand {} more", list.len() - MAX_SHOWN));
    }
    text
}
