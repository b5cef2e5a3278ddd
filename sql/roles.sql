-- The core's roles and what they may do outside of tables. Runs at every start whose login may make roles, in a
-- transaction of its own; for other logins an administrator runs it once, as the output of
-- `cardinal database bootstrap-sql`. Every statement may be repeated. Names in double braces are filled in by
-- host/crates/schema/src/prepare/roles_sql.rs: roles and the database are quoted identifiers, passwords SCRAM verifiers as literals.
--
-- It may run as a superuser, in a database where the core's owner can make any object. So it names nothing outside of
-- pg_catalog and schema `cardinal`, which the owner cannot write to, and calls no function but the server's own.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$ BEGIN CREATE ROLE {{owner}};      EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{cards}};      EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{core}};       EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{reaper}};     EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{provision}};  EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{role_maker}}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{plugin}};     EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{plugin_ddl}}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;

-- A login of its own, never SET ROLE: whatever runs in a session could go back from that to the role that began it.
ALTER ROLE {{owner}}      LOGIN CONNECTION LIMIT 20 {{owner_password}};
-- Owns public.master_cards and nothing else. PostgreSQL checks a foreign key as the owner of the table that is pointed
-- to, so whatever a plugin smuggles into such a check runs as this role.
ALTER ROLE {{cards}}      NOLOGIN NOINHERIT;
ALTER ROLE {{plugin}}     NOLOGIN;
ALTER ROLE {{plugin_ddl}} NOLOGIN;
-- NOINHERIT: a plugin can make others members of its own role on PostgreSQL 15; the core gains nothing by that.
ALTER ROLE {{core}}       LOGIN NOINHERIT CONNECTION LIMIT 200 {{core_password}};
ALTER ROLE {{reaper}}     LOGIN NOINHERIT CONNECTION LIMIT 20  {{reaper_password}};
-- CREATEROLE amounts to running programs on PostgreSQL 15. So nobody who logs in has it: the provisioner calls the
-- functions at the end of this file, which run as a role without a login.
ALTER ROLE {{provision}}  LOGIN NOINHERIT NOCREATEROLE CONNECTION LIMIT 40 {{provision_password}};
ALTER ROLE {{role_maker}} NOLOGIN CREATEROLE;

-- Whoever runs this makes the functions as their role.
GRANT {{role_maker}} TO CURRENT_USER;
-- To end sessions of plugins' run-time logins: a plugin on PostgreSQL 15 can hold a lock that keeps others from becoming
-- members of its role. Without the right to give this, membership has to do.
DO $$ BEGIN GRANT pg_signal_backend TO {{role_maker}}; EXCEPTION WHEN insufficient_privilege THEN NULL; END $$;
-- So that migrations and grants work on the cards.
GRANT {{cards}} TO {{owner}};
GRANT {{plugin}}, {{plugin_ddl}} TO {{role_maker}} WITH ADMIN OPTION;

-- Nobody gets in, or makes temporary tables, for being in the cluster.
REVOKE ALL ON DATABASE {{database}} FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CONNECT ON DATABASE {{database}} TO {{owner}}, {{core}}, {{reaper}}, {{provision}}, {{plugin}};
GRANT CREATE ON DATABASE {{database}} TO {{provision}};
-- Passed on for as long as it takes to give the cards to their role.
GRANT USAGE, CREATE ON SCHEMA public TO {{owner}} WITH GRANT OPTION;
GRANT USAGE ON SCHEMA public TO {{cards}}, {{core}}, {{reaper}}, {{provision}}, {{plugin}}, {{plugin_ddl}};

-- Large objects would be storage outside of any schema. Only a superuser can close this door.
DO $$ BEGIN
  REVOKE EXECUTE ON FUNCTION pg_catalog.lo_create(oid), pg_catalog.lo_creat(integer), pg_catalog.lo_from_bytea(oid, bytea) FROM PUBLIC;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'plugins can make large objects: a superuser has to revoke EXECUTE on lo_create, lo_creat and lo_from_bytea from PUBLIC';
END $$;

