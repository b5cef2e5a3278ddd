//! Listening sockets, and why one cannot be had.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

/// Connections that wait to be accepted; `net.core.somaxconn` may allow fewer.
const BACKLOG: i32 = 4096;
/// How often a taken port is tried again: when a supervisor was killed, its worker is there for moments more.
const RETRIES: u32 = 20;
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Ports below this one are root's, unless the system says otherwise.
const FIRST_FREE_PORT: u16 = 1024;
/// A listening socket, as `/proc/net/tcp` writes it.
const LISTENING: &str = "0A";

/// Listens on the address of a setting.
///
/// # Errors
/// In words for an operator, with what to do.
pub(super) fn bind(setting: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let pause = || std::thread::sleep(RETRY_PAUSE);
    let listener = bind_with_retries(address, pause).map_err(|error| explain(setting, address, &error))?;
    prepare(&listener).with_context(|| format!("{setting}: preparing the listener"))?;
    Ok(listener)
}

fn bind_with_retries(address: SocketAddr, mut pause: impl FnMut()) -> io::Result<TcpListener> {
    for _ in 0..RETRIES {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => pause(),
            bound => return bound,
        }
    }
    TcpListener::bind(address)
}

/// For a worker: one that does not block, with more places than it was made with. Beyond these the kernel drops who
/// asks, who asks again a second later. Done for each worker anew, since both belong to the socket, and native code of
/// a plugin may have changed them for the workers after it.
///
/// # Errors
/// The system refuses it.
pub(super) fn prepare(listener: impl AsFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&listener, true)?;
    Ok(rustix::net::listen(&listener, BACKLOG)?)
}

fn explain(setting: &str, address: SocketAddr, error: &io::Error) -> anyhow::Error {
    let flag = setting.to_ascii_lowercase().replace('_', "-");
    let reason = match error.kind() {
        ErrorKind::AddrInUse => {
            let holder = holder(address.port()).unwrap_or_else(|| "another program".to_owned());
            format!("{holder} listens there already. Stop it, or choose another address (--{flag})")
        }
        ErrorKind::PermissionDenied if address.port() < FIRST_FREE_PORT => {
            format!(
                "ports below {FIRST_FREE_PORT} are root's. Choose another one, such as 8080, with a proxy before it \
                 (--{flag}), or allow it: setcap cap_net_bind_service=+ep {}",
                std::env::current_exe().unwrap_or_default().display()
            )
        }
        ErrorKind::AddrNotAvailable => {
            format!("no address of this machine. Choose one that `ip address` shows (--{flag})")
        }
        _ => error.to_string(),
    };
    anyhow::anyhow!("{setting}: cannot listen on {address}: {reason}")
}

/// The process that listens on a port, as far as this user may know.
fn holder(port: u16) -> Option<String> {
    let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets: Vec<String> = sockets.iter().flat_map(|table| inodes(table, port)).collect();
    let is_process = |path: &PathBuf| path.file_name().is_some_and(|it| it.as_encoded_bytes()[0].is_ascii_digit());
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let holder = processes.map(|it| it.path()).filter(is_process).find(|process| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.filter_map(|it| fs::read_link(it.path()).ok()).any(|it| sockets.iter().any(|own| it == Path::new(own)))
    })?;
    let name = fs::read_to_string(holder.join("comm")).unwrap_or_default();
    Some(format!("{} (process {})", name.trim(), holder.file_name()?.display()))
}

/// Names of the sockets that listen on a port, as links to them show.
fn inodes(table: &str, port: u16) -> impl Iterator<Item = String> {
    let ending = format!(":{port:04X}");
    table.lines().skip(1).filter_map(move |line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let listens = columns.get(1)?.ends_with(&ending) && *columns.get(3)? == LISTENING;
        listens.then(|| columns.get(9).map(|inode| format!("socket:[{inode}]")))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_port_is_named_with_the_way_out() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = bind("ADMIN_LISTEN_ADDR", taken.local_addr().unwrap()).unwrap_err().to_string();
        let own = format!("(process {}) listens there already", std::process::id());
        assert!(error.contains(&own) && error.contains("--admin-listen-addr"), "{error}");
    }

    #[test]
    fn a_port_that_is_freed_a_moment_later_is_had() {
        let mut holder = Some(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = holder.as_ref().unwrap().local_addr().unwrap();
        let mut pauses = 0;
        let free_it = || {
            pauses += 1;
            if pauses == RETRIES {
                holder = None;
            }
        };
        assert_eq!(bind_with_retries(address, free_it).unwrap().local_addr().unwrap(), address);
        assert_eq!(pauses, RETRIES);
    }

    #[test]
    fn an_address_of_another_machine_is_told() {
        let error = bind("LISTEN_ADDR", "192.0.2.1:0".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("no address of this machine"), "{error}");
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        let message = explain("LISTEN_ADDR", "127.0.0.1:80".parse().unwrap(), &denied).to_string();
        assert!(message.contains("setcap") && message.contains("8080"), "{message}");
    }
}
