-- What hosts on one database tell each other about rate limits. Neither is worth a write-ahead log: after a crash of the
-- server every budget is whole again and every host has said again that it is there.

CREATE UNLOGGED TABLE public.hosts (
  id      uuid PRIMARY KEY,
  seen_at timestamptz NOT NULL
);

-- A row per key or user that more than one host might serve.
CREATE UNLOGGED TABLE public.rate_budgets (
  subject      uuid PRIMARY KEY,
  spent        double precision NOT NULL,   -- calls that hosts have made or hold as portions; falls by `rate` a second
  at           timestamptz NOT NULL,        -- as of when
  rate         double precision NOT NULL,   -- calls a second
  room         double precision NOT NULL,   -- the most that may be spent at one time
  debit        double precision NOT NULL,   -- of the last exchange: what was charged or given back,
  want         double precision NOT NULL,   -- what was asked for,
  granted      double precision NOT NULL,   -- what was given
  taker        uuid NOT NULL,               -- the host that asked last for a portion,
  taken_at     timestamptz NOT NULL,        -- when,
  contended_at timestamptz                  -- and when the one before it had asked
) WITH (fillfactor = 50);
