-- Whose a plugin's name is: schema, data and settings of that name are open to whoever may load it.
CREATE TABLE public.plugin_owners (
  plugin     text PRIMARY KEY,
  signer     text,                       -- the public key that signed it first; null: it was not signed
  since      timestamptz NOT NULL DEFAULT now(),
  by         jsonb                       -- {kind, id, name} of who accepted another signer; null: the first came by itself
);