-- Advisory locks lie in the server's one table of locks, of which a session may take as much as there is: then nobody can
-- write or log in any more. Giving them back stays allowed: it is how a session is made clean.
DO $$
DECLARE
  takes_lock regprocedure;
BEGIN
  FOR takes_lock IN
    SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
    AND proname ~ '^pg_(try_)?advisory_(xact_)?lock(_shared)?$' AND has_function_privilege('public', oid, 'EXECUTE')
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', takes_lock);
  END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'plugins can take advisory locks until the server has no room for any lock: a superuser has to revoke EXECUTE on pg_advisory_lock and its like from PUBLIC';
END $$;

-- A message of a gigabyte in the write-ahead log holds up everybody's commits while it is written, and a server that crashes
-- behind one does not come up again: it has to read the record whole.
DO $$
DECLARE
  writes_message regprocedure;
BEGIN
  FOR writes_message IN
    SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
    AND proname = 'pg_logical_emit_message' AND has_function_privilege('public', oid, 'EXECUTE')
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', writes_message);
  END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'plugins can write messages of any size into the write-ahead log: a superuser has to revoke EXECUTE on pg_logical_emit_message from PUBLIC';
END $$;

-- It locks whatever it is asked for, of whoever it is, until the transaction is over: a plugin could keep starts, steps and the
-- removal of other plugins' data waiting.
DO $$
BEGIN
  IF has_function_privilege('public', 'pg_catalog.pg_get_object_address(text, text[], text[])', 'EXECUTE') THEN
    REVOKE EXECUTE ON FUNCTION pg_catalog.pg_get_object_address(text, text[], text[]) FROM PUBLIC;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'plugins can lock objects that are not theirs: a superuser has to revoke EXECUTE on pg_get_object_address from PUBLIC';
END $$;

-- Each call leaves a file, of which a transaction may have any number: while they are removed, the server does not stop, and
-- one that crashed does not start. A backup reads all sessions' tables as they are at one moment by it.
DO $$
BEGIN
  IF has_function_privilege('public', 'pg_catalog.pg_export_snapshot()', 'EXECUTE') THEN
    REVOKE EXECUTE ON FUNCTION pg_catalog.pg_export_snapshot() FROM PUBLIC;
  END IF;
  GRANT EXECUTE ON FUNCTION pg_catalog.pg_export_snapshot() TO {{owner}};
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'plugins can keep the server from stopping and starting by exporting snapshots: a superuser has to revoke EXECUTE on pg_export_snapshot from PUBLIC';
END $$;

-- Each call takes the server's whole table of locks for itself: some sessions that do nothing else make all work on cards take
-- seconds.
DO $$
DECLARE
  looks regprocedure;
BEGIN
  FOREACH looks IN ARRAY ARRAY['pg_blocking_pids(integer)', 'pg_safe_snapshot_blocking_pids(integer)',
                               'pg_isolation_test_session_is_blocked(integer,integer[])']::regprocedure[] LOOP
    IF has_function_privilege('public', looks, 'EXECUTE') THEN
      EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', looks);
    END IF;
  END LOOP;
  GRANT EXECUTE ON FUNCTION pg_catalog.pg_blocking_pids(integer) TO {{owner}}, {{provision}};
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'plugins can lock the server''s table of locks again and again: a superuser has to revoke EXECUTE on pg_blocking_pids and its like from PUBLIC';
END $$;

-- PostgreSQL does not interrupt `jsonb - text[]`, which compares each key with each: a schema.sql could keep a lock on a table
-- that the cards' removal needs. Triggers of the core say it about keys and users.
DO $$
BEGIN
  IF has_function_privilege('public', 'pg_catalog.jsonb_delete(jsonb, text[])', 'EXECUTE') THEN
    REVOKE EXECUTE ON FUNCTION pg_catalog.jsonb_delete(jsonb, text[]) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION pg_catalog.jsonb_delete(jsonb, text[]) TO {{core}}, {{reaper}}, {{owner}};
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'a plugin''s schema.sql can hold a lock that nothing ends: a superuser has to revoke EXECUTE on jsonb_delete(jsonb, text[]) from PUBLIC';
END $$;

