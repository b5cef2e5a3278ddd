Files that the reader of schema.sql refuses, each behind a line with what the refusal has to say. The first dozen are the
attacks that once worked; each of the later ones is one thing that is not on the list.

-- CREATE FUNCTION at line 2
CREATE TYPE cmd AS (q text);
CREATE FUNCTION run(c cmd) RETURNS uuid LANGUAGE plpgsql AS $f$
BEGIN EXECUTE c.q; RETURN (SELECT id FROM public.master_cards LIMIT 1); END $f$;
CREATE CAST (cmd AS uuid) WITH FUNCTION run(cmd) AS IMPLICIT;
CREATE TABLE door (c cmd REFERENCES public.master_cards (id));
-- a key to the cards that is no uuid
CREATE TYPE cmd AS (q text);
CREATE TABLE door (c cmd REFERENCES public.master_cards (id));
-- a name in another schema
DROP TABLE public.core_migrations;
-- CREATE FUNCTION
CREATE TABLE plain (id int);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO plain VALUES (1); RETURN NULL; END $f$;
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON plain DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f();
INSERT INTO plain VALUES (1);
-- CREATE FUNCTION
CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (p int REFERENCES parent ON DELETE CASCADE);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin create table made_at_run_time (); return old; end';
CREATE TRIGGER t BEFORE DELETE ON child FOR EACH ROW EXECUTE FUNCTION f();
-- CREATE FUNCTION
CREATE FUNCTION f(uuid) RETURNS boolean LANGUAGE plpgsql AS 'begin perform set_config(''default_transaction_read_only'', ''on'', false); return true; end';
CREATE TABLE linked (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL CHECK (f(card_id)));
-- the function f
CREATE TABLE linked (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL CHECK (f(card_id)));
-- the function f
CREATE INDEX ON items (f(id));
-- the function set_config
CREATE TABLE t (a int); SELECT set_config('statement_timeout', '0', false), set_config('client_connection_check_interval', '0', false);
-- the function pg_sleep
CREATE TABLE t (card_id uuid REFERENCES public.master_cards); INSERT INTO t SELECT NULL FROM pg_sleep(600);
-- the function query_to_xml
CREATE TABLE t (card_id uuid REFERENCES public.master_cards ON DELETE SET NULL, CHECK (card_id IS NOT NULL OR query_to_xml('select set_config(''a.b'', ''c'', false)', true, true, '') IS NOT NULL));
-- the function cursor_to_xml
CREATE VIEW v AS SELECT cursor_to_xml('c', 1, true, true, '');
-- the function table_to_xml
CREATE TABLE t (a text DEFAULT table_to_xml('t', true, true, ''));
-- the function schema_to_xml
SELECT schema_to_xml('public', true, true, '');
-- the function query_to_xmlschema
SELECT query_to_xmlschema('select 1', true, true, '');
-- the function lo_get
SELECT lo_get(1);
-- the function lo_from_bytea
SELECT lo_from_bytea(0, 'x');
-- the function pg_ls_dir
SELECT * FROM pg_ls_dir('/');
-- the function pg_stat_file
SELECT pg_stat_file('/etc/passwd');
-- the function pg_cancel_backend
SELECT pg_cancel_backend(1);
-- the function pg_reload_conf
SELECT pg_reload_conf();
-- the function pg_rotate_logfile
SELECT pg_rotate_logfile();
-- the function pg_export_snapshot
SELECT pg_export_snapshot();
-- the function pg_advisory_xact_lock
SELECT pg_advisory_xact_lock(1);
-- the function txid_current
SELECT txid_current();
-- the function pg_switch_wal
SELECT pg_switch_wal();
-- the function pg_create_logical_replication_slot
SELECT pg_create_logical_replication_slot('a','b');
-- the function pg_logical_emit_message
SELECT pg_logical_emit_message(false, 'a', 'b');
-- the function ts_rewrite
SELECT ts_rewrite('a', 'select 1, 2');
-- the function ts_rank
SELECT ts_rank(to_tsvector('simple', 'a'), to_tsquery('simple', 'a'));
-- the function ts_headline
SELECT ts_headline('a', to_tsquery('simple', 'a'));
-- the function tsquery_phrase
SELECT tsquery_phrase(to_tsquery('a'), to_tsquery('b'));
-- phraseto_tsquery of a text of any length
CREATE TABLE t (v text); SELECT phraseto_tsquery('simple', v) FROM t;
-- to_tsquery of a text of any length
CREATE TABLE t (v text); CREATE INDEX ON t (length(to_tsquery(v)::text));
-- the function pg_get_viewdef
SELECT pg_get_viewdef('v'::regclass);
-- the function inet_server_addr
SELECT inet_server_addr();
-- the function version
SELECT version();
-- the function lpad
CREATE TABLE t (a text CHECK (lpad('x', 1000000000) <> ''));
-- the function array_fill
SELECT array_fill(1, ARRAY[100000000]);
-- the function factorial
SELECT factorial(100000);
-- the function pg_typeof_own
SELECT pg_typeof_own(1);
-- the type pg_catalog.xml
CREATE VIEW v AS SELECT '<a/>'::pg_catalog.xml;
-- the type public.cmd
CREATE VIEW v AS SELECT 1::public.cmd;
-- a name in another schema
CREATE VIEW public.v AS SELECT 1;
-- a name in another schema
CREATE TYPE public.t AS ENUM ('a');
-- a name in another schema
CREATE SEQUENCE pg_temp.s;
-- a name in another schema
CREATE TABLE pg_temp.t (a int);
-- a name in another schema
CREATE TABLE pg_catalog.t (a int);
-- a name in another schema
CREATE INDEX ON pg_catalog.pg_class (relname);
-- a name in another schema
DROP VIEW pg_catalog.pg_roles;
-- a name in another schema
COMMENT ON TABLE public.admin_users IS 'x';
-- a column of something else
COMMENT ON COLUMN public.admin_users.id IS 'x';
-- a column of something else
CREATE SEQUENCE s OWNED BY public.admin_users.id;
-- a use of the cards
CREATE TABLE t () INHERITS (public.master_cards);
-- a use of the cards
CREATE TABLE t PARTITION OF public.master_cards DEFAULT;
-- a use of the cards
DELETE FROM public.master_cards;
-- a use of the cards
DROP TABLE public.master_cards CASCADE;
-- a use of the cards
CREATE VIEW v AS SELECT * FROM public.master_cards;
-- a use of the cards
INSERT INTO t SELECT id FROM public.master_cards;
-- a use of the cards
COMMENT ON TABLE public.master_cards IS 'x';
-- a name in another schema
CREATE TABLE t (a int REFERENCES public.admin_users (id));
-- a name in another schema
CREATE TABLE t (a int REFERENCES plugin_y.t (id));
-- a name in another schema
ALTER TABLE t INHERIT plugin_y.t;
-- a name in another schema
ALTER TABLE t ATTACH PARTITION plugin_y.t DEFAULT;
-- COMMENT ON ROLE
COMMENT ON ROLE postgres IS 'x';
-- COMMENT ON DATABASE
COMMENT ON DATABASE d IS 'x';
-- COMMENT ON FUNCTION
COMMENT ON FUNCTION f() IS 'x';
-- COMMENT ON SCHEMA
COMMENT ON SCHEMA plugin_x IS 'x';
-- ENABLE ALWAYS TRIGGER
ALTER TABLE t ENABLE ALWAYS TRIGGER a;
-- ROW LEVEL SECURITY
ALTER TABLE t FORCE ROW LEVEL SECURITY;
-- ENABLE RULE
ALTER TABLE t ENABLE RULE r;
-- SET ACCESS METHOD
ALTER TABLE t SET ACCESS METHOD heap;
-- SET TABLESPACE
ALTER TABLE t SET TABLESPACE x;
-- OWNER TO
ALTER TYPE mood OWNER TO x;
-- OWNER TO
ALTER VIEW v OWNER TO x;
-- SET SCHEMA
ALTER TYPE mood SET SCHEMA public;
-- SET SCHEMA
ALTER DOMAIN d SET SCHEMA public;
-- an option called
CREATE VIEW v WITH (security_invoker = false) AS SELECT 1;
-- an option called
ALTER VIEW v SET (security_invoker = false);
-- DEPENDS ON EXTENSION
ALTER INDEX i DEPENDS ON EXTENSION e;
-- TABLESAMPLE
SELECT * FROM t TABLESAMPLE system (1);
-- JSON_TABLE
SELECT * FROM JSON_TABLE('{}', '$' COLUMNS (a int PATH '$'));
-- XMLTABLE
SELECT * FROM XMLTABLE('/a' PASSING '<a/>' COLUMNS a int);
-- CYCLE CLAUSE
WITH RECURSIVE c (a) AS (SELECT 1 UNION ALL SELECT a FROM c) CYCLE a SET y USING z SELECT 1;
-- a question who is asking
CREATE VIEW v AS SELECT current_schema;
-- ON COMMIT
CREATE TABLE t (a int) ON COMMIT DROP;
-- SET at
SET search_path = public;
-- SET at
SET LOCAL statement_timeout = 0;
-- COPY
COPY items FROM '/etc/passwd';
-- COPY
COPY items TO PROGRAM 'id';
-- TEMP at
CREATE TEMP TABLE a (a int);
-- TEMP
CREATE TEMP VIEW v AS SELECT 1;
-- RECURSIVE
CREATE RECURSIVE VIEW v (a) AS SELECT 1;
-- CONCURRENTLY
CREATE INDEX CONCURRENTLY i ON t (a);
-- TABLESPACE
CREATE INDEX i ON t (a) TABLESPACE x;
-- OF TYPE
CREATE TABLE x OF y;
-- OWNER TO
ALTER TABLE t OWNER TO x;
-- ROW LEVEL SECURITY
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
-- DISABLE TRIGGER
ALTER TABLE t DISABLE TRIGGER ALL;
-- SET SCHEMA
ALTER TABLE t SET SCHEMA public;
-- CLUSTER ON
ALTER TABLE t CLUSTER ON i;
-- REPLICA IDENTITY
ALTER TABLE t REPLICA IDENTITY FULL;
-- ALL IN TABLESPACE
ALTER TABLE ALL IN TABLESPACE x SET TABLESPACE y;
-- DETACH CONCURRENTLY
ALTER TABLE p DETACH PARTITION q CONCURRENTLY;
-- LOCKING CLAUSE
SELECT a FROM t FOR UPDATE;
-- the function query_to_xml
CREATE TABLE t (a int CHECK (a IS NOT NULL OR query_to_xml('select 1', true, true, '') IS NOT NULL));
-- the function set_config
SELECT set_config('role', 'none', false);
-- the function pg_catalog.set_config
SELECT pg_catalog.set_config('role', 'none', false);
-- the function pg_sleep
SELECT pg_sleep(600);
-- the function pg_sleep
SELECT "pg_sleep"(600);
-- the function lo_import
SELECT lo_import('/etc/passwd');
-- the function dblink
SELECT dblink('x');
-- the function pg_advisory_lock
SELECT pg_advisory_lock(1);
-- the function pg_read_file
SELECT pg_read_file('/etc/passwd');
-- the function pg_terminate_backend
SELECT pg_terminate_backend(1);
-- the function pg_notify
SELECT pg_notify('a', 'b');
-- the function plugin_x.own
SELECT plugin_x.own(1);
-- the function public.card_word_keys
SELECT public.card_word_keys('x');
-- the function repeat
CREATE TABLE t (a text DEFAULT repeat('x', 1000000000));
-- the function current_setting
SELECT current_setting('x');
-- the function has_table_privilege
SELECT has_table_privilege('x', 'y');
-- the function coalesce
SELECT "coalesce"(1, 2);
-- the function ts_stat
SELECT * FROM ts_stat('select 1');
-- the function database_to_xml
SELECT database_to_xml(true, true, '');
-- the function pg_sleep
SELECT * FROM pg_sleep(1) AS x;
-- ROWS FROM
SELECT * FROM ROWS FROM (generate_series(1, 2));
-- OPERATOR(...)
SELECT 1 OPERATOR(pg_catalog.+) 2;
-- OPERATOR(...)
CREATE TABLE t (b int, EXCLUDE USING gist (b WITH OPERATOR(plugin_x.&&)));
-- a question who is asking
SELECT current_user;
-- a question who is asking
SELECT user;
-- a question who is asking
CREATE TABLE t (a text DEFAULT session_user);
-- JSON OBJECT FN
SELECT json_object('a': 1);
-- XML ELEMENT FN
SELECT xmlelement(name foo);
-- a value of this kind
SELECT $1;
-- a value of this kind
SELECT N'x';
-- a value of this kind
SELECT U&'\0041';
-- a name in escapes
SELECT U&"\0041";
-- a number that is not written in digits alone
SELECT 0x1F;
-- a number that is not written in digits alone
SELECT 1_000;
-- an escape
SELECT E'\x41';
-- a name in another schema
CREATE TABLE public.t (a int);
-- a name in another schema
DROP TABLE public.admin_users;
-- a name in another schema
INSERT INTO plugin_y.t VALUES (1);
-- a name in another schema
SELECT * FROM pg_catalog.pg_authid;
-- a name in another schema
SELECT * FROM information_schema.tables;
-- a use of the cards
UPDATE public.master_cards SET title = 'x';
-- a use of the cards
SELECT * FROM public.master_cards;
-- a use of the cards
CREATE INDEX ON public.master_cards (title);
-- a use of the cards
ALTER TABLE public.master_cards ADD a int;
-- a use of the cards
CREATE TABLE t (LIKE public.master_cards INCLUDING ALL);
-- a key to something else of the cards than their id
CREATE TABLE t (a text REFERENCES public.master_cards (sku));
-- a key to the cards that is no uuid
CREATE TABLE door (c cmd REFERENCES public.master_cards (id));
-- a key to the cards that is no uuid
CREATE TABLE door (c uuid[] REFERENCES public.master_cards (id));
-- a key to the cards that is no uuid
CREATE TABLE door (c plugin_x.uuid REFERENCES public.master_cards (id));
-- a key to the cards that is no uuid
CREATE TABLE door (c text, FOREIGN KEY (c) REFERENCES public.master_cards (id));
-- a key to the cards that is not one column
CREATE TABLE door (c uuid, d uuid, FOREIGN KEY (c, d) REFERENCES public.master_cards (id));
-- a key to the cards that is no uuid
ALTER TABLE door ADD c cmd REFERENCES public.master_cards (id);
-- the type public.x
CREATE TABLE t (a public.x);
-- the type pg_catalog.xml
CREATE TABLE t (a pg_catalog.xml);
-- the option canonical of a range type
CREATE TYPE r AS RANGE (subtype = int, canonical = f);
-- the option subtype_diff of a range type
CREATE TYPE r AS RANGE (subtype = float8, subtype_diff = own);
-- a type with functions of its own
CREATE TYPE t (input = f, output = g);
-- an option called user_catalog_table
CREATE TABLE t (a int) WITH (user_catalog_table = true);
-- an index method called evil
CREATE INDEX ON t USING evil (a);
-- a query with a name of PostgreSQL's own
WITH pg_class AS (SELECT 1) SELECT * FROM pg_class;
-- WHERE CURRENT OF
DELETE FROM t WHERE CURRENT OF c;
-- types for the columns of a function
SELECT * FROM jsonb_each('{}') AS (a int);
-- RETURNING WITH
INSERT INTO t (a) VALUES (1) RETURNING WITH (OLD AS o) a;
-- an argument by its name
SELECT make_interval(days => 1);
-- a mistake at line 2, column
SELECT
  FROM FROM;
