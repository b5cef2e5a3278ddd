//! The worker's own pools: the core's role for everything, the reaper's for removing cards.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::NoTls;

/// How long a request waits for a connection before it is told that we are overloaded.
const WAIT: Duration = Duration::from_secs(5);
const CREATE: Duration = Duration::from_secs(5);
const RECYCLE: Duration = Duration::from_secs(5);
const CORE_CONNECTIONS: usize = 16;
const REAPER_CONNECTIONS: usize = 2;

/// The pools.
#[derive(Clone)]
pub struct Pools {
    pub core: Pool,
    pub reaper: Pool,
}

impl Pools {
    pub fn new(core: tokio_postgres::Config, reaper: tokio_postgres::Config) -> anyhow::Result<Self> {
        Ok(Self { core: pool(core, CORE_CONNECTIONS)?, reaper: pool(reaper, REAPER_CONNECTIONS)? })
    }
}

fn pool(config: tokio_postgres::Config, size: usize) -> anyhow::Result<Pool> {
    // The core leaves no state on its connections: transactions roll back when dropped.
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let builder = Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1);
    Ok(builder.wait_timeout(Some(WAIT)).create_timeout(Some(CREATE)).recycle_timeout(Some(RECYCLE)).build()?)
}
