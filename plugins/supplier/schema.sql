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
