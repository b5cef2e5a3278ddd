use std::io::{Read as _, Write as _};

use anyhow::Context as _;
use rustix::process::Signal;

use cardinal_control::sandbox;
use cardinal_observe::log::Log;
use cardinal_supervisor::{launch, provision::Job};

/// The process that makes a plugin's schema; started by `cardinal serve` alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    parent: u32,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    launch::be_called(c"cardinal-schema");
    sandbox::close_process()?;
    launch::begin_session()?;
    launch::end_with(args.parent, Signal::KILL)?;
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).context("listening to the supervisor")?;
    let job: Job = serde_json::from_slice(&input).context("listening to the supervisor (start `cardinal serve`)")?;
    Log::start(&job.observe)?;
    let runtime = crate::cli::runtime()?;
    let mut output = std::io::stdout().lock();
    let tell = |news: Vec<u8>| output.write_all(&news).and_then(|()| output.flush());
    runtime.block_on(job.run(tell)).context("telling the supervisor what came of it")
}
