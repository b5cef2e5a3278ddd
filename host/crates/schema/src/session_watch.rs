//! A watch over what plugins' run-time logins lock. A server has one table of locks for everybody, in which each writer
//! and each login needs a place, and no setting bounds how much of it one session takes. So sessions of a login with
//! too much of it are ended, as are those that keep the host's own sessions waiting for a whole table (`LOCK TABLE`).
//!
//! It stands outside of the plugin's reach: in the supervisor, with the provisioner's login.

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio_postgres::{Client, Statement};

use crate::{
    keyed_tables::{KEYED, STRONG_MODES},
    sql_failure,
};

use cardinal_database::{
    connect::{self, APPLICATION_NAME, ConnectParams, SocketDir},
    roles::{self, RoleNames},
};

/// A session makes some 15,000 locks a second (savepoints that write, measured on PostgreSQL 15 and 18): between two
/// looks, and until it has ended, that is some thousand for each core, for which the private server has room.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks for sessions of logins that are closed.
const CLOSED_LOOK_INTERVAL: Duration = Duration::from_secs(1);
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// For one look, with what it ends. The session is given up then.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// One login may have this share of the table of locks ...
const LOGIN_SHARE: i64 = 8;
/// ... or, in a small table, as many as this, but no more than a quarter: a query of a large partitioned table locks
/// each partition and index.
const MIN_LOGIN_LOCKS: i64 = 2_000;
const MAX_SMALL_SHARE: i64 = 4;
/// Open savepoints that have written, of all of a login's sessions: a removal of a card that asks a table of theirs
/// looks at each row of each, again and again.
const MAX_LOGIN_SAVEPOINTS: i64 = 2_000;
/// All plugins' logins together may have half of it.
const ALL_LOGINS_SHARE: i64 = 2;
/// With less room the watch may come too late.
const MIN_FREE_LOCKS: i64 = 60_000;

/// Places in the table of locks. Locks that a session keeps to itself (`fastpath`) need none; those of SERIALIZABLE
/// have a table of their own.
const CAPACITY: &str = "
    SELECT pg_catalog.current_setting('max_locks_per_transaction')::bigint * (pg_catalog.current_setting('max_connections')::bigint
      + pg_catalog.current_setting('autovacuum_max_workers')::bigint + pg_catalog.current_setting('max_worker_processes')::bigint
      + pg_catalog.current_setting('max_wal_senders')::bigint + pg_catalog.current_setting('max_prepared_transactions')::bigint + 1)";
/// Without a join: this is what runs all the time.
const LOOK: &str = "
    SELECT pg_catalog.count(*) FILTER (WHERE NOT fastpath AND mode <> 'SIReadLock') AS locks,
           pg_catalog.count(*) FILTER (WHERE locktype = 'transactionid' AND granted) AS savepoints,
           pg_catalog.count(*) FILTER (WHERE NOT granted AND waitstart < pg_catalog.clock_timestamp()
             - CASE locktype WHEN 'relation' THEN interval '20 ms' WHEN 'transactionid' THEN interval '1 s'
               WHEN 'object' THEN interval '200 ms' END) AS waits
    FROM pg_catalog.pg_lock_status()";
const LOGINS: &str = "
    SELECT a.usename::text AS role, pg_catalog.array_agg(DISTINCT l.pid) AS sessions, pg_catalog.count(*) AS locks,
           pg_catalog.count(*) FILTER (WHERE l.locktype = 'transactionid' AND l.granted) AS savepoints
    FROM pg_catalog.pg_lock_status() l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
    WHERE NOT l.fastpath AND l.mode <> 'SIReadLock' AND pg_catalog.starts_with(a.usename::text, $1) GROUP BY 1";
