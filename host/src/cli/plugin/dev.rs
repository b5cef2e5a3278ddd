mod curl;
mod folder;
mod lines;
mod watch;

use std::{
    fs,
    io::{ErrorKind, IsTerminal as _, Write as _},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use http::Method;
use serde_json::{Value, json};

use self::{
    curl::CurlLines,
    lines::Lines,
    watch::{Changes, Watch},
};
use super::{
    build,
    cargo::{self, Profile},
    check::check_manifest,
    install,
    own_host::{self, OwnHost},
    remote::{REGISTRY, block_on, reasons},
    stop::Stop,
};
use crate::cli::{
    client::{Client, RequestError},
    text::{plain, plain_lines, print_line},
};
use cardinal_base::config::ClientSettings;
use cardinal_package::{manifest, refusal::Refusal};

/// Of the crate: the host's data, plugins and log, and a key to it.
const OWN_FOLDER: &str = "target/cardinal";
const KEY_FILE: &str = "key";
/// How long a host may take to decide about a version.
const SWAP_TIMEOUT: Duration = Duration::from_secs(60);
const STAYS: &str = "; the running version stays";
const WAITING: &str = "; waiting for the next edit";

/// Build a plugin's crate and run it, again after each edit
///
/// Watches the crate's folder, and those of the crates that it depends on by path. What is saved is built, checked and
/// put in the place of the version that runs, without a failed request; frontend files and schema.sql need no build.
/// The version that runs stays when the next one does not compile or is refused. What the plugin logs as a warning or
/// an error is printed as it happens. The host is the one that is named, else the one of ./var/data if it runs, else
/// one that is started with a database of its own below target/cardinal and ends with this command. In the crate's
/// folder other commands, such as `cardinal plugin settings` and `logs`, find that host by themselves.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin dev
  cardinal plugin dev notes --data-dir /var/lib/cardinal
      in a host that runs on this machine
  cardinal plugin dev -- --offline
      with arguments for cargo")]
pub(super) struct Args {
    /// Folder of the crate
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Build with optimisation, which takes longer
    #[arg(long)]
    release: bool,
    /// Address for a host that this command starts; another port is used if it is taken
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    #[command(flatten)]
    host: ClientSettings,
    /// Arguments for cargo
    #[arg(last = true)]
    cargo: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    build::is_plugin(&args.folder)?;
    let folder = args.folder.canonicalize().with_context(|| format!("looking for {}", args.folder.display()))?;
    block_on(async {
        let mut stop = Stop::listen()?;
        let mut session = Session { args, folder, host: None, client: None, running: None, lines: Lines::default() };
        let outcome = tokio::select! {
            () = stop.requested() => Ok(()),
            outcome = session.develop() => outcome,
        };
        let ended = session.end().await;
        outcome.and(ended).map(|()| ExitCode::SUCCESS)
    })
}

struct Session<'a> {
    args: &'a Args,
    folder: PathBuf,
    /// Where this command has started it.
    host: Option<OwnHost>,
    client: Option<Arc<Client>>,
    running: Option<Running>,
    lines: Lines,
}

/// What was put into the host.
struct Running {
    name: String,
    place: PathBuf,
    sha256: String,
    /// It was there before this command.
    replaced: bool,
}

/// How long the steps of a change took.
struct Times {
    /// The edit; none before the first.
    since: Option<Instant>,
    build: Option<Duration>,
}

