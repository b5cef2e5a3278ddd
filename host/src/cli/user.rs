//! Commands on accounts: the way back in for whoever has the machine.

use std::fs;
use std::io::{ErrorKind, Write as _};

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    direct::{self, Direct, explain},
    password::{NewPassword, PasswordArgs},
    table::table,
    text::plain,
};
use cardinal_base::{
    config::{Config, DatabaseSettings},
    secret_file::BOOTSTRAP_PASSWORD_FILE,
};
use cardinal_identity::{
    auth::{authority::ROLES, password::Hasher, username},
    error::AuthError,
};
use cardinal_serve::{api::users as shown, audit::AuditAction};
use cardinal_store::users::{
    self,
    accounts::{self, Account, Change, Filter},
};

/// Accounts that are asked for at once.
const PAGE: i64 = 200;

/// List, create and change accounts; set a lost password
///
/// On the host's own machine, beside a running host and with the host stopped. No credential is needed but the right to
/// read the host's files or its DATABASE_URL. Each change is in the audit log as `local`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  cardinal user list
  cardinal user set-password admin")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(List),
    Create(Create),
    SetPassword(SetPassword),
    SetRole(SetRole),
    Disable(Disable),
    Enable(Enable),
}

/// What each of them takes.
#[derive(Debug, clap::Args)]
struct Common {
    /// Print the account as JSON, as the API shows it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: DatabaseSettings,
}

/// List the accounts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal user list
  cardinal user list --data-dir /var/lib/cardinal --json | jq -r '.items[] | select(.role == \"owner\") | .username'")]
struct List {
    #[command(flatten)]
    common: Common,
}

/// Create an account with a password
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal user create alice --role editor
  cardinal user create backup-owner --role owner --generate > password")]
struct Create {
    /// Name to log in with
    name: String,
    /// What the account may do
    #[arg(long, default_value = "viewer", value_parser = PossibleValuesParser::new(ROLES))]
    role: String,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    common: Common,
}

/// Set the password of an account, and end its logins
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal user set-password admin
  cardinal user set-password admin --generate
  pass show cardinal | cardinal user set-password admin --password-file -")]
struct SetPassword {
    /// Name or id of the account
    name: String,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    common: Common,
}

/// Set the role of an account, and end its logins
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  cardinal user set-role alice admin")]
struct SetRole {
    /// Name or id of the account
    name: String,
    /// What the account may do
    #[arg(value_parser = PossibleValuesParser::new(ROLES))]
    role: String,
    #[command(flatten)]
    common: Common,
}

/// Disable an account: its logins end, its keys are refused
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  cardinal user disable alice")]
struct Disable {
    /// Name or id of the account
    name: String,
    #[command(flatten)]
    common: Common,
}

/// Enable an account that was disabled
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  cardinal user enable alice")]
struct Enable {
    /// Name or id of the account
    name: String,
    #[command(flatten)]
    common: Common,
}

/// What a command prints: JSON, or words of which a generated password alone is standard output.
struct Done {
    item: Value,
    password: Option<NewPassword>,
    words: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::List(args) => args.run(),
        Command::Create(args) => args.run(),
        Command::SetPassword(args) => args.run(),
        Command::SetRole(args) => {
            let change = Change { role: Some(Some(args.role.clone())), ..Change::default() };
            args.common.change(&args.name, change, &format!("is {} now", args.role))
        }
        Command::Disable(args) => {
            let change = Change { disabled: Some(true), ..Change::default() };
            args.common.change(&args.name, change, "is disabled")
        }
        Command::Enable(args) => {
            let change = Change { disabled: Some(false), ..Change::default() };
            args.common.change(&args.name, change, "is enabled")
        }
    }
}

impl List {
    fn run(&self) -> anyhow::Result<()> {
        let accounts = Direct::run(&direct::begin(&self.common.database)?, async |direct| all(direct).await)?;
        let text = if self.common.json {
            let items: Vec<_> = accounts.iter().map(shown::show).collect();
            serde_json::to_string_pretty(&json!({"items": items}))? + "\n"
        } else {
            let lines: Vec<[String; 5]> = accounts.iter().map(line).collect();
            table(["NAME", "ROLE", "KIND", "STATE", "ID"], &lines)
        };
        std::io::stdout().write_all(text.as_bytes()).context("writing to standard output")
    }
}

/// Every account, newest first.
pub(super) async fn all(direct: &Direct) -> anyhow::Result<Vec<Account>> {
    let mut accounts = Vec::new();
    loop {
        let last = accounts.last().map(|account: &Account| account.id);
        let page = accounts::list(&direct.pool, &Filter::default(), last, PAGE).await.map_err(explain)?;
        let is_last = page.len() < usize::try_from(PAGE)?;
        accounts.extend(page);
        if is_last {
            return Ok(accounts);
        }
    }
}

fn line(account: &Account) -> [String; 5] {
    let state = match (account.disabled_at, account.has_password || account.kind != "user") {
        (Some(_), _) => "disabled",
        (None, true) => "enabled",
        (None, false) => "no password",
    };
    let role = account.role.clone().unwrap_or_else(|| "-".to_owned());
    [account.username.clone(), role, account.kind.clone(), state.to_owned(), account.id.to_string()]
}

