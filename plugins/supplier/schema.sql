-- Runs in this plugin's own schema, once per content of this file; every statement can be repeated.

-- Pages as they were read last. `address` is what was asked for, before redirects.
CREATE TABLE IF NOT EXISTS pages (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  address    text NOT NULL UNIQUE CHECK (length(address) <= 2048),
  product    jsonb NOT NULL,
  fetched_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS pages_fetched_at ON pages (fetched_at);

-- Added later, hence not above: a table that is there already is not made again. What to ask the site whether the page
-- has changed, and which version of the plugin read it: the next one may find more in the same page.
ALTER TABLE pages ADD COLUMN IF NOT EXISTS found_at text;
ALTER TABLE pages ADD COLUMN IF NOT EXISTS etag text;
ALTER TABLE pages ADD COLUMN IF NOT EXISTS last_modified text;
ALTER TABLE pages ADD COLUMN IF NOT EXISTS read_by text;

-- Which cards were enriched from which page. Goes with the card, and with the page.
CREATE TABLE IF NOT EXISTS card_pages (
  card_id     uuid NOT NULL REFERENCES public.master_cards (id) ON DELETE CASCADE,
  page_id     bigint NOT NULL REFERENCES pages (id) ON DELETE CASCADE,
  source_key  text NOT NULL,
  enriched_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (card_id, page_id)
);
CREATE INDEX IF NOT EXISTS card_pages_page ON card_pages (page_id);

-- Feeds and sitemaps that were gone through, and the one that is. A run says with each step that it is alive.
CREATE TABLE IF NOT EXISTS runs (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  address     text NOT NULL CHECK (length(address) <= 2048),
  state       text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
  total       integer,
  done        integer NOT NULL DEFAULT 0,
  enriched    integer NOT NULL DEFAULT 0,
  unmatched   integer NOT NULL DEFAULT 0,
  failed      integer NOT NULL DEFAULT 0,
  problems    jsonb NOT NULL DEFAULT '[]',
  started_by  text NOT NULL,
  started_at  timestamptz NOT NULL DEFAULT now(),
  alive_at    timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);
