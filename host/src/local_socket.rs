//! The socket in `DATA_DIR` through which commands on the host's own machine talk to it without a key: mode 0600, and
//! whoever connects is asked by the system who they are.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tokio::net::UnixStream;

/// Below `DATA_DIR`.
pub const FILE: &str = "cardinal.sock";
/// `sockaddr_un` has 108 bytes with the closing zero.
const LONGEST_PATH: usize = 107;
const OWNER_ALONE: u32 = 0o600;

/// The socket of one `DATA_DIR`.
#[derive(Clone, Debug)]
pub struct LocalSocket {
    path: PathBuf,
}

/// A name for the socket that fits a socket address, good while this value lives.
struct Name {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

impl LocalSocket {
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE) }
    }

    /// Listens. What a host that was killed has left there gives way; the caller holds the folder, so that it cannot be
    /// somebody's who is alive.
    ///
    /// # Errors
    /// The folder's file system has no sockets, or something else has the name.
    pub fn bind(&self) -> io::Result<UnixListener> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) if there.file_type().is_socket() => fs::remove_file(&self.path)?,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is no socket is there")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let name = self.name()?;
        let listener = UnixListener::bind(&name.path)?;
        // Who connects before that is turned away by who they are.
        fs::set_permissions(&self.path, fs::Permissions::from_mode(OWNER_ALONE))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// # Errors
    /// No host listens there, or it is not ours to talk to.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        let name = self.name()?;
        UnixStream::connect(&name.path).await
    }

    /// Takes it away at the end, so that commands see at once that no host is there.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "the local socket could not be removed");
        }
    }

    /// A path that is too long goes through the folder, held open.
    fn name(&self) -> io::Result<Name> {
        if self.path.as_os_str().len() <= LONGEST_PATH {
            return Ok(Name { path: self.path.clone(), _folder: None });
        }
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{FILE}", folder.as_raw_fd()));
        Ok(Name { path, _folder: Some(folder) })
    }
}

impl fmt::Display for LocalSocket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_its_owner_may_connect_and_what_a_dead_host_left_gives_way() {
        let folder = tempfile::tempdir().unwrap();
        let socket = LocalSocket::of(folder.path());
        let first = socket.bind().unwrap();
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        socket.connect().await.unwrap();
        drop(first);
        assert_eq!(socket.connect().await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let _again = socket.bind().unwrap();
        socket.connect().await.unwrap();
        socket.remove();
        assert_eq!(socket.connect().await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_long_path_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(200));
        fs::create_dir(&deep).unwrap();
        let socket = LocalSocket::of(&deep);
        let _listener = socket.bind().unwrap();
        socket.connect().await.unwrap();
        assert_eq!(fs::metadata(deep.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_of_that_name_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "mine").unwrap();
        assert!(LocalSocket::of(folder.path()).bind().is_err());
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "mine");
    }
}