/// Plugins' sessions that keep others waiting: for a second the host's own logins ($2), or what starts, backs up and
/// steps (any other login that says it is a host's, also for a role that is being altered), or at all the schema step
/// of another plugin for a relation of that plugin's schema, where they have no business ($3 is what the names of those
/// logins begin with; PostgreSQL locks a sequence before it refuses `nextval`). Whoever has locked another table with a
/// key to the cards would be waited for next, so all of them are found at once. How long they have it, this login may
/// not see.
///
/// Whoever waits for an object of another kind, a login that is not listed yet included, waits for the database itself
/// or a role: a plugin has no business to lock those for long, and can by statements that ask for the lock before the
/// right (`DROP DATABASE`). One that waits for such a lock itself is ended after a second, before anybody wants to log
/// in: it could outlive its host, and then the next one would wait for it at its start, where nobody watches.
///
/// While anybody waits for a relation, those that hold a lock of a writer on a table of the core are found, too: they
/// have no right to write there, and got it by `PREPARE`, which locks what it names and asks for rights when it is
/// executed.
static BLOCKERS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
    WITH RECURSIVE {KEYED},
    waiting AS MATERIALIZED (
      SELECT w.pid, v.usename::text AS role FROM pg_catalog.pg_lock_status() w LEFT JOIN pg_catalog.pg_stat_activity v ON v.pid = w.pid
      WHERE NOT w.granted
      AND (w.locktype = 'object' AND NOT pg_catalog.starts_with(coalesce(v.usename::text, ''), $1)
              AND w.waitstart < pg_catalog.clock_timestamp() - interval '200 ms'
           OR v.usename::text = ANY ($2) AND w.locktype = 'relation' AND w.waitstart < pg_catalog.clock_timestamp() - interval '1 s'
           OR v.application_name = '{APPLICATION_NAME}' AND v.usename::text <> ALL ($2) AND w.locktype IN ('relation', 'transactionid')
              AND NOT pg_catalog.starts_with(v.usename::text, $1) AND NOT pg_catalog.starts_with(v.usename::text, $3)
              AND w.waitstart < pg_catalog.clock_timestamp() - interval '1 s'
           OR w.locktype = 'relation' AND pg_catalog.starts_with(v.usename::text, $3) AND EXISTS (
             SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.oid = w.relation AND n.nspname = 'plugin_' || pg_catalog.substr(v.usename::text, pg_catalog.length($3) + 1)))
    ),
    holders (pid, waiting) AS (
      SELECT p.pid, w.role FROM waiting w, pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) p (pid)
      UNION
      SELECT l.pid, NULL FROM pg_catalog.pg_lock_status() l JOIN keyed k ON k.relation = l.relation JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
      WHERE EXISTS (SELECT FROM waiting WHERE role = ANY ($2)) AND a.datname = pg_catalog.current_database() AND l.locktype = 'relation'
      AND l.mode IN {STRONG_MODES}
      UNION
      SELECT l.pid, NULL FROM pg_catalog.pg_lock_status() l
      WHERE l.locktype = 'object' AND NOT l.granted AND l.waitstart < pg_catalog.clock_timestamp() - interval '1 s'
      UNION
      SELECT l.pid, NULL FROM pg_catalog.pg_lock_status() l
      JOIN pg_catalog.pg_database d ON d.oid = l.database AND d.datname = pg_catalog.current_database()
      JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relnamespace = 'public'::pg_catalog.regnamespace
      WHERE l.locktype = 'relation' AND l.granted AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
    )
    SELECT b.usename::text AS role, pg_catalog.array_agg(DISTINCT b.pid) AS sessions
    FROM holders h JOIN pg_catalog.pg_stat_activity b ON b.pid = h.pid
    WHERE pg_catalog.starts_with(b.usename::text, $1)
    AND pg_catalog.substr(b.usename::text, pg_catalog.length($1) + 1)
        IS DISTINCT FROM CASE WHEN pg_catalog.starts_with(h.waiting, $3) THEN pg_catalog.substr(h.waiting, pg_catalog.length($3) + 1) END
    GROUP BY 1"
    )
});
/// Sessions of logins that nobody may use any more. One that asks for `post_auth_delay` as it logs in is not listed
/// until that is over, and so may not have been ended with the others.
const CLOSED: &str = "
    SELECT r.rolname::text AS role, pg_catalog.array_agg(a.pid) AS sessions
    FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_roles r ON r.oid = a.usesysid
    WHERE pg_catalog.starts_with(r.rolname::text, $1) AND NOT r.rolcanlogin AND a.datname = pg_catalog.current_database()
    GROUP BY 1";
const SESSIONS: &str =
    "SELECT coalesce(pg_catalog.array_agg(pid), '{}') FROM pg_catalog.pg_stat_activity WHERE usename::text = $1";

/// A session that was to end and is still there after this long does not end by itself: PostgreSQL cannot interrupt
/// what it does.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// A login whose sessions kept cards from being removed so many times ...
const MAX_ENDINGS: usize = 5;
/// ... within this time ...
const ENDINGS_WINDOW: Duration = Duration::from_secs(60);
/// ... is closed for so long.
const CLOSED_SECONDS: i32 = 60;

