//! The private server's log on its way into the host's: each line with the role whose session wrote it, within bounds,
//! and as the server wrote it: neither a message nor the name of a role can pass for another message. A plugin's SQL
//! can make the server log as fast as it runs (`RAISE LOG`, errors in a loop).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::lines::{Bucket, Rate};
use cardinal_database::roles;

/// What the server puts before each message: process, and number of the line in its session. Not the role (`%u`):
/// before a session has logged in, its client names any role, and names with line breaks and whole messages in them.
pub(super) const LINE_PREFIX: &str = "%p %l|";
/// The first line of a session, and the one by which a role is believed: what it names has logged in. Both stand before
/// anything that the session's statements can make the server log.
const CONNECTED: &str = "LOG:  connection received:";
const AUTHORIZED: &str = "LOG:  connection authorized: user=";
const AUTHENTICATED: &str = "LOG:  connection authenticated:";
/// More of one message is cut off.
const MAX_MESSAGE_BYTES: usize = 4096;
/// Sessions whose role is remembered before those that are over are looked for; far more than the server allows.
const MAX_SESSIONS: usize = 1_000;
/// Lines of one role at once, and in a second from then on.
const RATE: Rate = Rate { burst: 100.0, per_second: 10.0 };
/// Roles that are counted by themselves; all others share one count. Far more than a host has.
const MAX_ROLES: usize = 1_000;
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
const MAX_LAST_LINES: usize = 20;

/// What the server logged last, for the message of a start that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct LogTail(Arc<Mutex<VecDeque<String>>>);

impl LogTail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == MAX_LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub(super) fn text(&self) -> String {
        let lines = self.0.lock();
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// The server's end and ours of its standard error. Each write is a message of its own: on a pipe, long ones of several
/// processes could run into each other, and the rest of one be read as another's. What is longer than the socket's
/// buffer (200 KiB) the system does not take, and it is lost.
///
/// # Errors
/// As the system reports them.
pub(super) fn channel() -> io::Result<(OwnedFd, UnixStream)> {
    let (theirs, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let ours = StdUnixStream::from(ours);
    ours.set_nonblocking(true)?;
    Ok((theirs, UnixStream::from_std(ours)?))
}

/// Writes the server's log into ours until the server has ended.
pub(super) async fn relay(messages: UnixStream, last_lines: LogTail) {
    let mut bounds = Bounds::default();
    let mut sessions = Sessions::default();
    let mut report = tokio::time::interval(REPORT_INTERVAL);
    let mut message = [0; MAX_MESSAGE_BYTES];
    loop {
        tokio::select! {
            read = receive(&messages, &mut message) => {
                let Ok(length @ 1..) = read else { break };
                let text = text(&message[..length]);
                let (session, text) = sessions.attribute(&text);
                let Some(session) = session else { continue };
                for line in text.lines() {
                    if bounds.admit(&session.role, Instant::now()) {
                        log(&session, line);
                        last_lines.push(line.to_owned());
                    }
                }
            }
            _ = report.tick() => bounds.report(),
        }
    }
    bounds.report();
}

/// One message; nothing at the end. Not as a stream, which takes a short read for an empty socket.
async fn receive(messages: &UnixStream, message: &mut [u8]) -> io::Result<usize> {
    messages.async_io(Interest::READABLE, || Ok(rustix::io::read(messages, &mut *message)?)).await
}

fn text(message: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(message).trim_end().to_owned();
    if message.len() == MAX_MESSAGE_BYTES {
        text.push_str(" … (cut)");
    }
    text
}

/// Who wrote a message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Session {
    pid: u32,
    /// Empty for the server itself and for a session that has not logged in.
    role: String,
}

/// Roles that have logged in, by the process that serves them.
#[derive(Debug, Default)]
struct Sessions {
    roles: HashMap<u32, String>,
}

impl Sessions {
    /// The role and the text of this message; none when it only names a session's role.
    fn attribute<'m>(&mut self, message: &'m str) -> (Option<Session>, &'m str) {
        // What has no prefix comes from below the server's own log: its loader, or a library.
        let Some(Prefixed { pid, number, text }) = parse(message) else { return (Some(Session::default()), message) };
        if number == 1 {
            self.roles.remove(&pid); // of an earlier process
        }
        if [CONNECTED, AUTHENTICATED].iter().any(|own| text.starts_with(own)) && !self.roles.contains_key(&pid) {
            return (None, text);
        }
        match (self.roles.get(&pid), text.strip_prefix(AUTHORIZED)) {
            (Some(role), _) => (Some(Session { pid, role: role.clone() }), text),
            (None, Some(named)) => {
                let role = named.split_once(" database=").map_or(named, |(role, _)| role);
                self.remember(pid, role);
                (None, text)
            }
            (None, None) => (Some(Session { pid, role: String::new() }), text),
        }
    }

