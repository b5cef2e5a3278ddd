-- Work that outlives a request: bulk actions and imports. A job belongs to the host that holds its lease; every step
-- is one transaction that also counts it, and only the holder can commit one.
CREATE TABLE public.jobs (
  id              uuid PRIMARY KEY,                            -- UUIDv7: newest last
  action          text NOT NULL,
  state           text NOT NULL DEFAULT 'queued'
                  CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'interrupted')),
  user_id         uuid NOT NULL REFERENCES public.admin_users,
  actor           jsonb NOT NULL,                              -- {kind, id, name} of who started it
  credential      jsonb NOT NULL,                              -- with what, so that its rights can be asked for again; no secret
  request_id      text NOT NULL,
  args            jsonb NOT NULL,
  done            bigint NOT NULL DEFAULT 0,
  failed          bigint NOT NULL DEFAULT 0,
  total           bigint,                                      -- NULL = not known yet
  counts          jsonb NOT NULL DEFAULT '{}',                 -- what became of those that are done
  notes           jsonb NOT NULL DEFAULT '[]',
  reason          text,                                        -- why it ended before its end
  next_part       integer NOT NULL DEFAULT 0,                  -- of job_parts
  next_item       integer NOT NULL DEFAULT 0,                  -- in that part, where items are done one by one
  begun           integer NOT NULL DEFAULT 0,                  -- items from next_item on that were begun and not counted
  host_id         uuid,                                        -- the host that runs it, or ran it last
  runner          uuid,                                        -- that host's process: it dies, the host comes back
  lease_until     timestamptz,
  cancel_asked_at timestamptz,
  created_at      timestamptz NOT NULL DEFAULT now(),
  started_at      timestamptz,
  finished_at     timestamptz
) WITH (fillfactor = 50);
CREATE INDEX jobs_open ON public.jobs (id) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_request ON public.jobs (request_id);

-- The cards of a bulk action, as they were picked when it began. A part is what one transaction does.
CREATE TABLE public.job_parts (
  job_id uuid NOT NULL REFERENCES public.jobs ON DELETE CASCADE,
  number integer NOT NULL,
  ids    uuid[] NOT NULL,
  PRIMARY KEY (job_id, number)
);
ALTER TABLE public.job_parts ALTER COLUMN ids SET STORAGE EXTERNAL;  -- ids don't compress

CREATE TABLE public.job_errors (
  job_id uuid NOT NULL REFERENCES public.jobs ON DELETE CASCADE,
  number bigint NOT NULL,
  error  jsonb NOT NULL,
  PRIMARY KEY (job_id, number)
);

-- Rows of an import that can't be written yet (all or nothing) or won't be (a dry run, which keeps the SKUs alone).
-- An import ends with its host, so nothing here is worth a write-ahead log.
CREATE UNLOGGED TABLE public.import_rows (
  job_id uuid NOT NULL,
  line   bigint NOT NULL,
  sku    text COLLATE "C" NOT NULL,
  row    text                                                  -- NULL in a dry run
);
CREATE INDEX import_rows_sku ON public.import_rows (job_id, sku);
CREATE INDEX import_rows_line ON public.import_rows (job_id, line);
