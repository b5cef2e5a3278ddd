//! A probe that was started, by this process or by the one that starts probes for it.

use std::{io, os::unix::process::ExitStatusExt as _, process::ExitStatus};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    net::{UnixStream, unix::pipe},
    process::Child,
};

/// What comes on a probe's socket when it runs.
pub(super) const BEGUN: u8 = b'B';

/// What comes in the place of a status when the probe was ended because all together had too much, and may be tried
/// again. No status is negative.
pub(super) const MADE_ROOM: i32 = -1;

/// What the child writes.
pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// A probe at work. Dropped, it ends, and whatever its library started.
pub(super) struct ProbeProcess {
    outputs: Option<(Reader, Reader)>,
    process: Process,
}

enum Process {
    Own(Child, #[expect(dead_code, reason = "kills when it is dropped")] KillGroup),
    /// The starter ends it when this end is closed, and says on it when it began and how it ended.
    ByStarter(UnixStream),
}

impl ProbeProcess {
    pub(super) fn own(mut child: Child) -> Self {
        let group = KillGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        let boxed = |reader: Option<Reader>| reader.unwrap_or_else(|| Box::new(tokio::io::empty()));
        let output = boxed(child.stdout.take().map(|output| Box::new(output) as Reader));
        let errors = boxed(child.stderr.take().map(|errors| Box::new(errors) as Reader));
        Self { outputs: Some((output, errors)), process: Process::Own(child, group) }
    }

    pub(super) fn elsewhere(output: pipe::Receiver, errors: pipe::Receiver, control: UnixStream) -> Self {
        Self { outputs: Some((Box::new(output), Box::new(errors))), process: Process::ByStarter(control) }
    }

    /// Its standard output and error, once.
    pub(super) fn outputs(&mut self) -> Option<(Reader, Reader)> {
        self.outputs.take()
    }

    /// Waits until it runs.
    ///
    /// # Errors
    /// It will not.
    pub(super) async fn begin(&mut self) -> io::Result<()> {
        match &mut self.process {
            Process::Own(..) => Ok(()),
            Process::ByStarter(control) => match control.read_u8().await? {
                BEGUN => Ok(()),
                _ => Err(io::ErrorKind::InvalidData.into()),
            },
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It is not known how it ended.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.process {
            Process::Own(child, _) => child.wait().await,
            Process::ByStarter(control) => match control.read_i32_le().await? {
                MADE_ROOM => {
                    Err(io::Error::other("others that are being tried left no room for its memory or threads"))
                }
                status => Ok(ExitStatus::from_raw(status)),
            },
        }
    }
}

/// Ends whatever the library started, too.
struct KillGroup(Option<Pid>);

impl Drop for KillGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // There is nothing left to kill when all of them have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