    fn remember(&mut self, pid: u32, role: &str) {
        if self.roles.len() >= MAX_SESSIONS {
            self.roles.retain(|pid, _| lives(*pid));
        }
        if self.roles.len() < MAX_SESSIONS {
            self.roles.insert(pid, role.to_owned());
        }
    }
}

fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// A message with the prefix of the server's own log.
struct Prefixed<'m> {
    pid: u32,
    /// Of the message, counted by its process.
    number: u64,
    text: &'m str,
}

fn parse(message: &str) -> Option<Prefixed<'_>> {
    let (prefix, text) = message.split_once('|')?;
    let (pid, number) = prefix.split_once(' ')?;
    Some(Prefixed { pid: pid.parse().ok()?, number: number.parse().ok()?, text })
}

fn log(session: &Session, text: &str) {
    let role = Some(session.role.as_str()).filter(|role| !role.is_empty());
    let plugin = role.and_then(roles::plugin_from_role);
    let (plugin, pid) = (plugin.as_deref(), session.pid);
    if is_news(text) {
        tracing::warn!(target: "postgres", role, plugin, pid, "{text}");
    } else {
        tracing::debug!(target: "postgres", role, plugin, pid, "{text}");
    }
}

/// An ERROR is its session's business, and so is a client that leaves in the middle, or is sent away, as ours are when
/// the host stops; a client that connects while the server starts or stops gets FATAL.
fn is_news(line: &str) -> bool {
    const NO_NEWS: [&str; 3] =
        ["the database system is", "connection to client lost", "terminating connection due to administrator command"];
    match line.split_once(':') {
        Some(("PANIC" | "WARNING", _)) => true,
        Some(("FATAL", reason)) => !NO_NEWS.iter().any(|it| reason.trim_start().starts_with(it)),
        _ => false,
    }
}

/// A token bucket for each role.
#[derive(Debug, Default)]
struct Bounds {
    buckets: HashMap<String, Bucket>,
}

/// Under which roles beyond [`MAX_ROLES`] are counted; no role has this name.
const OTHERS: &str = "other roles";

impl Bounds {
    /// Whether this line is logged; one that is not is counted.
    fn admit(&mut self, role: &str, now: Instant) -> bool {
        let is_new = !self.buckets.contains_key(role);
        let name = if is_new && self.buckets.len() >= MAX_ROLES { OTHERS } else { role };
        self.buckets.entry(name.to_owned()).or_insert_with(|| Bucket::new(RATE, now)).admit(now)
    }