-- Sorts and cursors of a plugin write temporary files for as long as there is room on the disk. Where the server has no bound, the
-- maker of roles gives their logins one, which takes a superuser's leave. The leave of all databases stands in one row of the
-- server's, so another database's start may be in the way; it is over when PostgreSQL says so.
DO $$
BEGIN
  FOR attempt IN 1..50 LOOP
    EXIT WHEN has_parameter_privilege({{role_maker_literal}}, 'temp_file_limit', 'SET');
    BEGIN
      GRANT SET ON PARAMETER temp_file_limit TO {{role_maker}};
    EXCEPTION WHEN internal_error OR unique_violation THEN
      -- The row was changed, or made, by another transaction meanwhile.
      NULL;
    END;
  END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
  IF current_setting('temp_file_limit') = '-1' THEN
    RAISE WARNING 'plugins can fill the disk with temporary files: set temp_file_limit for the server, or have a superuser run the output of `cardinal database bootstrap-sql`';
  END IF;
END $$;

-- As defaults of the logins too, since a pooler between may refuse the same as start-up options.
ALTER ROLE {{core}} IN DATABASE {{database}} SET search_path = public, pg_temp;
ALTER ROLE {{core}} IN DATABASE {{database}} SET statement_timeout = '30s';
ALTER ROLE {{core}} IN DATABASE {{database}} SET lock_timeout = '10s';
ALTER ROLE {{core}} IN DATABASE {{database}} SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET search_path = public, pg_temp;
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET statement_timeout = '60s';
-- A plugin's session that keeps the reaper waiting for a whole table is ended after one second (host/crates/schema/src/session_watch.rs).
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET lock_timeout = '2s';
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET idle_in_transaction_session_timeout = '60s';

-- What the provisioner may do about roles: make, close and drop those of plugins, by name, with a plugin's rights and
-- no more. Whatever it is told, no other role is touched.
CREATE SCHEMA IF NOT EXISTS cardinal;
REVOKE ALL ON SCHEMA cardinal FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA cardinal TO {{role_maker}};
GRANT USAGE ON SCHEMA cardinal TO {{provision}};

-- The cards' role and the plugins' schema roles own tables, so no right that is taken from them keeps them from DDL and
-- GRANT on those. They run at run time, in foreign keys' checks and actions, and may change nothing then: a schema role
-- may do so only in its step, where it has logged in. A run-time login has no right to any, but PostgreSQL locks the cards
-- for some statements (CREATE RULE) before it asks. Made anew each time, since replacing a function keeps its owner,
-- and this one runs in everybody's DDL. Only a superuser can make an event trigger.
DO $do$ BEGIN
  DROP EVENT TRIGGER IF EXISTS cardinal_ddl_fence;
  DROP FUNCTION IF EXISTS cardinal.ddl_fence();
  CREATE FUNCTION cardinal.ddl_fence() RETURNS event_trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
  BEGIN
    IF current_user = {{cards_literal}}
       OR starts_with(current_user, {{role_prefix}} || 's_') AND session_user <> current_user
       OR starts_with(session_user, {{role_prefix}} || 'p_') THEN
      RAISE EXCEPTION '% runs no DDL at run time', current_user USING ERRCODE = 'insufficient_privilege';
    END IF;
  END $body$;
  REVOKE ALL ON FUNCTION cardinal.ddl_fence() FROM PUBLIC;
  CREATE EVENT TRIGGER cardinal_ddl_fence ON ddl_command_start EXECUTE FUNCTION cardinal.ddl_fence();
EXCEPTION WHEN insufficient_privilege THEN
  IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'cardinal_ddl_fence' AND evtenabled IN ('O', 'A')) THEN
    RAISE WARNING 'foreign keys could be made to change tables at run time: a superuser has to run the output of `cardinal database bootstrap-sql`';
  END IF;
END $do$;

SET LOCAL ROLE {{role_maker}};

-- A plugin's login may give itself a `role` for the next session, which no function below can take back. What it gives its
-- group is nothing to anybody: nobody logs in as that.
DO $$
DECLARE
  own         name;
  in_database name;
