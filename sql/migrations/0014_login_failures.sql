-- Key lineages both ways, and failed logins as all hosts share them.

-- A key's rotations are followed from the old key to its successor, revoked ones among them.
CREATE INDEX admin_api_keys_rotation ON public.admin_api_keys (replaces_id) WHERE replaces_id IS NOT NULL;

-- Failed logins, as all hosts count them together: of an address and a name, of an address, of a name. Worth no
-- write-ahead log: after a crash of the server they begin anew.
CREATE UNLOGGED TABLE public.login_failures (
  subject    bytea PRIMARY KEY,             -- hashed: what was typed as a name may be a password
  failures   integer NOT NULL,              -- tries under way among them
  free       integer NOT NULL,              -- the rule: so many fail without a delay,
  first_ms   double precision NOT NULL,     -- then this is the delay, doubled by each further one
  longest_ms double precision NOT NULL,
  last_at    timestamptz NOT NULL
) WITH (fillfactor = 50);