-- a mistake at line 1, column
CREATE TABLE t (a int;
-- a mistake at
garbage here;
-- a name of more than 63 bytes
CREATE TABLE aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa (a int);
-- empty delimited identifier
CREATE TABLE "" (a int);
-- a function behind a dot
INSERT INTO t SELECT (3::float8).pg_sleep::text;
-- a function behind a dot
INSERT INTO t SELECT (ARRAY['select 1'])[1].ts_stat::text;
-- a function behind a dot
SELECT g.pg_sleep::text FROM generate_series(2, 2) AS g;
-- a function behind a dot
CREATE VIEW v AS SELECT q."pg_advisory_lock" FROM unnest(ARRAY[1::bigint]) q;
-- a function behind a dot
UPDATE t SET a = (a::text).current_setting RETURNING t.query_to_xml;
-- a function behind a dot
CREATE TABLE t (a text CHECK ((a).lo_get IS NULL));
-- a name of PostgreSQL's own at line 1, column 15
SELECT * FROM pg_class;
-- a name of PostgreSQL's own
CREATE VIEW v AS SELECT 1 FROM pg_stat_activity;
-- a name of PostgreSQL's own
CREATE TABLE pg_notes (a int);
-- a name of PostgreSQL's own
ALTER TABLE t RENAME TO pg_t;
-- the type xml
CREATE TABLE t (a xml);
-- the type pg_lsn
CREATE TABLE t (a pg_lsn);
-- the type regproc
SELECT CAST('now' AS regproc);
-- a column of type regclass at line 1, column 19
CREATE TABLE t (a regclass);
-- a column of type regproc
CREATE TABLE t (a pg_catalog.regproc[]);
-- a column of type regconfig
ALTER TABLE t ADD COLUMN a regconfig DEFAULT 'simple';
-- a column of type regclass
ALTER TABLE t ALTER COLUMN a TYPE regclass USING a::regclass;
-- a column of type regconfig
CREATE TYPE pair AS (a int, b regconfig);
-- a column of type regclass
ALTER TYPE pair ADD ATTRIBUTE c regclass;
-- a column of type regtype
CREATE DOMAIN d AS regtype;
-- a column of type regclass
CREATE TYPE span AS RANGE (subtype = regclass);
-- the operator class gin_trgm_ops
CREATE INDEX ON t USING gin (a gin_trgm_ops);
-- the type regclass, called as a function,
SELECT regclass('t');
-- the storage method of a table
CREATE TABLE t (a int) USING heap;
-- the value of an option
CREATE TABLE t (a int) WITH (autovacuum_enabled = null);
-- an option of the TOAST table
CREATE TABLE t (a int) WITH (toast.autovacuum_enabled = false);
-- an escape
SELECT E'a'
  'b\x41';
-- is not a valid binary digit
SELECT B'01'
  '2';
-- expected `)`
CREATE TABLE t (a int, b interval day(3));
-- CREATE TABLE without columns at line 1
CREATE TABLE t;
-- a type without a definition
CREATE TYPE t;
-- ALTER TABLE without an action
ALTER TABLE IF EXISTS t;
-- DROP without a name
DROP TABLE;
-- an attribute without a type
CREATE TYPE size AS (width int, height);
-- a query where PostgreSQL takes none
CREATE TABLE t (a int CHECK (a IN (SELECT 1)));
-- a query where PostgreSQL takes none
CREATE TABLE t (a int DEFAULT (SELECT 1));
-- a query where PostgreSQL takes none
CREATE INDEX ON t ((EXISTS (SELECT 1)));
-- a query where PostgreSQL takes none
CREATE DOMAIN d AS int CHECK (VALUE IN (SELECT 1));
-- a generated column without STORED
CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a * 2));
-- a value in the place of a column
CREATE INDEX ON t (100);
-- columns behind ON UPDATE SET
CREATE TABLE t (a int, b int, FOREIGN KEY (a, b) REFERENCES u ON UPDATE SET NULL (a));
-- a column that every table has already
CREATE TABLE t (xmin int);
-- a second primary key
CREATE TABLE t (a int PRIMARY KEY, b int, PRIMARY KEY (b));
-- column a once more at line 1, column 24
CREATE TABLE t (a int, A text);
-- column a once more
UPDATE t SET a = 1, (b, a) = (1, 2);
-- column a once more
INSERT INTO t (a, a) VALUES (1, 2);
-- DETACH PARTITION on table p, which gets a key to the cards in this file, at line 2, column 15
CREATE TABLE p (k int, card_id uuid REFERENCES public.master_cards) PARTITION BY LIST (k); CREATE TABLE q PARTITION OF p FOR VALUES IN (1);
ALTER TABLE p DETACH PARTITION q;
-- DETACH PARTITION on table q
CREATE TABLE p (k int, j int, card_id uuid) PARTITION BY LIST (k); CREATE TABLE q PARTITION OF p FOR VALUES IN (1) PARTITION BY LIST (j);
ALTER TABLE p ADD FOREIGN KEY (card_id) REFERENCES public.master_cards; ALTER TABLE p RENAME TO r; CREATE TABLE s PARTITION OF q DEFAULT; ALTER TABLE q DETACH PARTITION s;
-- DETACH PARTITION on table q
CREATE TABLE p (k int, j int, card_id uuid) PARTITION BY LIST (k); CREATE TABLE q (k int, j int, card_id uuid) PARTITION BY LIST (j); CREATE TABLE s PARTITION OF q DEFAULT;
ALTER TABLE p ATTACH PARTITION q FOR VALUES IN (1); ALTER TABLE p ADD CONSTRAINT k FOREIGN KEY (card_id) REFERENCES public.master_cards; ALTER TABLE q DETACH PARTITION s;
-- ATTACH PARTITION on table x
CREATE TABLE p (k int, card_id uuid REFERENCES public.master_cards) PARTITION BY LIST (k); ALTER INDEX p RENAME TO x; CREATE TABLE q (k int, card_id uuid); ALTER TABLE x ATTACH PARTITION q FOR VALUES IN (1);
-- ALTER CONSTRAINT on table t, which gets a key to the cards in this file, at line 1
CREATE TABLE t (card_id uuid CONSTRAINT k REFERENCES public.master_cards); ALTER TABLE t ALTER CONSTRAINT k DEFERRABLE;
-- ALTER CONSTRAINT on table t
CREATE TABLE t (card_id uuid); ALTER TABLE t ADD CONSTRAINT k FOREIGN KEY (card_id) REFERENCES public.master_cards, ALTER CONSTRAINT k DEFERRABLE;
-- constraint k once more at line 1, column 92
CREATE TABLE t (card_id uuid CONSTRAINT k REFERENCES public.master_cards, v int CONSTRAINT k CHECK (v > 0));
-- constraint k once more at line 2, column 30
CREATE TABLE t (card_id uuid CONSTRAINT k REFERENCES public.master_cards);
ALTER TABLE t ADD CONSTRAINT k CHECK (card_id IS NOT NULL);
-- constraint k once more
CREATE TABLE t (v int CONSTRAINT k UNIQUE, w int, CONSTRAINT k CHECK (v > w));