BEGIN
  FOR own, in_database IN
    SELECT r.rolname, d.datname FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase
    WHERE starts_with(r.rolname, {{role_prefix}} || 'p_')
    AND EXISTS (SELECT FROM unnest(s.setconfig) c WHERE split_part(c, '=', 1) IN ('role', 'session_authorization'))
  LOOP
    BEGIN
      IF in_database IS NULL THEN
        EXECUTE format('ALTER ROLE %I RESET ALL', own);
      ELSE
        EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET ALL', own, in_database);
      END IF;
    EXCEPTION WHEN internal_error THEN
      NULL;  -- It changes them at this moment, and harms nobody else by that.
    END;
  END LOOP;
END $$;

-- `plugin` is a plugin's name with `_` for `-` in all of these.
CREATE OR REPLACE FUNCTION cardinal.plugin_role(kind text, plugin text) RETURNS name
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF coalesce(plugin !~ '^[a-z][a-z0-9_]{0,39}$', true) THEN
    RAISE EXCEPTION '% is not the name of a plugin', quote_nullable(plugin) USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RETURN {{role_prefix}} || kind || '_' || plugin;
END $body$;

-- Until when the run-time login is closed, which stands in the role's comment: nobody but the role's maker can write it. NULL
-- where it is not.
CREATE OR REPLACE FUNCTION cardinal.closed_until(plugin text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RETURN (SELECT substring(shobj_description(r.oid, 'pg_authid') FROM '^closed until (.+)$')::timestamptz
          FROM pg_roles r WHERE r.rolname = cardinal.plugin_role('p', plugin));
END $body$;

-- Nobody logs in as the run-time role for so many seconds; the first step after that gives the login back.
CREATE OR REPLACE FUNCTION cardinal.close_runtime_login(plugin text, seconds integer)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  most_tries   CONSTANT integer := 10;
  runtime_role name := cardinal.plugin_role('p', plugin);
BEGIN
  IF coalesce(seconds NOT BETWEEN 0 AND 3600, true) THEN
    RAISE EXCEPTION 'a login is closed for an hour at most' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  -- A transaction of its own that has altered the login would keep everybody else from it.
  PERFORM set_config('lock_timeout', '200ms', true);
  FOR tries IN 1 .. most_tries LOOP
    PERFORM pg_stat_clear_snapshot();
    PERFORM cardinal.end_plugin_sessions(plugin, ARRAY(SELECT pid FROM pg_stat_activity WHERE usename = runtime_role));
    BEGIN
      EXECUTE format('ALTER ROLE %I NOLOGIN', runtime_role);
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      IF tries = most_tries THEN
        RAISE;
      END IF;
    END;
  END LOOP;
  EXECUTE format('COMMENT ON ROLE %I IS %L', runtime_role, 'closed until ' || (now() + seconds * interval '1 s')::text);
END $body$;

-- Also puts back what a plugin changed about its own login: it may set its password and defaults.
CREATE OR REPLACE FUNCTION cardinal.make_plugin_roles(plugin text, schema_login boolean, schema_verifier text, runtime_verifier text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  schema_role  name := cardinal.plugin_role('s', plugin);
  runtime_role name := cardinal.plugin_role('p', plugin);
  own          name;
  setting      text;
  in_database  boolean;
  -- As PostgreSQL keeps them. Those that are missing are set.
  defaults     text[] := ARRAY[format('search_path=%I, pg_temp', 'plugin_' || plugin), 'statement_timeout=15s',
                               'lock_timeout=3s', 'idle_in_transaction_session_timeout=15s'];
BEGIN
  IF NOT coalesce((schema_verifier ~ '^SCRAM-SHA-256\$' OR NOT schema_login) AND runtime_verifier ~ '^SCRAM-SHA-256\$', false) THEN
    RAISE EXCEPTION 'passwords are given as SCRAM verifiers' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  FOREACH own IN ARRAY ARRAY[schema_role, runtime_role] LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_roles r WHERE r.rolname = own);
    BEGIN
      EXECUTE format('CREATE ROLE %I CONNECTION LIMIT 1', own);
    EXCEPTION WHEN duplicate_object THEN NULL;
    END;
  END LOOP;
  -- A bound of the server's own may be a lower one.
  IF current_setting('temp_file_limit') = '-1' AND has_parameter_privilege('temp_file_limit', 'SET') THEN
    defaults := defaults || 'temp_file_limit=4GB'::text;
  END IF;
  -- One at a time: `RESET ALL` fails on `role` and `session_authorization`, which PostgreSQL lets nobody touch in a function with
  -- its owner's rights. Those two a start takes away, see below; until then they keep a plugin from its own tables and nobody
  -- else from anything. The plugins' groups are left alone: nobody logs in as them, so their defaults are nobody's, and a
  -- plugin that changes them all the time would make everybody's steps fail.
  FOR own, setting, in_database IN
    SELECT r.rolname, c, s.setdatabase <> 0
    FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) c
    WHERE r.rolname IN (schema_role, runtime_role)
    AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
    AND split_part(c, '=', 1) NOT IN ('role', 'session_authorization')
  LOOP
    IF own = runtime_role AND in_database AND setting = ANY (defaults) THEN
      defaults := array_remove(defaults, setting);  -- It is there as it shall be.
      CONTINUE;
    END IF;
    BEGIN
      EXECUTE format(CASE WHEN in_database THEN 'ALTER ROLE %I IN DATABASE %I RESET %I' ELSE 'ALTER ROLE %1$I RESET %3$I' END,
                     own, current_database(), split_part(setting, '=', 1));
    EXCEPTION WHEN insufficient_privilege OR internal_error THEN
      NULL;  -- An administrator's, or one that is being changed.
    END;
  END LOOP;
  -- Its password is set whenever it shall log in.
  IF schema_login OR NOT EXISTS (
    SELECT FROM pg_roles r WHERE r.rolname = schema_role AND NOT r.rolcanlogin AND r.rolinherit AND r.rolconnlimit = 4
  ) THEN
    EXECUTE format('ALTER ROLE %I INHERIT CONNECTION LIMIT 4 %s', schema_role,
                   CASE WHEN schema_login THEN format('LOGIN PASSWORD %L', schema_verifier) ELSE 'NOLOGIN' END);
  END IF;
  EXECUTE format('ALTER ROLE %I %s INHERIT PASSWORD %L', runtime_role,
                 CASE WHEN cardinal.closed_until(plugin) > now() THEN 'NOLOGIN' ELSE 'LOGIN' END, runtime_verifier);
  IF NOT pg_has_role(runtime_role, {{plugin_literal}}, 'MEMBER') THEN
    EXECUTE format('GRANT {{plugin}} TO %I', runtime_role);
  END IF;
  IF schema_login THEN
    EXECUTE format('GRANT {{plugin}}, {{plugin_ddl}} TO %I', schema_role);
  ELSE
    PERFORM cardinal.close_plugin_login(plugin);
  END IF;
  FOREACH setting IN ARRAY defaults LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s = %s', runtime_role, current_database(), split_part(setting, '=', 1),
                   CASE WHEN setting LIKE 'search_path=%' THEN split_part(setting, '=', 2) ELSE quote_literal(split_part(setting, '=', 2)) END);
  END LOOP;
