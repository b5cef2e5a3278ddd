Things that the reader of schema.sql lets nobody make, made by hand: what the look at the catalog has to find. Each case is
run as the schema role, unless its name ends in `as superuser`, behind a line with what the look has to say. {core} and
{runtime} stand for roles.

-- a function: plugin_evil.run(plugin_evil.cmd)
CREATE TYPE cmd AS (q text);
CREATE FUNCTION run(c cmd) RETURNS uuid LANGUAGE plpgsql AS $f$ BEGIN EXECUTE c.q; RETURN NULL; END $f$;
CREATE CAST (cmd AS uuid) WITH FUNCTION run(cmd) AS IMPLICIT;
CREATE TABLE door (c cmd REFERENCES public.master_cards (id));
-- a cast: plugin_evil.cmd as uuid
CREATE TYPE cmd AS (q text);
CREATE FUNCTION run(c cmd) RETURNS uuid LANGUAGE plpgsql AS $f$ BEGIN EXECUTE c.q; RETURN NULL; END $f$;
CREATE CAST (cmd AS uuid) WITH FUNCTION run(cmd) AS IMPLICIT;
-- a key to the cards that is not one uuid to their id: door_c_fkey on plugin_evil.door
CREATE TYPE cmd AS (q text);
CREATE FUNCTION run(c cmd) RETURNS uuid LANGUAGE plpgsql AS $f$ BEGIN EXECUTE c.q; RETURN NULL; END $f$;
CREATE CAST (cmd AS uuid) WITH FUNCTION run(cmd) AS IMPLICIT;
CREATE TABLE door (c cmd REFERENCES public.master_cards (id));
-- a cast: plugin_evil.cmd as text
CREATE TYPE cmd AS (q text); CREATE CAST (cmd AS text) WITH INOUT AS IMPLICIT;
-- a cast: plugin_evil.mood as integer
CREATE TYPE mood AS ENUM ('a'); CREATE FUNCTION f(mood) RETURNS int LANGUAGE sql AS 'select 1'; CREATE CAST (mood AS int) WITH FUNCTION f(mood);
-- a function: plugin_evil.f()
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1';
-- a function: plugin_evil.f()
CREATE FUNCTION f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'select 1';
-- a function: plugin_evil.p()
CREATE PROCEDURE p() LANGUAGE sql SECURITY DEFINER AS 'select 1';
-- a function: plugin_evil.a(integer)
CREATE AGGREGATE a (int) (sfunc = int4pl, stype = int);
-- a trigger: t on plugin_evil.items
CREATE TRIGGER t BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
-- a trigger: t on plugin_evil.items
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end';
CREATE CONSTRAINT TRIGGER t AFTER DELETE ON items DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f();
-- a trigger: t on plugin_evil.p
CREATE TABLE p (a int) PARTITION BY LIST (a); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return null; end';
CREATE TRIGGER t AFTER DELETE ON p FOR EACH ROW EXECUTE FUNCTION f();
-- a rule: r on plugin_evil.items
CREATE RULE r AS ON DELETE TO items DO INSTEAD NOTHING;
-- a rule: r on plugin_evil.v
CREATE VIEW v AS SELECT 1 AS a; CREATE RULE r AS ON INSERT TO v DO INSTEAD NOTHING;
-- a policy: p on plugin_evil.items
CREATE POLICY p ON items USING (true);
-- a table with row security: plugin_evil.items
ALTER TABLE items ENABLE ROW LEVEL SECURITY;
-- something that is no table, column, index, sequence, view or type: operator
CREATE OPERATOR === (leftarg = int, rightarg = int, function = int4eq);
-- something that is no table, column, index, sequence, view or type: operator family as superuser
CREATE OPERATOR FAMILY plugin_evil.f USING btree; ALTER OPERATOR FAMILY plugin_evil.f USING btree OWNER TO {schema};
-- something that is no table, column, index, sequence, view or type: collation
CREATE COLLATION c FROM "C";
-- something that is no table, column, index, sequence, view or type: statistics object
CREATE STATISTICS s ON id, v FROM items;
-- something that is no table, column, index, sequence, view or type: text search configuration
CREATE TEXT SEARCH CONFIGURATION c (COPY = pg_catalog.english);
-- something that is no table, column, index, sequence, view or type: text search dictionary
CREATE TEXT SEARCH DICTIONARY d (TEMPLATE = pg_catalog.simple);
-- something that is no table, column, index, sequence, view or type: conversion
CREATE CONVERSION c FOR 'UTF8' TO 'LATIN1' FROM utf8_to_iso8859_1;
-- something of another kind: plugin_evil.mv
CREATE MATERIALIZED VIEW mv AS SELECT 1;
-- a call of plugin_evil.f(uuid): constraint
CREATE FUNCTION f(uuid) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'select true';
CREATE TABLE linked (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL CHECK (f(card_id)));
-- a call of plugin_evil.f(integer): index
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'select 1'; CREATE INDEX ON items (f(id));
-- a call of plugin_evil.f(): a default or generated value
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'; ALTER TABLE items ALTER id SET DEFAULT f();
-- a call of plugin_evil.f(): view
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'; CREATE VIEW v AS SELECT f();
-- a call of plugin_evil.f(text): constraint
CREATE FUNCTION f(text) RETURNS boolean LANGUAGE sql AS 'select true'; CREATE DOMAIN d AS text CHECK (f(VALUE));
-- a call of plugin_evil.f(integer,integer): constraint
CREATE FUNCTION f(int, int) RETURNS boolean LANGUAGE sql AS 'select true'; CREATE OPERATOR === (leftarg = int, rightarg = int, function = f);
ALTER TABLE items ADD CHECK (id === id);
-- a call of query_to_xml(text,boolean,boolean,text): constraint
CREATE TABLE linked (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL,
  CHECK (card_id IS NOT NULL OR query_to_xml('select 1', true, true, '') IS NOT NULL));
