//! The socket in `DATA_DIR` through which commands on the host's own machine talk to it without a key: mode 0600, and
//! the system says who connects. That alone would let in a plugin's native code where the worker has the supervisor's
//! user, so a connection begins with a token, too, from a file that Landlock hides from the worker. The supervisor
//! accepts and checks (`crates/supervisor/src/local.rs`); the worker gets connections that have passed ([`handover`])
//! and neither listener nor token.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use cardinal_base::{config::Secret, secret_file};
use cardinal_database::roles;

pub mod handover;

pub use handover::{HandoverReceiver, HandoverSender};

/// Below `DATA_DIR`.
pub const FILE: &str = "cardinal.sock";
/// Below `DATA_DIR`; another one at each start of the host.
pub const TOKEN_FILE: &str = "local-token";
/// Hexadecimal digits.
const TOKEN_BYTES: usize = 64;
/// From connecting to the token's last byte.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// `sockaddr_un` has 108 bytes with the closing zero.
const MAX_PATH: usize = 107;
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
    pub fn new(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE) }
    }

    /// Whether a host listens there, or was killed before it could take the socket away.
    pub fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| found.file_type().is_socket())
    }

    /// Listens. What a host that was killed has left there gives way; the caller holds the folder, so that it cannot be
    /// somebody's who is alive.
    ///
    /// # Errors
    /// The folder's file system has no sockets, or something else has the name.
    pub fn bind(&self) -> io::Result<UnixListener> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) if there.file_type().is_socket() => fs::remove_file(&self.path)?,
            Ok(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file that is not a socket is in its \
                place",
                ));
            }
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

    /// Makes another token, and gives what connections are checked by. To be called before [`bind`](Self::bind).
    ///
    /// # Errors
    /// The system has no random numbers, or the file cannot be written.
    pub fn new_token(&self) -> anyhow::Result<TokenHash> {
        let token = roles::random_secret()?;
        secret_file::write(&self.token_file(), token.expose())?;
        Ok(TokenHash::new(token.expose().as_bytes()))
    }

    /// # Errors
    /// No host listens there, or it is not ours to talk to.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        let name = self.name()?;
        let mut stream = UnixStream::connect(&name.path).await?;
        let token = self.token()?;
        stream.write_all(token.expose().as_bytes()).await?;
        Ok(stream)
    }

    /// Read after connecting: whoever listens has written it before.
    fn token(&self) -> io::Result<Secret> {
        let file = self.token_file();
        let named = |error: io::Error| io::Error::new(error.kind(), format!("reading {}: {error}", file.display()));
        let text = secret_file::read_small(&file).map_err(named)?;
        Ok(Secret::new(text.trim()))
    }

    fn token_file(&self) -> PathBuf {
        self.path.with_file_name(TOKEN_FILE)
    }

    /// Takes it away at the end, so that commands see at once that no host is there.
    pub fn remove(&self) {
        for path in [&self.path, &self.token_file()] {
            if let Err(error) = fs::remove_file(path) {
                tracing::debug!(%error, path = %path.display(), "failed to remove a file of the local socket");
            }
        }
    }

    /// A path that is too long goes through the folder, held open.
    fn name(&self) -> io::Result<Name> {
        if self.path.as_os_str().len() <= MAX_PATH {
            return Ok(Name { path: self.path.clone(), _folder: None });
        }
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{FILE}", folder.as_raw_fd()));
        Ok(Name { path, _folder: Some(folder) })
    }
}

/// By which a token is known and cannot be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    fn new(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    fn matches(&self, token: &[u8]) -> bool {
        Self::new(token).0.ct_eq(&self.0).into()
    }

    /// Whether a connection begins with the token. Reads nothing beyond it.
    pub async fn admits(&self, stream: &mut UnixStream) -> bool {
        let mut token = [0; TOKEN_BYTES];
        let read = tokio::time::timeout(TOKEN_TIMEOUT, stream.read_exact(&mut token)).await;
        matches!(read, Ok(Ok(_))) && self.matches(&token)
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
        let socket = LocalSocket::new(folder.path());
        socket.new_token().unwrap();
        let first = socket.bind().unwrap();
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        socket.connect().await.unwrap();
        // A process that another test has just started may have it for a moment more.
        rustix::net::shutdown(&first, rustix::net::Shutdown::Both).unwrap();
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
        let socket = LocalSocket::new(&deep);
        socket.new_token().unwrap();
        let _listener = socket.bind().unwrap();
        socket.connect().await.unwrap();
        assert_eq!(fs::metadata(deep.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_connection_begins_with_the_token_of_this_start() {
        let folder = tempfile::tempdir().unwrap();
        let socket = LocalSocket::new(folder.path());
        let old = socket.new_token().unwrap();
        let hash = socket.new_token().unwrap();
        let mode = fs::metadata(folder.path().join(TOKEN_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let listener = tokio::net::UnixListener::from_std(socket.bind().unwrap()).unwrap();
        let _client = socket.connect().await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(hash.admits(&mut stream).await);
        let _client = socket.connect().await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(!old.admits(&mut stream).await);
        // Cut short, or something else.
        for sent in ["GET / HTTP/1.1", &"0".repeat(TOKEN_BYTES)] {
            let mut client = UnixStream::connect(folder.path().join(FILE)).await.unwrap();
            client.write_all(sent.as_bytes()).await.unwrap();
            drop(client);
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(!hash.admits(&mut stream).await, "{sent}");
        }
    }

    #[test]
    fn a_file_of_that_name_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "mine").unwrap();
        assert!(LocalSocket::new(folder.path()).bind().is_err());
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "mine");
    }
}