impl Session<'_> {
    /// Until it is stopped.
    async fn develop(&mut self) -> anyhow::Result<()> {
        let mut watch = Watch::new(&self.folder);
        let mut changes: Option<Changes> = None;
        let mut library = None;
        let plugins = self.find_host().await?;
        let mut greeted = false;
        loop {
            let mut times = Times { since: changes.as_ref().map(|changes| changes.at), build: None };
            // In a moment, where the compiler would take seconds to say so.
            if let Err(error) = check_manifest(&self.folder) {
                library = None;
                print_line(&failure(&error, self.stays()))?;
                changes = Some(watch.changed().await);
                continue;
            }
            if changes.as_ref().is_none_or(|changes| !changes.only_carried) || library.is_none() {
                let started = Instant::now();
                if library.is_none() || changes.as_ref().is_some_and(|changes| changes.dependencies) {
                    watch.depend_on(cargo::local_dependencies(&self.folder).await);
                }
                let profile = if self.args.release { Profile::Release } else { Profile::Debug };
                let built = cargo::build(&self.folder, profile, &self.args.cargo).await?;
                times.build = Some(started.elapsed());
                library = built;
            }
            match &library {
                Some(library) => {
                    // What is wrong with a version is the author's to correct: the next change is waited for.
                    match self.swap(library, &plugins, &times).await {
                        Ok(()) => {}
                        Err(error) if error.is::<RequestError>() => return Err(error),
                        Err(error) => print_line(&failure(&error, self.stays()))?,
                    }
                }
                None => print_line(&format!("did not compile{}", self.stays()))?,
            }
            if !greeted && self.running.is_some() {
                greeted = true;
                self.greet().await?;
            }
            changes = Some(watch.changed().await);
        }
    }

    /// The host's folder of plugins; starts a host where there is none.
    async fn find_host(&mut self) -> anyhow::Result<PathBuf> {
        let own = self.folder.join(OWN_FOLDER);
        let named = Client::new(&self.args.host.read_for(&self.folder)?)?;
        match install::find_folder(&named).await {
            Ok(plugins) => {
                self.client = Some(Arc::new(named));
                return Ok(plugins);
            }
            Err(failure) if self.args.host.is_named() || !is_unreachable(&failure) => return Err(failure),
            Err(_) => {}
        }
        // Another `plugin dev` of this crate has it.
        let neighbour = Client::local(&own_host::data_dir(&own));
        if let Ok(plugins) = install::find_folder(&neighbour).await {
            self.client = Some(Arc::new(neighbour));
            return Ok(plugins);
        }
        print_line("starting a host")?;
        let levels = own_host::log_levels(&self.folder)?;
        let settings: Vec<(&str, &str)> = levels.iter().map(|levels| ("LOG_LEVEL", levels.as_str())).collect();
        // Kept before it is waited for: it is ended in order, whenever this command is stopped.
        let host = self.host.insert(OwnHost::launch(&own, own_host::free_address(self.args.listen), &settings)?);
        host.until_it_serves().await?;
        self.client = Some(Arc::new(host.client()));
        Ok(own_host::plugins_dir(&own))
    }

    /// Puts the plugin as it is now into the host and says what came of it.
    async fn swap(&mut self, library: &Path, plugins: &Path, times: &Times) -> anyhow::Result<()> {
        let started = Instant::now();
        let package = folder::package(&self.folder, library)?;
        let name = manifest::hints(&package.manifest).name.context("manifest.json has no plugin name")?;
        let client = self.client.as_ref().context("there is no host")?;
        let replaced = match &self.running {
            Some(running) if running.name != name => {
                install::remove(&running.place)?;
                false
            }
            Some(running) => running.replaced,
            None => !install::find_packages(&name, plugins)?.is_empty(),
        };
        // The host may see the files before it is told of them.
        let swap = self.lines.begin_swap();
        let place = install::place(&package, &self.folder, &name, plugins)?;
        // As the host sees it: the folder's name is part of the hash.
        let sha256 = install::checked(&place)?.sha256;
        let before = self.running.replace(Running { name: name.clone(), place, sha256: sha256.clone(), replaced });
        if before.is_some_and(|before| before.sha256 == sha256) {
            return print_line("no change to what runs");
        }
        self.lines.follow(client, &name);
        client.ask(Method::POST, &format!("{REGISTRY}/rescan"), None).await?;
        let decided = install::decided(client, &name, &sha256, SWAP_TIMEOUT).await;
        let found = decided.as_ref().ok().and_then(|(_, item)| item["refusal"]["found"].as_str());
        swap.end(found);
        let (code, item) = decided?;
        if code != 0 {
            let why = reasons(&item);
            return print_line(&format!("{} was refused{}\n{}", plain(&name), stays(&item), why.trim_end()));
        }
        let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
        let build = times.build.map(|time| format!("build {}, ", seconds(time))).unwrap_or_default();
        let all = times.since.map(|since| format!("edit → live {} s: ", seconds(since.elapsed()))).unwrap_or_default();
        let (version, swap) = (item["version"].as_str().unwrap_or_default(), seconds(started.elapsed()));
        print_line(&format!("{} {} is live: {all}{build}swap {swap}", plain(&name), plain(version)))
    }

    fn stays(&self) -> &'static str {
        if self.running.is_some() { STAYS } else { WAITING }
    }

    /// Where the host is, and how the plugin is asked.
    async fn greet(&self) -> anyhow::Result<()> {
        let (Some(client), Some(running)) = (&self.client, &self.running) else { return Ok(()) };
        let own = self.folder.join(OWN_FOLDER);
        if self.host.is_some() {
            let url = own_host::url(&own)?;
            print_line(&format!("\nAdmin UI  {url}/admin/{}", first_login(&own)))?;
            print_line(&format!("Log       {}", own_host::log_file(&own).display()))?;
            let key = key(client, &own).await?;
            let registry = client.get(REGISTRY).await?;
            let items = registry["items"].as_array().into_iter().flatten();
            let card = any_card(client).await?;
            let curl = CurlLines { url: &url, key: &key, card: card.as_deref() };
            for line in items.filter(|item| item["name"] == *running.name).flat_map(|item| curl.lines_for(item)) {
                print_line(&line)?;
            }
        }
        print_line("Watching for edits; Ctrl+C ends it.\n")
    }

    /// Leaves a host that was there before as it was, as far as that is possible, and ends one of its own.
    async fn end(&mut self) -> anyhow::Result<()> {
        self.lines.stop();
        if let Some(host) = self.host.take() {
            print_line("\nstopping the host")?;
            return host.stop().await.map(|_| ());
        }
        let (Some(client), Some(running)) = (&self.client, &self.running) else { return Ok(()) };
        if running.replaced {
            return print_line(&format!(
                "\n{} stays in the host as it is: {}",
                plain(&running.name),
                running.place.display()
            ));
        }
        install::remove(&running.place)?;
        // A host that is gone looks when it starts.
        let _ = client.ask(Method::POST, &format!("{REGISTRY}/rescan"), None).await;
        print_line(&format!("\n{} was removed from the host; its tables stay", plain(&running.name)))
    }
}