END $body$;

-- How many sessions the run-time login may have: the host divides what the server has among the plugins.
CREATE OR REPLACE FUNCTION cardinal.limit_plugin_connections(plugin text, connections integer)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF coalesce(connections NOT BETWEEN 1 AND 64, true) THEN
    RAISE EXCEPTION 'a plugin has 1 to 64 connections' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = cardinal.plugin_role('p', plugin) AND r.rolconnlimit = connections) THEN
    EXECUTE format('ALTER ROLE %I CONNECTION LIMIT %s', cardinal.plugin_role('p', plugin), connections);
  END IF;
END $body$;

-- At the end of a step. The schema stays the caller's to take CREATE on.
CREATE OR REPLACE FUNCTION cardinal.close_plugin_login(plugin text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  schema_role name := cardinal.plugin_role('s', plugin);
BEGIN
  IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = schema_role AND r.rolcanlogin) THEN
    EXECUTE format('ALTER ROLE %I NOLOGIN', schema_role);
  END IF;
  -- Revoking what was not granted is a warning in the server's log.
  IF pg_has_role(schema_role, {{plugin_ddl_literal}}, 'MEMBER') THEN
    EXECUTE format('REVOKE {{plugin_ddl}} FROM %I', schema_role);
  END IF;
  IF pg_has_role(schema_role, {{plugin_literal}}, 'MEMBER') THEN
    EXECUTE format('REVOKE {{plugin}} FROM %I', schema_role);
  END IF;