    fn report(&mut self) {
        let dropped = self.buckets.iter_mut().map(|(role, bucket)| (role, bucket.take_dropped()));
        for (role, lines) in dropped.filter(|(_, lines)| *lines > 0) {
            let plugin = roles::plugin_from_role(role);
            tracing::warn!(
                target: "postgres",
                role,
                plugin = plugin.as_deref(),
                lines,
                "PostgreSQL logged more for this role than is kept; lines were dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The role that each message is attributed to; `-` for those that only name it.
    fn roles(messages: &[&str]) -> Vec<String> {
        let mut sessions = Sessions::default();
        let role = |message| sessions.attribute(message).0.map_or_else(|| "-".to_owned(), |session| session.role);
        messages.iter().copied().map(role).collect()
    }

    const LOGIN: [&str; 3] = [
        "7 1|LOG:  connection received: host=[local]",
        "7 2|LOG:  connection authenticated: identity=\"p\" method=scram-sha-256",
        "7 3|LOG:  connection authorized: user=p database=cardinal application_name=x",
    ];

    #[test]
    fn a_role_is_believed_once_it_has_logged_in() {
        assert_eq!(roles(&[&LOGIN[..], &["7 4|ERROR:  no | x", "8 1|LOG:  ready"]].concat()), ["-", "-", "-", "p", ""]);
        // What a session's statements say of themselves changes nothing.
        let forged = "7 4|LOG:  connection authorized: user=cardinal_superuser database=x";
        assert_eq!(
            roles(&[&LOGIN[..], &[forged, "7 5|LOG:  connection received: x", "7 6|ERROR:  x"]].concat())[3..],
            ["p"; 3]
        );
        // A process that gets the number of one that is over begins anew.
        assert_eq!(roles(&[&LOGIN[..], &["7 1|LOG:  autovacuum"]].concat())[3..], [""]);
        assert_eq!(roles(&["a loader's word", "x y|LOG:  z", ""]), ["", "", ""]);
    }

    #[test]
    fn a_name_that_is_chosen_before_the_login_forges_nothing() {
        let refused = "9 2|FATAL:  password authentication failed for user \"x\n\t12 4|FATAL:  forged\"";
        let mut sessions = Sessions::default();
        assert_eq!(sessions.attribute("9 1|LOG:  connection received: host=[local]").0, None);
        let (session, text) = sessions.attribute(refused);
        assert_eq!(session, Some(Session { pid: 9, role: String::new() }));
        assert!(text.lines().filter(|line| is_news(line)).count() == 1, "the rest of a message is no message: {text}");
    }

    #[test]
    fn sessions_that_are_over_make_room() {
        let mut sessions = Sessions::default();
        let own = std::process::id();
        sessions.remember(own, "p");
        for number in 0..2 * MAX_SESSIONS {
            sessions.remember(u32::MAX - u32::try_from(number).unwrap(), "q");
        }
        assert!(sessions.roles.len() <= MAX_SESSIONS && sessions.roles.contains_key(&own));
    }

    #[test]
    fn a_role_that_floods_is_bounded_and_others_are_not() {
        let (mut bounds, start) = (Bounds::default(), Instant::now());
        let admitted = (0..10_000).filter(|_| bounds.admit("flood", start)).count();
        assert_eq!(admitted, RATE.burst as usize);
        assert!(bounds.admit("other", start));
        assert_eq!(bounds.buckets.get_mut("flood").unwrap().take_dropped(), 10_000 - RATE.burst as u64);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| bounds.admit("flood", later)).count(), RATE.per_second as usize);
        for n in 0..2 * MAX_ROLES {
            bounds.admit(&format!("role {n}"), start);
        }
        assert!(bounds.buckets.len() <= MAX_ROLES + 1);
    }

    #[tokio::test]
    async fn each_write_is_a_message_and_a_long_one_is_cut() {
        let (theirs, ours) = channel().unwrap();
        rustix::io::write(&theirs, &[b'x'; 100_000]).unwrap();
        rustix::io::write(&theirs, b"1 1|LOG:  next\n").unwrap();
        rustix::io::write(&theirs, b"1 2|LOG:  last\n").unwrap();
        let mut message = [0; MAX_MESSAGE_BYTES];
        let mut next = async || {
            let length = receive(&ours, &mut message).await.unwrap();
            text(&message[..length])
        };
        let first = next().await;
        assert!(first.len() < MAX_MESSAGE_BYTES + 20 && first.ends_with("… (cut)"));
        assert_eq!(next().await, "1 1|LOG:  next");
        assert_eq!(next().await, "1 2|LOG:  last");
        drop(theirs);
        assert_eq!(next().await, "");
    }
}
