-- Runs in this plugin's own schema, once for each content of this file; every statement can be repeated.
CREATE TABLE IF NOT EXISTS notes (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  card_id uuid NOT NULL REFERENCES public.master_cards (id) ON DELETE CASCADE,
  text    text NOT NULL,
  at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS notes_card ON notes (card_id);