/// Why a version was not swapped in, as one that the host refused is told.
fn failure(error: &anyhow::Error, stays: &str) -> String {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => {
            format!("the new version would be refused{stays}\n{}", reasons(&json!({"refusal": refusal})).trim_end())
        }
        None => format!("the new version cannot be swapped in{stays}\n{}", plain_lines(&format!("{error:#}"))),
    }
}

fn stays(item: &Value) -> &'static str {
    if item["state"] == "active" { STAYS } else { WAITING }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<RequestError>(), Some(RequestError::Unreachable { .. }))
}

/// The first user, whose password stands in a file until it is changed.
fn first_login(own: &Path) -> String {
    let file = own_host::data_dir(own).join("bootstrap-password");
    match fs::read_to_string(&file) {
        Ok(password) if std::io::stdout().is_terminal() => format!("  (admin, {})", plain(password.trim())),
        Ok(_) => format!("  (admin, password in {})", file.display()),
        Err(_) => String::new(),
    }
}

/// The file with a key to the host, made once.
async fn key(client: &Client, own: &Path) -> anyhow::Result<PathBuf> {
    let file = own.join(KEY_FILE);
    let mut options = fs::OpenOptions::new();
    let mut opened = match options.write(true).create_new(true).mode(0o600).open(&file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(file),
        opened => opened.with_context(|| format!("making {}", file.display()))?,
    };
    let body = json!({"name": "cardinal plugin dev", "scopes": ["*"]});
    let made = client.ask(Method::POST, "/v1/admin/api-keys", Some(&body)).await?;
    let key = made["key"].as_str().context("the host returned no key")?;
    ensure!(writeln!(opened, "{key}").is_ok(), "{} cannot be written", file.display());
    Ok(file)
}

/// The id of any card of the host's.
async fn any_card(client: &Client) -> anyhow::Result<Option<String>> {
    let page = client.get("/v1/admin/master-cards?limit=1").await?;
    Ok(page["items"][0]["id"].as_str().map(plain))
}

#[cfg(test)]
mod tests {
    use cardinal_base::config::DEV_DATA_DIR;
    use cardinal_package::refusal::Code;

    use super::*;

    #[test]
    fn other_commands_look_for_the_host_where_this_one_keeps_it() {
        assert_eq!(own_host::data_dir(Path::new(OWN_FOLDER)), Path::new(DEV_DATA_DIR));
    }

    #[test]
    fn a_refusal_is_told_in_lines_and_the_running_version_on_the_first() {
        let refusal = Refusal::new(Code::SchemaUnsafe, "No.").found("CREATE TRIGGER.").fix("Take it out.");
        let text = failure(&anyhow::Error::new(refusal).context("libnotes.so"), STAYS);
        let expected = "the new version would be refused; the running version stays\n  why       schema-unsafe: No.\n  \
             found     CREATE TRIGGER.\n  to do     Take it out.";
        assert_eq!(text, expected);
        let text = failure(&anyhow::anyhow!("a file is gone.").context("reading schema.sql"), WAITING);
        assert_eq!(
            text,
            "the new version cannot be swapped in; waiting for the next edit\nreading schema.sql: a file is gone."
        );
    }
}
