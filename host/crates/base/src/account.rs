//! Users of the system, by number, and the ones that the worker of a host that was started as root may run as.

use std::ops::RangeInclusive;

pub const ACCOUNTS_FILE: &str = "/etc/passwd";
const ROOT: u32 = 0;
/// A system account of this name is the worker's, where there is one (`useradd --system cardinal`).
const WORKER_NAME: &str = "cardinal";
/// A person's account that happens to have that name is not.
const SYSTEM_ACCOUNTS: RangeInclusive<u32> = 1..=999;
/// The worker's number on a system without such an account; it needs no name. No allocator hands it out: Debian's and
/// systemd's lists leave 60578 to 61183 free (systemd's dynamic users begin at 61184), and containers with a user
/// namespace have numbers up to 65535 only.
const WORKER_NUMBER: u32 = 61_080;

/// A user and group of the system, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub user: u32,
    pub group: u32,
}

/// The unprivileged user of this name in the text of `/etc/passwd`.
pub fn find(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let user = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(Account { user, group }).filter(|account| account.user != ROOT)
}

/// Accounts that a root host's worker may run as, the preferred one first.
pub fn worker_accounts() -> Vec<Account> {
    candidates(&std::fs::read_to_string(ACCOUNTS_FILE).unwrap_or_default())
}

fn candidates(accounts: &str) -> Vec<Account> {
    let named = find(accounts, WORKER_NAME).filter(|it| SYSTEM_ACCOUNTS.contains(&it.user) && it.group != ROOT);
    let numbered = Account { user: WORKER_NUMBER, group: WORKER_NUMBER };
    named.into_iter().chain([numbered]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let accounts =
            "root:x:0:0::/root:/bin/sh\npostgres-old:x:5:5::/:\npostgres:x:105:112:PG:/var/lib/pg:/bin/bash\n";
        assert_eq!(find(accounts, "postgres"), Some(Account { user: 105, group: 112 }));
        assert_eq!(find(accounts, "nobody"), None);
        assert_eq!(find("nobody:x:0:0::/:", "nobody"), None);
    }

    #[test]
    fn a_system_account_of_the_name_is_preferred_and_a_persons_is_not_taken() {
        let numbered = Account { user: WORKER_NUMBER, group: WORKER_NUMBER };
        assert_eq!(candidates(""), [numbered]);
        assert_eq!(candidates("cardinal:x:998:997::/:\n"), [Account { user: 998, group: 997 }, numbered]);
        for not_ours in ["cardinal:x:1000:1000::/home/c:\n", "cardinal:x:998:0::/:\n", "cardinal:x:0:0::/:\n"] {
            assert_eq!(candidates(not_ours), [numbered], "{not_ours}");
        }
    }
}
