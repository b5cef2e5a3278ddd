use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use cardinal_base::account::Account;
use cardinal_control::{
    crash::{
        descriptors, handler,
        shm::{self, ExitGuard},
        vital::{self, LowNumbers},
    },
    link::{self, WorkerStart},
    sandbox::{self, Sandbox, descriptor_calls, programs},
};
use cardinal_observe::log::{Log, LogSender};
use cardinal_plugin_host::probe::{Prober, starter};
use cardinal_serve::lifecycle::{self, Sockets};
use cardinal_supervisor::launch;

use super::probe;

/// The process that serves; started by `cardinal serve` alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    parent: u32,
    #[arg(long, requires = "group")]
    user: Option<u32>,
    #[arg(long, requires = "user")]
    group: Option<u32>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    launch::be_called(c"cardinal-worker");
    if let Some((user, group)) = args.user.zip(args.group) {
        launch::drop_rights(Account { user, group })?;
    }
    if rustix::process::geteuid().is_root() {
        sandbox::give_up_capabilities()?;
    }
    sandbox::close_process()?;
    // After the change of user, which would clear it.
    launch::begin_session()?;
    launch::end_with(args.parent, Signal::KILL)?;
    descriptors::raise_limit();
    let low_numbers = LowNumbers::take();
    let socket = std::io::stdin().as_fd().try_clone_to_owned().context("taking the control socket")?;
    // Whoever reads standard input from now on, a plugin above all, must not read the supervisor's words.
    let nothing = File::open("/dev/null").context("opening /dev/null")?;
    rustix::stdio::dup2_stdin(&nothing).context("closing standard input")?;
    // Before anything is known that others are not to see.
    let starter = starter::fork(run_starter(std::process::id())).context("making the process that starts probes")?;
    let (mut enforced, mut is_guarded) = (None, false);
    let restrict = |start: &WorkerStart| {
        let sandbox = serde_json::to_vec(&start.sandbox)?;
        starter.hand(&sandbox).context("waiting for the process that starts probes")?;
        let status = start.sandbox.enter().context("restricting the worker")?;
        enforced = Some(status);
        if status.system_calls {
            programs::refuse()?;
            descriptor_calls::restrict(vital::NUMBERS, descriptors::known_limit())?;
            is_guarded = true;
        }
        Ok(())
    };
    let (start, handed, link) = link::receive_start(UnixStream::from(socket), restrict)
        .context("listening to the supervisor (start `cardinal serve`)")?;
    drop(low_numbers);
    let (log, _flush) = Log::start_buffered(&start.config.observe, LogSender::new(handed.log))?;
    tracing::debug!(?enforced, "the worker is restricted");
    // Dropped when this process ends of its own will, and only then.
    let _leaving = watch(handed.shm);
    let sockets = Sockets { listeners: handed.listeners, local: handed.local };
    lifecycle::run_worker(start, link, sockets, log, Prober::by_starter(starter), is_guarded)
}

/// What the process does that starts probes, in walls of its own like the worker's.
fn run_starter(worker: u32) -> impl FnOnce(OwnedFd) -> io::Result<()> {
    move |socket| {
        launch::be_called(c"cardinal-probes");
        launch::end_with(worker, Signal::KILL).map_err(io::Error::other)?;
        let sandbox: Sandbox = serde_json::from_slice(&starter::receive_text(&socket)?)?;
        sandbox.enter().map_err(io::Error::other)?;
        starter::serve(&socket, |parent, settings| probe::try_library(parent, settings).map_err(io::Error::other))
    }
}

/// Without the shared memory a worker serves as well; its crashes are nobody's.
fn watch(memory: OwnedFd) -> ExitGuard {
    // No image of a process that knows passwords and customers' data is written anywhere.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let watching = setrlimit(Resource::Core, none).map_err(std::io::Error::from);
    let watching = watching.and_then(|()| shm::adopt(memory)).and_then(|()| handler::install());
    if let Err(error) = watching {
        tracing::warn!(%error, "crashes cannot be attributed to plugins");
    }
    ExitGuard
}
