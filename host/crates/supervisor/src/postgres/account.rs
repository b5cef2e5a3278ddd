//! Which user of the system the server runs as: PostgreSQL refuses to run as root.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};

use cardinal_base::account::{ACCOUNTS_FILE, Account, find};

const CANDIDATES: [&str; 2] = ["postgres", "nobody"];
const ROOT: u32 = 0;

/// `None` when we run as an ordinary user, who is then the server's too. Data that is there already keeps its owner.
///
/// # Errors
/// The data belongs to an account that we cannot become, or this system has no unprivileged one.
pub(crate) fn for_server(cluster: &Path) -> anyhow::Result<Option<Account>> {
    let me = rustix::process::geteuid().as_raw();
    let owner = match std::fs::metadata(cluster) {
        Ok(found) => Some(Account { user: found.uid(), group: found.gid() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            bail!(
                "{} belongs to another user: start cardinal as the user who created it, or as root",
                cluster.display()
            )
        }
        Err(error) => return Err(error).with_context(|| format!("looking at {}", cluster.display())),
    };
    match owner {
        _ if me != ROOT => match owner {
            Some(owner) if owner.user != me => bail!(
                "{} belongs to the user with id {}, this is {me}: start cardinal as the user who created it, or as \
                 root",
                cluster.display(),
                owner.user
            ),
            _ => Ok(None),
        },
        Some(owner) if owner.user != ROOT => Ok(Some(owner)),
        _ => unprivileged().map(Some),
    }
}

/// The server looks its own user up, so only one that the system knows by name will do.
fn unprivileged() -> anyhow::Result<Account> {
    let accounts = std::fs::read_to_string(ACCOUNTS_FILE).with_context(|| format!("reading {ACCOUNTS_FILE}"))?;
    let known = CANDIDATES.iter().find_map(|name| find(&accounts, name));
    known.context("PostgreSQL does not run as root, and this system has neither a user postgres nor a user nobody")
}
