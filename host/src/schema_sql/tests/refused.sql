
-- CREATE FUNCTION
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1';
-- CREATE PROCEDURE
CREATE PROCEDURE f() LANGUAGE sql AS 'select 1';
-- CREATE AGGREGATE
CREATE AGGREGATE f (int) (sfunc = int4pl, stype = int);
-- CREATE TRIGGER
CREATE TRIGGER t AFTER DELETE ON items FOR EACH ROW EXECUTE FUNCTION f();
-- CREATE RULE
CREATE RULE r AS ON DELETE TO items DO INSTEAD NOTHING;
-- CREATE CAST
CREATE CAST (cmd AS uuid) WITH FUNCTION run(cmd) AS IMPLICIT;
-- CREATE OPERATOR
CREATE OPERATOR = (leftarg = cmd, rightarg = cmd, function = f);
-- CREATE OPERATOR CLASS
CREATE OPERATOR CLASS c DEFAULT FOR TYPE cmd USING btree AS OPERATOR 1 <;
-- CREATE POLICY
CREATE POLICY p ON t USING (true);
-- CREATE EVENT TRIGGER
CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f();
-- CREATE EXTENSION
CREATE EXTENSION dblink;
-- CREATE SCHEMA
CREATE SCHEMA s;
-- CREATE ROLE
CREATE ROLE r;
-- CREATE USER
CREATE USER r;
-- CREATE COLLATION
CREATE COLLATION c FROM "C";
-- CREATE STATISTICS
CREATE STATISTICS s ON a, b FROM t;
-- CREATE MATERIALIZED VIEW
CREATE MATERIALIZED VIEW mv AS SELECT 1;
-- CREATE TABLE AS
CREATE TABLE x AS SELECT 1;
-- CREATE FOREIGN TABLE
CREATE FOREIGN TABLE f (a int) SERVER s;
-- CREATE LANGUAGE
CREATE LANGUAGE plpython3u;
-- CREATE PUBLICATION
CREATE PUBLICATION p FOR ALL TABLES;
-- CREATE SUBSCRIPTION
CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p;
-- CREATE TRANSFORM
CREATE TRANSFORM FOR int LANGUAGE sql (FROM SQL WITH FUNCTION f(internal));
-- CREATE DATABASE
CREATE DATABASE d;
-- CREATE TABLESPACE
CREATE TABLESPACE t LOCATION '/tmp';
-- CREATE ACCESS METHOD
CREATE ACCESS METHOD m TYPE INDEX HANDLER h;
-- DO at line 1
DO $$ BEGIN PERFORM 1; END $$;
-- CALL at
CALL f();
-- SET at
SET search_path = public;
-- SET at
SET LOCAL statement_timeout = 0;
-- SET ROLE
SET ROLE other;
-- SET CONSTRAINTS
SET CONSTRAINTS ALL DEFERRED;
-- RESET at
RESET ALL;
-- SHOW
SHOW server_version;
-- GRANT
GRANT ALL ON items TO PUBLIC;
-- REVOKE
REVOKE ALL ON items FROM x;
-- ALTER DEFAULT PRIVILEGES
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC;
-- COPY
COPY items FROM '/etc/passwd';
-- COPY
COPY items TO PROGRAM 'id';
-- BEGIN
BEGIN;
-- COMMIT TRANSACTION
COMMIT;
-- ROLLBACK TRANSACTION
ROLLBACK;
-- SAVEPOINT
SAVEPOINT a;
-- PREPARE
PREPARE TRANSACTION 'x';
-- PREPARE
PREPARE p AS SELECT 1;
-- EXECUTE
EXECUTE p;
-- DECLARE
DECLARE c CURSOR FOR SELECT 1;
-- LISTEN
LISTEN x;
-- NOTIFY
NOTIFY x, 'y';
-- LOCK
LOCK TABLE items;
-- TRUNCATE
TRUNCATE items;
-- VACUUM
VACUUM items;
-- ANALYZE
ANALYZE items;
-- CLUSTER
CLUSTER items;
-- REINDEX
REINDEX TABLE items;
-- EXPLAIN
EXPLAIN ANALYZE SELECT 1;
-- LOAD
LOAD 'x';
-- CHECKPOINT
CHECKPOINT;
-- DISCARD
DISCARD ALL;
-- MERGE
MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE;
-- SELECT INTO
SELECT * INTO x FROM t;
-- SECURITY LABEL
SECURITY LABEL ON TABLE t IS 'x';
-- DROP OWNED
DROP OWNED BY x;
-- REASSIGN
REASSIGN OWNED BY x TO y;
-- REFRESH
REFRESH MATERIALIZED VIEW v;
-- IMPORT FOREIGN SCHEMA
IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z;
-- ALTER SYSTEM
ALTER SYSTEM SET fsync = off;
-- ALTER ROLE
ALTER ROLE x SUPERUSER;
-- ALTER FUNCTION
ALTER FUNCTION f() SECURITY DEFINER;
-- DROP FUNCTION
DROP FUNCTION f();
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
-- ENABLE RLS
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
-- the function public.card_search_keys
SELECT public.card_search_keys('x');
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
-- ROWS FROM ITEM
SELECT * FROM ROWS FROM (generate_series(1, 2));
-- OPERATOR CALL
SELECT 1 OPERATOR(pg_catalog.+) 2;
-- OPERATOR CALL
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
-- BASE TYPE
CREATE TYPE t (input = f, output = g);
-- an option called user_catalog_table
CREATE TABLE t (a int) WITH (user_catalog_table = true);
-- an index method called evil
CREATE INDEX ON t USING evil (a);
-- a query with a name of PostgreSQL's own
WITH pg_class AS (SELECT 1) SELECT * FROM pg_class;
-- WHERE CURRENT OF
DELETE FROM t WHERE CURRENT OF c;
-- TABLE at line 1
TABLE t;
-- COLUMN DEF LIST
SELECT * FROM jsonb_each('{}') AS (a int);
-- RETURNING OPTION LIST
INSERT INTO t (a) VALUES (1) RETURNING WITH (OLD AS o) a;
-- NAMED ARG
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