/// What a run-time login has of the table of locks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LoginLocks {
    role: String,
    sessions: Vec<i32>,
    locks: i64,
    /// Of the locks, those of open savepoints that have written.
    savepoints: i64,
}

impl LoginLocks {
    fn excess(&self, capacity: i64) -> String {
        if self.savepoints > MAX_LOGIN_SAVEPOINTS {
            let count = self.savepoints;
            return format!("it had {count} open savepoints that wrote, and a plugin may have {MAX_LOGIN_SAVEPOINTS}");
        }
        let limit = max_login_locks(capacity);
        format!("it held {} locks, and a plugin may have {limit}", self.locks)
    }
}

/// Watches as long as it is polled. A database that is away is waited for.
pub async fn watch(provisioner: ConnectParams, names: RoleNames) {
    let mut is_known = false;
    loop {
        let error = match Watch::open(&provisioner, &names, &mut is_known).await {
            Ok(watch) => watch.run().await,
            Err(error) => error,
        };
        tracing::debug!(error = format!("{error:#}"), "restarting the watch over plugins' locks");
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

struct Watch<'a> {
    session: Client,
    look: Statement,
    names: &'a RoleNames,
    capacity: i64,
    endings: Mutex<Endings>,
    _socket: SocketDir,
}

/// What was done about sessions that kept cards from being removed.
#[derive(Default)]
struct Endings {
    /// When a session was to end, and whether it was logged that it does not.
    requested: HashMap<i32, (Instant, bool)>,
    /// By login, the last times.
    times: HashMap<String, VecDeque<Instant>>,
}

/// What to do about the sessions of one login that keep cards from being removed.
#[derive(Debug, Default, PartialEq, Eq)]
struct SessionActions {
    end: Vec<i32>,
    stuck: Vec<i32>,
    is_closed: bool,
}

impl Endings {
    fn decide(&mut self, role: &str, sessions: &[i32], now: Instant) -> SessionActions {
        self.requested.retain(|_, (requested_at, _)| now - *requested_at < ENDINGS_WINDOW);
        let mut verdict = SessionActions::default();
        for pid in sessions {
            match self.requested.get_mut(pid) {
                None => verdict.end.push(*pid),
                Some((requested_at, is_logged)) if now - *requested_at >= END_TIMEOUT && !*is_logged => {
                    *is_logged = true;
                    verdict.stuck.push(*pid);
                }
                Some(_) => {}
            }
        }
        if verdict.end.is_empty() {
            return verdict;
        }
        self.requested.extend(verdict.end.iter().map(|pid| (*pid, (now, false))));
        let times = self.times.entry(role.to_owned()).or_default();
        times.retain(|time| now - *time < ENDINGS_WINDOW);
        times.push_back(now);
        if times.len() >= MAX_ENDINGS {
            times.clear();
            verdict.is_closed = true;
        }
        verdict
    }
}

impl<'a> Watch<'a> {
    async fn open(
        provisioner: &ConnectParams,
        names: &'a RoleNames,
        is_capacity_known: &mut bool,
    ) -> anyhow::Result<Self> {
        let socket = SocketDir::open(&provisioner.host, provisioner.port)?;
        let session = connect::connect(&provisioner.clone().through(&socket)).await?;
        let look = session.prepare(LOOK).await?;
        let capacity: i64 = session.query_one(CAPACITY, &[]).await?.try_get(0)?;
        if !std::mem::replace(is_capacity_known, true) && capacity < MIN_FREE_LOCKS {
            tracing::warn!(
                capacity,
                "the database's table of locks is small: a plugin could fill it before its sessions are ended, and cards could \
                 not be written meanwhile; raise max_locks_per_transaction, so that times max_connections it is {MIN_FREE_LOCKS} \
                 or more"
            );
        }
        Ok(Self { session, look, names, capacity, endings: Mutex::default(), _socket: socket })
    }

    /// Until the session fails.
    async fn run(&self) -> anyhow::Error {
        let mut looked_for_closed = Instant::now();
        loop {
            let look = async {
                self.look().await?;
                if looked_for_closed.elapsed() >= CLOSED_LOOK_INTERVAL {
                    looked_for_closed = Instant::now();
                    self.end_closed().await?;
                }
                anyhow::Ok(())
            };
            match tokio::time::timeout(LOOK_TIMEOUT, look).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(_) => return anyhow::anyhow!("a look took longer than {LOOK_TIMEOUT:?}"),
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn look(&self) -> anyhow::Result<()> {
        let row = self.session.query_one(&self.look, &[]).await.context("counting locks")?;
        let (locks, savepoints, waits): (i64, i64, i64) =
            (row.try_get("locks")?, row.try_get("savepoints")?, row.try_get("waits")?);
        if locks > max_login_locks(self.capacity) || savepoints > MAX_LOGIN_SAVEPOINTS {
            for login in excess(self.logins().await?, self.capacity) {
                self.end(&login.role, &login.sessions, &login.excess(self.capacity)).await?;
            }
        }
        if waits > 0 {
            self.end_blockers().await?;
        }
        Ok(())
    }

    async fn end_closed(&self) -> anyhow::Result<()> {
        let rows = self.session.query(CLOSED, &[&self.names.runtime_prefix()]).await;
        for row in rows.context("looking for sessions of closed logins")? {
            self.end(row.try_get("role")?, &row.try_get::<_, Vec<i32>>("sessions")?, "its login is closed").await?;
        }
        Ok(())
    }

    async fn logins(&self) -> anyhow::Result<Vec<LoginLocks>> {
        let rows =
            self.session.query(LOGINS, &[&self.names.runtime_prefix()]).await.context("counting plugins' locks")?;
        let login = |row: &tokio_postgres::Row| LoginLocks {
            role: row.get("role"),
            sessions: row.get("sessions"),
            locks: row.get("locks"),
            savepoints: row.get("savepoints"),
        };
        Ok(rows.iter().map(login).collect())
    }

    async fn end_blockers(&self) -> anyhow::Result<()> {
        let own = vec![self.names.core(), self.names.reaper()];
        let steps = self.names.schema_prefix();
        let rows = self.session.query(BLOCKERS.as_str(), &[&self.names.runtime_prefix(), &own, &steps]).await;
        for row in rows.context("looking who locks a table")? {
            let (role, sessions): (String, Vec<i32>) = (row.try_get("role")?, row.try_get("sessions")?);
            let SessionActions { end, stuck, is_closed } = self.decide(&role, &sessions);
            if !end.is_empty() {
                self.end(&role, &end, "it kept others waiting for what it had locked").await?;
            }
            if !stuck.is_empty() {
                let plugin = roles::plugin_from_role(&role).unwrap_or_default();
                tracing::warn!(
                    plugin,
                    sessions = ?stuck,
                    "database sessions of a plugin do not end: PostgreSQL cannot interrupt their statement; no card can be \
                     removed until it is done"
                );
            }
            if is_closed {
                self.close(&role).await?;
            }
        }
        Ok(())
    }

    fn decide(&self, role: &str, sessions: &[i32]) -> SessionActions {
        self.endings.lock().decide(role, sessions, Instant::now())
    }

    /// Takes the login away for a while; the schema step gives it back.
    async fn close(&self, role: &str) -> anyhow::Result<()> {
        let Some(name) = role.strip_prefix(&self.names.runtime_prefix()) else { return Ok(()) };
        let close = "SELECT cardinal.close_runtime_login($1, $2)";
        let plugin = roles::plugin_from_role(role).unwrap_or_default();
        match self.session.execute(close, &[&name, &CLOSED_SECONDS]).await {
            Ok(_) => {}
            Err(error) if sql_failure::lacks_function(&error) => {
                tracing::warn!(
                    plugin,
                    "the plugin's login stays open: run the output of `cardinal database bootstrap-sql`"
                );
                return Ok(());
            }
            Err(error) => return Err(anyhow::Error::new(error).context("closing a plugin's login")),
        }
        let row = self.session.query_one(SESSIONS, &[&role]).await.context("listing a plugin's sessions")?;
        let sessions: Vec<i32> = row.try_get(0)?;
        tracing::warn!(
            plugin,
            seconds = CLOSED_SECONDS,
            "closed a plugin's database login: its sessions kept others waiting {MAX_ENDINGS} times within {} s",
            ENDINGS_WINDOW.as_secs()
        );
        self.end(role, &sessions, "its login is closed").await
    }

    async fn end(&self, role: &str, sessions: &[i32], reason: &str) -> anyhow::Result<()> {
        let Some(name) = role.strip_prefix(&self.names.runtime_prefix()) else { return Ok(()) };
        let end = "SELECT cardinal.end_plugin_sessions($1, $2)";
        let row = self.session.query_one(end, &[&name, &sessions]).await.context("ending a plugin's sessions")?;
        let ended: i32 = row.try_get(0)?;
        let plugin = roles::plugin_from_role(role).unwrap_or_default();
        tracing::warn!(plugin, sessions = ended, reason, "ending database sessions of a plugin");
        Ok(())
    }
}

fn max_login_locks(capacity: i64) -> i64 {
    (capacity / LOGIN_SHARE).max(MIN_LOGIN_LOCKS.min(capacity / MAX_SMALL_SHARE))
}

/// The logins that have too much: each by itself, or, largest first, so many that the others fit.
fn excess(logins: Vec<LoginLocks>, capacity: i64) -> Vec<LoginLocks> {
    let has_too_many = |login: &LoginLocks| login.savepoints > MAX_LOGIN_SAVEPOINTS;
    let (mut ended, mut others): (Vec<_>, Vec<_>) = logins.into_iter().partition(has_too_many);
    others.sort_by_key(|login| std::cmp::Reverse(login.locks));
    let mut all: i64 = others.iter().map(|login| login.locks).sum();
    for login in others {
        if login.locks <= max_login_locks(capacity) && all <= capacity / ALL_LOGINS_SHARE {
            break;
        }
        all -= login.locks;
        ended.push(login);
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(locks: &[i64], capacity: i64) -> Vec<i64> {
        let login =
            |locks: &i64| LoginLocks { role: String::new(), sessions: Vec::new(), locks: *locks, savepoints: 0 };
        excess(locks.iter().map(login).collect(), capacity).iter().map(|login| login.locks).collect()
    }

    #[test]
    fn a_login_with_too_much_is_ended_and_no_other() {
        assert_eq!(ended(&[10, 12_501, 12_500], 100_000), [12_501]);
        assert_eq!(ended(&[12_500, 12_500, 100], 100_000), [] as [i64; 0]);
        assert_eq!(ended(&[], 100_000), [] as [i64; 0]);
    }

    #[test]
    fn logins_that_have_too_much_together_are_ended_from_the_largest_on() {
        assert_eq!(ended(&[11_000, 12_000, 12_000, 10_000, 9_000], 100_000), [12_000]);
        assert_eq!(ended(&[12_500; 6], 100_000), [12_500; 2]);
    }

    #[test]
    fn a_login_with_too_many_savepoints_is_ended_though_its_locks_are_few() {
        let login = |savepoints: i64| LoginLocks {
            role: savepoints.to_string(),
            sessions: Vec::new(),
            locks: savepoints + 4,
            savepoints,
        };
        let ended = excess(vec![login(100), login(2_000), login(2_001)], 100_000);
        assert_eq!(ended, [login(2_001)]);
        assert!(ended[0].excess(100_000).contains("2001 open savepoints"));
    }

    #[test]
    fn a_login_that_blocks_removals_again_and_again_is_closed() {
        let (mut endings, begun) = (Endings::default(), Instant::now());
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        for number in 0..4 {
            let verdict = endings.decide("p", &[number], at(number.try_into().unwrap_or_default()));
            assert_eq!(verdict, SessionActions { end: vec![number], ..SessionActions::default() });
        }
        assert!(!endings.decide("other", &[9], at(4)).is_closed);
        assert!(endings.decide("p", &[4], at(5)).is_closed);
        // Over and over, but with a minute between.
        assert!(!(0..9).any(|number| {
            endings.decide("slow", &[100 + number], at(20 * u64::from(number.unsigned_abs()))).is_closed
        }));
    }

    #[test]
    fn a_session_that_does_not_end_is_named_once() {
        let (mut endings, begun) = (Endings::default(), Instant::now());
        assert_eq!(endings.decide("p", &[1, 2], begun).end, [1, 2]);
        assert_eq!(endings.decide("p", &[1, 2], begun + Duration::from_millis(100)), SessionActions::default());
        assert_eq!(endings.decide("p", &[2], begun + END_TIMEOUT).stuck, [2]);
        assert_eq!(endings.decide("p", &[2], begun + END_TIMEOUT * 2), SessionActions::default());
    }

    #[test]
    fn a_small_table_leaves_room_for_a_query_of_many_partitions() {
        assert_eq!(max_login_locks(7_800), 1_950);
        assert_eq!(max_login_locks(12_000), 2_000);
        assert_eq!(max_login_locks(200_000), 25_000);
    }
}