-- a call of table_to_xml(regclass,boolean,boolean,text): constraint
ALTER TABLE items ADD CHECK (table_to_xml('pg_class'::regclass, true, true, '') IS NOT NULL);
-- a call of set_config(text,text,boolean): constraint
ALTER TABLE items ADD CHECK (set_config('a.b', 'c', false) IS NOT NULL);
-- a call of pg_sleep(double precision): constraint
ALTER TABLE items ADD CHECK (pg_sleep(10) IS NOT NULL) NOT VALID;
-- a call of current_setting(text): a default or generated value
ALTER TABLE items ALTER v SET DEFAULT current_setting('search_path');
-- a call of pg_advisory_lock(bigint): view
CREATE VIEW v AS SELECT 1 AS a WHERE pg_advisory_lock(1) IS NOT NULL;
-- a call of pg_notify(text,text): view
CREATE VIEW v AS SELECT 1 AS a WHERE pg_notify('a', 'b') IS NOT NULL;
-- a call of lo_from_bytea(oid,bytea): view
CREATE VIEW v AS SELECT lo_from_bytea(0, 'x');
-- a call of public.card_word_keys(text): view as superuser
CREATE VIEW plugin_evil.v AS SELECT public.card_word_keys('x'); ALTER VIEW plugin_evil.v OWNER TO {schema};
-- an expression with xmlexpr: constraint
ALTER TABLE items ADD CHECK (xmlparse(content '<a/>') IS DOCUMENT);
-- a look at public.master_cards: view
CREATE VIEW v AS SELECT title FROM public.master_cards;
-- a look at pg_class: view
CREATE VIEW v AS SELECT relname FROM pg_catalog.pg_class;
-- SELECT to PUBLIC: plugin_evil.items
GRANT SELECT ON items TO PUBLIC;
-- TRIGGER to {runtime}: plugin_evil.items
GRANT TRIGGER ON items TO {runtime};
-- TRUNCATE to {runtime}: plugin_evil.items
GRANT TRUNCATE ON items TO {runtime};
-- SELECT to {runtime}: plugin_evil.items
GRANT SELECT ON items TO {runtime} WITH GRANT OPTION;
-- SELECT to {core}: plugin_evil.items
GRANT SELECT ON items TO {core};
-- SELECT to {core}: plugin_evil.items.id
GRANT SELECT (id) ON items TO {core};
-- USAGE to {core}: plugin_evil.s
CREATE SEQUENCE s; GRANT USAGE ON SEQUENCE s TO {core};
-- USAGE to {core}: type plugin_evil.mood
CREATE TYPE mood AS ENUM ('a'); GRANT USAGE ON TYPE mood TO {core};
-- SELECT to {core}: default privileges
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {core};
-- USAGE on the schema to {core}: plugin_evil as superuser
GRANT USAGE ON SCHEMA plugin_evil TO {core};
-- CREATE on the schema to {runtime}: plugin_evil as superuser
GRANT CREATE ON SCHEMA plugin_evil TO {runtime};
-- a member of the plugin's roles: {core} as superuser
GRANT {schema} TO {core};
-- a member of the plugin's roles: {core} as superuser
GRANT {runtime} TO {core};
-- something that is owned outside of the schema: table public.theirs as superuser
CREATE TABLE public.theirs (); ALTER TABLE public.theirs OWNER TO {schema};
-- something of somebody else's: plugin_evil.theirs as superuser
CREATE TABLE plugin_evil.theirs ();
-- a foreign key to something else: k_id_fkey on plugin_evil.k as superuser
CREATE TABLE plugin_evil.k (id uuid REFERENCES public.admin_users (id)); ALTER TABLE plugin_evil.k OWNER TO {schema};
-- a key to the cards that is not one uuid to their id: k_s_fkey on plugin_evil.k as superuser
ALTER TABLE public.master_cards ADD UNIQUE (title); CREATE TABLE plugin_evil.k (s text REFERENCES public.master_cards (title));
ALTER TABLE plugin_evil.k OWNER TO {schema};
-- a key of somebody else's to a table of the plugin: public.k as superuser
CREATE TABLE public.k (id int REFERENCES plugin_evil.keyed (id));
-- a table that inherits across schemas: plugin_evil.child as superuser
CREATE TABLE public.base (a int); CREATE TABLE plugin_evil.child () INHERITS (public.base); ALTER TABLE plugin_evil.child OWNER TO {schema};
-- an event trigger: e as superuser
CREATE FUNCTION public.ef() RETURNS event_trigger LANGUAGE plpgsql AS 'begin end'; CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION public.ef();
ALTER ROLE {schema} SUPERUSER; ALTER EVENT TRIGGER e OWNER TO {schema}; ALTER ROLE {schema} NOSUPERUSER;
-- a type of another kind: plugin_evil.base as superuser
CREATE TYPE plugin_evil.base;
-- a dependence on type public.mood as superuser
CREATE TYPE public.mood AS ENUM ('a'); CREATE TABLE plugin_evil.k (m public.mood); ALTER TABLE plugin_evil.k OWNER TO {schema};
-- something of another kind: plugin_evil.f as superuser
CREATE FOREIGN DATA WRAPPER w; CREATE SERVER srv FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE plugin_evil.f (a int) SERVER srv;
-- a setting of the schema role as superuser
ALTER ROLE {schema} SET client_encoding = 'SJIS';
-- a partition key that is no column: plugin_evil.p
CREATE TABLE p (id int, z int, t text) PARTITION BY RANGE ((CASE WHEN t IS NULL THEN strpos('aaaa', 'baaa') ELSE 1 END));
-- a value that is computed from constants whenever somebody removes a card: index plugin_evil.i
CREATE TABLE t (v text); CREATE INDEX i ON t (strpos(coalesce('aaaa', v), 'b'));
-- a value that is computed from constants whenever somebody removes a card: index plugin_evil.i
CREATE TABLE t (v text, b bool); CREATE INDEX i ON t (v) WHERE (CASE WHEN b THEN 'aaaa' ELSE v END) ~ 'b';