impl Create {
    fn run(&self) -> anyhow::Result<()> {
        let config = direct::begin(&self.common.database)?;
        let name = username::check(&self.name, "/username").map_err(explain)?;
        let password = self.password.read(&name)?;
        let account = Direct::run(&config, async |direct| {
            let hash = Hasher::default().hash(password.secret.clone()).await.map_err(explain)?;
            let made = accounts::create(&direct.pool, &name, &self.role, Some(&hash)).await.map_err(explain)?;
            let detail = json!({"username": made.username, "role": self.role});
            direct.record(AuditAction::CreateUser, made.id.to_string(), detail).await;
            Ok(made)
        })?;
        let words = format!("{} is created as {}.", plain(&account.username), self.role);
        let item = serde_json::to_value(shown::show(&account))?;
        print(&Done { item, password: Some(password), words }, self.common.json)
    }
}

impl SetPassword {
    fn run(&self) -> anyhow::Result<()> {
        let config = direct::begin(&self.common.database)?;
        let (account, password) = Direct::run(&config, async |direct| {
            let user = find(direct, &self.name).await?;
            takes_password(&user).map_err(explain)?;
            // The terminal is asked last: a password for an account that is not there would be typed in vain.
            let password = self.password.read(&user.username)?;
            let hash = Hasher::default().hash(password.secret.clone()).await.map_err(explain)?;
            let change = Change { password_hash: Some(hash), ..Change::default() };
            let account = change_account(direct, user.id, change).await?;
            if users::first(&direct.pool).await.map_err(explain)?.is_some_and(|first| first.id == account.id) {
                remove_first_password(&config)?;
            }
            Ok((account, password))
        })?;
        let name = plain(&account.username);
        let mut words = format!("The password of {name} is set; all logins of {name} have ended.");
        if account.disabled_at.is_some() {
            words.push_str(&format!("\n{name} is disabled: `cardinal user enable {name}` lets it in again."));
        }
        let item = serde_json::to_value(shown::show(&account))?;
        print(&Done { item, password: Some(password), words }, self.common.json)
    }
}

impl Common {
    fn change(&self, name: &str, change: Change, outcome: &str) -> anyhow::Result<()> {
        let account = Direct::run(&direct::begin(&self.database)?, async |direct| {
            let id = find(direct, name).await?.id;
            change_account(direct, id, change).await
        })?;
        let words = format!("{} {outcome}.", plain(&account.username));
        let item = serde_json::to_value(shown::show(&account))?;
        print(&Done { item, password: None, words }, self.json)
    }
}

/// By name, else by id: two users of identity providers may have the same name.
async fn find(direct: &Direct, name: &str) -> anyhow::Result<Account> {
    let by_name = users::by_login(&direct.pool, name.trim()).await.map_err(explain)?.map(|user| user.id);
    let account = match by_name.or_else(|| Uuid::try_parse(name).ok()) {
        Some(id) => accounts::get(&direct.pool, id).await.map_err(explain)?,
        None => None,
    };
    account.with_context(|| format!("there is no account {name:?}: `cardinal user list` shows their names and ids"))
}

async fn change_account(direct: &Direct, id: Uuid, change: Change) -> anyhow::Result<Account> {
    let sets_password = change.password_hash.is_some();
    let check = |account: &Account| match sets_password {
        true => takes_password(account),
        false => is_changed_by_people(account),
    };
    let changed = accounts::change(&direct.pool, id, change, check).await.map_err(explain)?.map_err(explain)?;
    let changed = changed.context("the account was removed in the meantime")?;
    let detail = shown::difference(&changed, sets_password);
    direct.record(AuditAction::UpdateUser, id.to_string(), detail).await;
    Ok(changed.after)
}

fn is_changed_by_people(account: &Account) -> Result<(), AuthError> {
    match account.kind.as_str() {
        "plugin" => Err(AuthError::Forbidden("Users of plugins are managed by the host.")),
        _ => Ok(()),
    }
}

fn takes_password(account: &Account) -> Result<(), AuthError> {
    is_changed_by_people(account)?;
    match account.kind.as_str() {
        "user" => Ok(()),
        _ => Err(AuthError::Forbidden("The passwords of these users are managed by the identity provider.")),
    }
}

/// It lets nobody in any more.
fn remove_first_password(config: &Config) -> anyhow::Result<()> {
    let file = config.paths.data_dir.join(BOOTSTRAP_PASSWORD_FILE);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn print(done: &Done, json: bool) -> anyhow::Result<()> {
    let generated = done.password.as_ref().filter(|password| password.is_generated);
    if json {
        let mut shown = json!({"item": done.item});
        if let Some(password) = generated {
            shown["password"] = json!(password.secret.expose());
        }
        return writeln!(std::io::stdout(), "{shown:#}").context("writing to standard output");
    }
    match generated {
        Some(password) => {
            let _ = writeln!(std::io::stderr(), "{}", done.words);
            writeln!(std::io::stdout(), "{}", password.secret.expose()).context("writing to standard output")
        }
        None => writeln!(std::io::stdout(), "{}", done.words).context("writing to standard output"),
    }
}
