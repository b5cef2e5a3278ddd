use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

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
    sandbox::{self, descriptor_calls, programs},
};
use cardinal_observe::log::{Log, LogSender};
use cardinal_plugin_host::probe::{Prober, starter};
use cardinal_serve::lifecycle::{self, Sockets};
use cardinal_supervisor::launch::{self, Launcher};

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
    let (mut enforced, mut is_guarded, mut prober) = (None, false, None);
    let restrict = |start: &WorkerStart| {
        let status = start.sandbox.enter().context("restricting the worker")?;
        enforced = Some(status);
        prober = Some(start_starter().context("starting the process that starts probes")?);
        if status.system_calls {
            programs::refuse()?;
            descriptor_calls::restrict(vital::NUMBERS, &descriptors::known_limits())?;
            is_guarded = true;
        }
        Ok(())
    };
    let (start, handed, link) = link::receive_start(UnixStream::from(socket), restrict)
        .context("listening to the supervisor (start `cardinal serve`)")?;
    let prober = prober.context("no process that starts probes was started")?;
    drop(low_numbers);
    let (log, _flush) = Log::start_buffered(&start.config.observe, LogSender::new(handed.log))?;
    tracing::debug!(?enforced, "the worker is restricted");
    // Dropped when this process ends of its own will, and only then.
    let _leaving = watch(handed.shm);
    let sockets = Sockets { listeners: handed.listeners, local: handed.local };
    lifecycle::run_worker(start, link, sockets, log, prober, is_guarded)
}

/// The last process that this one starts.
fn start_starter() -> anyhow::Result<Prober> {
    let (starter, theirs) = starter::channel()?;
    let mut command = Launcher::this_program().command("probes");
    command.stdin(theirs).stdout(Stdio::null()).spawn()?;
    Ok(Prober::by_starter(starter))
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
