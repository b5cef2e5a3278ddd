-- Runs in this plugin's own schema, once per content of this file; every statement can be repeated.

-- How complete each card was when it was looked at last. `missing` has the names of the rules that it breaks.
CREATE TABLE IF NOT EXISTS scores (
  card_id    uuid PRIMARY KEY REFERENCES public.master_cards (id) ON DELETE CASCADE,
  score      smallint NOT NULL CHECK (score BETWEEN 0 AND 100),
  missing    text[] NOT NULL,
  version    bigint NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS scores_score ON scores (score, card_id);

-- One row: how far the walk over all cards is, by which rules it goes, which host goes it, and how far card events are
-- dealt with.
CREATE TABLE IF NOT EXISTS walk (
  id           integer PRIMARY KEY CHECK (id = 1),
  rules        text NOT NULL DEFAULT '',
  next_cursor  text,
  done         bigint NOT NULL DEFAULT 0,
  total        bigint,
  started_at   timestamptz,
  finished_at  timestamptz,
  event_cursor bigint,
  holder       uuid,
  held_until   timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO walk (id) VALUES (1) ON CONFLICT DO NOTHING;
