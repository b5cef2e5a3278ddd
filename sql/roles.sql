-- The core's roles and what they may do outside of tables. Runs at every start whose login may make roles, in one
-- transaction with the migrations and grants.sql; for other logins an administrator runs it once, as the output of
-- `cardinal database bootstrap-sql`. Every statement may be repeated. Names in double braces are filled in by
-- host/src/db/roles.rs: roles and the database are quoted identifiers, passwords SCRAM verifiers as literals.

DO $$ BEGIN CREATE ROLE {{owner}};      EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{core}};       EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{reaper}};     EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{provision}};  EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{role_maker}}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{plugin}};     EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{plugin_ddl}}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;

ALTER ROLE {{owner}}      {{owner_login}};
ALTER ROLE {{plugin}}     NOLOGIN;
ALTER ROLE {{plugin_ddl}} NOLOGIN;
-- NOINHERIT: a plugin can make others members of its own role on PostgreSQL 15; the core gains nothing by that.
ALTER ROLE {{core}}       LOGIN NOINHERIT CONNECTION LIMIT 200 PASSWORD {{core_password}};
ALTER ROLE {{reaper}}     LOGIN NOINHERIT CONNECTION LIMIT 20  PASSWORD {{reaper_password}};
-- CREATEROLE amounts to running programs on PostgreSQL 15. So nobody who logs in has it: the provisioner calls the
-- functions at the end of this file, which run as a role without a login.
ALTER ROLE {{provision}}  LOGIN NOINHERIT NOCREATEROLE CONNECTION LIMIT 40 PASSWORD {{provision_password}};
ALTER ROLE {{role_maker}} NOLOGIN CREATEROLE;

-- Whoever runs this makes tables as the owner, and the functions as their role.
GRANT {{owner}}, {{role_maker}} TO CURRENT_USER;
GRANT {{plugin}}, {{plugin_ddl}} TO {{role_maker}} WITH ADMIN OPTION;

-- Nobody gets in, or makes temporary tables, for being in the cluster.
REVOKE ALL ON DATABASE {{database}} FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CONNECT ON DATABASE {{database}} TO {{owner}}, {{core}}, {{reaper}}, {{provision}}, {{plugin}};
GRANT CREATE ON DATABASE {{database}} TO {{provision}};
GRANT USAGE, CREATE ON SCHEMA public TO {{owner}};
GRANT USAGE ON SCHEMA public TO {{core}}, {{reaper}}, {{provision}}, {{plugin}}, {{plugin_ddl}};

-- Large objects would be storage outside of any schema. Only a superuser can close this door.
DO $$ BEGIN
  REVOKE EXECUTE ON FUNCTION pg_catalog.lo_create(oid), pg_catalog.lo_creat(integer), pg_catalog.lo_from_bytea(oid, bytea) FROM PUBLIC;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'plugins can make large objects: a superuser has to revoke EXECUTE on lo_create, lo_creat and lo_from_bytea from PUBLIC';
END $$;

-- As defaults of the logins too, since a pooler between may refuse the same as start-up options.
ALTER ROLE {{core}} IN DATABASE {{database}} SET search_path = public, pg_temp;
ALTER ROLE {{core}} IN DATABASE {{database}} SET statement_timeout = '30s';
ALTER ROLE {{core}} IN DATABASE {{database}} SET lock_timeout = '10s';
ALTER ROLE {{core}} IN DATABASE {{database}} SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET search_path = public, pg_temp;
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET statement_timeout = '60s';
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET lock_timeout = '10s';
ALTER ROLE {{reaper}} IN DATABASE {{database}} SET idle_in_transaction_session_timeout = '60s';

-- What the provisioner may do about roles: make, close and drop those of plugins, by name, with a plugin's rights and
-- no more. Whatever it is told, no other role is touched.
CREATE SCHEMA IF NOT EXISTS cardinal;
REVOKE ALL ON SCHEMA cardinal FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA cardinal TO {{role_maker}};
GRANT USAGE ON SCHEMA cardinal TO {{provision}};
SET LOCAL ROLE {{role_maker}};

-- `plugin` is a plugin's name with `_` for `-` in all of these.
CREATE OR REPLACE FUNCTION cardinal.plugin_role(kind text, plugin text) RETURNS name
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  IF coalesce(plugin !~ '^[a-z][a-z0-9_]{0,39}$', true) THEN
    RAISE EXCEPTION '% is not the name of a plugin', quote_nullable(plugin) USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RETURN {{role_prefix}} || kind || '_' || plugin;
END $body$;

-- Also puts back what a plugin changed about its own login: it may set its password and defaults.
CREATE OR REPLACE FUNCTION cardinal.make_plugin_roles(plugin text, schema_login boolean, schema_verifier text, runtime_verifier text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  schema_role  name := cardinal.plugin_role('s', plugin);
  runtime_role name := cardinal.plugin_role('p', plugin);
  own          name;
  setting      text;
BEGIN
  IF NOT coalesce(schema_verifier ~ '^SCRAM-SHA-256\$' AND runtime_verifier ~ '^SCRAM-SHA-256\$', false) THEN
    RAISE EXCEPTION 'passwords are given as SCRAM verifiers' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  FOREACH own IN ARRAY ARRAY[schema_role, runtime_role] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I', own);
    EXCEPTION WHEN duplicate_object THEN NULL;
    END;
    EXECUTE format('ALTER ROLE %I RESET ALL', own);
    EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET ALL', own, current_database());
  END LOOP;
  EXECUTE format('ALTER ROLE %I %s INHERIT CONNECTION LIMIT 4 PASSWORD %L', schema_role,
                 CASE WHEN schema_login THEN 'LOGIN' ELSE 'NOLOGIN' END, schema_verifier);
  EXECUTE format('ALTER ROLE %I LOGIN INHERIT CONNECTION LIMIT 64 PASSWORD %L', runtime_role, runtime_verifier);
  EXECUTE format('GRANT {{plugin}}, {{plugin_ddl}} TO %I', schema_role);
  EXECUTE format('GRANT {{plugin}} TO %I', runtime_role);
  FOREACH setting IN ARRAY ARRAY[
    format('search_path = %I, pg_temp', 'plugin_' || plugin),
    'statement_timeout = ''15s''', 'lock_timeout = ''3s''', 'idle_in_transaction_session_timeout = ''15s'''
  ] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s', runtime_role, current_database(), setting);
  END LOOP;
END $body$;

CREATE OR REPLACE FUNCTION cardinal.close_plugin_login(plugin text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  EXECUTE format('ALTER ROLE %I NOLOGIN', cardinal.plugin_role('s', plugin));
END $body$;

-- PostgreSQL refuses while they own or may use anything: the schema goes first.
CREATE OR REPLACE FUNCTION cardinal.drop_plugin_roles(plugin text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  EXECUTE format('DROP ROLE %I', cardinal.plugin_role('s', plugin));
  EXECUTE format('DROP ROLE %I', cardinal.plugin_role('p', plugin));
END $body$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cardinal FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cardinal.make_plugin_roles(text, boolean, text, text), cardinal.close_plugin_login(text),
  cardinal.drop_plugin_roles(text) TO {{provision}};
RESET ROLE;
