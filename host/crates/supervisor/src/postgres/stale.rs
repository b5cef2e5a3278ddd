//! What a killed supervisor can leave behind: a server that is still ending, or the file of one that is gone.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal};

const PID_FILE: &str = "postmaster.pid";
/// The socket's own file of the same kind, beside the socket.
const SOCKET_LOCK: &str = ".s.PGSQL.5432.lock";
/// The death of its supervisor made the old server end; it writes a checkpoint first.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for a server that still uses the folder, and removes the files of one that does not.
///
/// PostgreSQL would take any living process with the recorded number for the old server, which after a restart of the
/// machine or in a container is another program's, or a killed one that its parent has not fetched yet. We hold the
/// lock on `DATA_DIR` and can look at the process itself.
///
/// # Errors
/// An old server does not end.
pub(super) async fn clear(cluster: &Path, sockets: &Path) -> anyhow::Result<()> {
    for file in [cluster.join(PID_FILE), sockets.join(SOCKET_LOCK)] {
        let Some(pid) = recorded(&file)? else { continue };
        ended(pid, cluster).await?;
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", file.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn ended(pid: Pid, cluster: &Path) -> anyhow::Result<()> {
    if !serves(pid, cluster) {
        return Ok(());
    }
    tracing::info!(pid = pid.as_raw_nonzero().get(), "waiting for the former PostgreSQL to end");
    if gone_within(pid, cluster, STOP_TIMEOUT).await {
        return Ok(());
    }
    // Immediate shutdown: crash-safe, the next start recovers.
    let _ = rustix::process::kill_process(pid, Signal::QUIT);
    if !gone_within(pid, cluster, KILL_TIMEOUT).await {
        bail!("the former PostgreSQL (process {}) does not end: end it by hand", pid.as_raw_nonzero());
    }
    Ok(())
}

fn recorded(file: &Path) -> anyhow::Result<Option<Pid>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().next().and_then(|line| line.trim().parse().ok()).and_then(Pid::from_raw)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

/// Whether the process is a server in this folder, which is its working directory.
fn serves(pid: Pid, cluster: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let working_dir = fs::metadata(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
    match (working_dir, fs::metadata(cluster)) {
        (Ok(theirs), Ok(ours)) => (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()),
        _ => false,
    }
}

async fn gone_within(pid: Pid, cluster: &Path, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    while serves(pid, cluster) {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    true
}
