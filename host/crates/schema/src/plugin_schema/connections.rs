//! How many connections a plugin's run-time login may have. What the server has is divided: the host's own sessions
//! come first, and what is left is given to the logins of plugins, so that all of them together cannot keep the host
//! out.

use anyhow::Context as _;
use tokio_postgres::Client;

use super::{ProvisionFault, Step, StepError};

/// Kept for the host: the core's pool, twice since a worker may follow one that has not ended, the reaper's 20, the
/// provisioner's 40 and some of the owner's.
const HOST_CONNECTIONS: i64 = 100;
/// For each further host on the same database.
const FURTHER_HOST_CONNECTIONS: i64 = 40;
/// The generation of a plugin that leaves and the one that comes.
const GENERATIONS: i64 = 2;
/// As `cardinal.limit_plugin_connections` has it.
const MAX_CONNECTIONS: i64 = 64;

/// What the server has, what others' logins may have, and how many hosts there are, this one included.
const SERVER: &str = "
    SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
           - coalesce(current_setting('reserved_connections', true)::bigint, 0) AS connections,
           (SELECT coalesce(sum(greatest(r.rolconnlimit, 0)), 0)::bigint FROM pg_catalog.pg_roles r
            WHERE starts_with(r.rolname::text, $1) AND r.rolname::text <> $2) AS given,
           (SELECT r.rolconnlimit::bigint FROM pg_catalog.pg_roles r WHERE r.rolname::text = $2) AS own,
           (SELECT greatest(count(*), 1) FROM public.hosts h WHERE h.seen_at > now() - interval '15 seconds') AS hosts";

/// What there is to be divided.
#[derive(Debug, Clone, Copy)]
struct Server {
    /// Without those for superusers and the like.
    connections: i64,
    /// That logins of other plugins may have.
    given: i64,
    hosts: i64,
}

impl Server {
    /// For all plugins' logins. A small server keeps half of what it has for them.
    fn for_plugins(self) -> i64 {
        let kept = HOST_CONNECTIONS + FURTHER_HOST_CONNECTIONS * (self.hosts - 1);
        self.connections - kept.min(self.connections / 2)
    }

    /// How many a login gets whose pool has this many on each host; none when there is no room for those. Twice as many
    /// while half of the room is free, so that a new generation need not wait for the old one's.
    fn divide(self, pool: i64) -> Option<i64> {
        let (room, min) = (self.for_plugins(), (pool * self.hosts).clamp(1, MAX_CONNECTIONS));
        let wanted = (min * GENERATIONS).min(MAX_CONNECTIONS);
        match self.given {
            given if given + wanted <= room / 2 => Some(wanted),
            given if given + min <= room => Some(min),
            _ => None,
        }
    }
}

impl Step<'_> {
    /// # Errors
    /// The logins of other plugins have what there is.
    pub(super) async fn connection_limit(&self, session: &Client) -> Result<i64, StepError> {
        let (prefix, own) = (self.names.runtime_prefix(), self.names.plugin_runtime(self.plugin));
        let row = session.query_one(SERVER, &[&prefix, &own]).await.context("counting connections")?;
        let own: Option<i64> = row.get("own");
        // Roles are the server's: a restore beside the database in use takes no connection from a plugin that serves
        // there.
        if let Some(own) = own.filter(|own| self.replay && *own > self.connections.into()) {
            return Ok(own);
        }
        let server = Server { connections: row.get("connections"), given: row.get("given"), hosts: row.get("hosts") };
        server.divide(self.connections.into()).ok_or_else(|| {
            StepError::Refused(ProvisionFault::Unavailable(format!(
                "the database has no room for {} more connections: it has {} for plugins, and other plugins have {} of \
                 them; raise max_connections, lower limits.db_connections in manifests, or drop the data of plugins \
                 that are gone",
                self.connections,
                server.for_plugins(),
                server.given
            )))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_sessions_come_first() {
        let private = |given| Server { connections: 397, given, hosts: 1 };
        assert_eq!(private(0).for_plugins(), 297);
        assert_eq!(private(0).divide(4), Some(8));
        assert_eq!(private(141).divide(4), Some(4), "more than half is given");
        assert_eq!((private(293).divide(4), private(294).divide(4)), (Some(4), None));
        assert_eq!(private(0).divide(1_000), Some(MAX_CONNECTIONS));
    }

    #[test]
    fn a_small_server_keeps_half_for_plugins_and_more_hosts_need_more() {
        let small = Server { connections: 97, given: 0, hosts: 1 };
        assert_eq!((small.for_plugins(), small.divide(8)), (49, Some(16)));
        let two = Server { connections: 497, given: 0, hosts: 2 };
        assert_eq!((two.for_plugins(), two.divide(8)), (357, Some(32)));
    }
}
