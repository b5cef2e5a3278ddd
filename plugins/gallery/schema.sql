-- Runs in this plugin's own schema, once per content of this file; every statement can be repeated.

-- Thumbnails, and what kept a picture from becoming one (`failure`, a text for people, and `code`). `address` is the
-- SHA-256 of the picture's address, `width` and `height` are those of the original.
CREATE TABLE IF NOT EXISTS thumbnails (
  id      bigint GENERATED ALWAYS AS IDENTITY,
  address bytea NOT NULL,
  size    integer NOT NULL,
  jpeg    bytea,
  width   integer,
  height  integer,
  code    text,
  failure text,
  made_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (address, size),
  CHECK ((jpeg IS NULL) <> (failure IS NULL))
);
CREATE INDEX IF NOT EXISTS thumbnails_id ON thumbnails (id);