END $body$;

-- Ends what the schema role still runs in this database, whatever it set of its own time-outs. Called once nobody can log in as it any more,
-- and that is committed. From PostgreSQL 16 on, having made a role is not enough to end its sessions: it takes being a
-- member that inherits, for as long as this takes. Gives how many sessions there were.
CREATE OR REPLACE FUNCTION cardinal.end_plugin_backends(plugin text)
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  schema_role name := cardinal.plugin_role('s', plugin);
  own         integer;
  ended       integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = schema_role AND datname = current_database()) THEN
    RETURN 0;
  END IF;
  EXECUTE format('GRANT %I TO {{role_maker}}', schema_role);
  FOR own IN SELECT pid FROM pg_stat_activity WHERE usename = schema_role AND datname = current_database() LOOP
    PERFORM pg_terminate_backend(own, 5000);
    ended := ended + 1;
  END LOOP;
  EXECUTE format('REVOKE %I FROM {{role_maker}}', schema_role);
  RETURN ended;
END $body$;

-- Ends those of the sessions that are the run-time login's. Gives how many there were.
CREATE OR REPLACE FUNCTION cardinal.end_plugin_sessions(plugin text, sessions integer[])
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  runtime_role name := cardinal.plugin_role('p', plugin);
  is_member    boolean := pg_has_role('pg_signal_backend', 'USAGE');
  own          integer;
  ended        integer := 0;
BEGIN
  IF NOT is_member THEN
    EXECUTE format('GRANT %I TO {{role_maker}}', runtime_role);
  END IF;
  FOR own IN SELECT pid FROM pg_stat_activity
             WHERE pid = ANY (sessions) AND usename = runtime_role LOOP
    PERFORM pg_terminate_backend(own);
    ended := ended + 1;
  END LOOP;
  IF NOT is_member THEN
    EXECUTE format('REVOKE %I FROM {{role_maker}}', runtime_role);
  END IF;
  RETURN ended;
END $body$;

-- PostgreSQL refuses while they own or may use anything: the schema goes first.
CREATE OR REPLACE FUNCTION cardinal.drop_plugin_roles(plugin text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  runtime_role name := cardinal.plugin_role('p', plugin);
BEGIN
  -- It owns nothing, but it may have set default privileges of its own, which would keep it. Takes a member that inherits.
  EXECUTE format('GRANT %I TO {{role_maker}}', runtime_role);
  EXECUTE format('DROP OWNED BY %I', runtime_role);
  EXECUTE format('DROP ROLE %I', cardinal.plugin_role('s', plugin));
  EXECUTE format('DROP ROLE %I', runtime_role);
END $body$;

REVOKE ALL ON FUNCTION cardinal.closed_until(text), cardinal.close_runtime_login(text, integer), cardinal.plugin_role(text, text), cardinal.make_plugin_roles(text, boolean, text, text),
  cardinal.limit_plugin_connections(text, integer), cardinal.close_plugin_login(text), cardinal.end_plugin_backends(text),
  cardinal.end_plugin_sessions(text, integer[]), cardinal.drop_plugin_roles(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cardinal.closed_until(text), cardinal.close_runtime_login(text, integer),
  cardinal.make_plugin_roles(text, boolean, text, text),
  cardinal.limit_plugin_connections(text, integer), cardinal.close_plugin_login(text), cardinal.end_plugin_backends(text),
  cardinal.end_plugin_sessions(text, integer[]), cardinal.drop_plugin_roles(text) TO {{provision}};
RESET ROLE;
