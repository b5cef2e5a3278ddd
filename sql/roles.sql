-- The core's roles and what they may do outside of tables. Runs at every start, in one transaction with the
-- migrations and grants.sql; every statement may be repeated. Names in double braces are filled in by
-- host/src/db/roles.rs: roles and the database are quoted identifiers, passwords SCRAM verifiers as literals.

DO $$ BEGIN CREATE ROLE {{owner}};      EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{core}};       EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{reaper}};     EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{provision}};  EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{plugin}};     EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{plugin_ddl}}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;

ALTER ROLE {{owner}}      NOLOGIN;
ALTER ROLE {{plugin}}     NOLOGIN;
ALTER ROLE {{plugin_ddl}} NOLOGIN;
-- NOINHERIT: a plugin can make others members of its own role on PostgreSQL 15; the core gains nothing by that.
ALTER ROLE {{core}}       LOGIN NOINHERIT CONNECTION LIMIT 200 PASSWORD {{core_password}};
ALTER ROLE {{reaper}}     LOGIN NOINHERIT CONNECTION LIMIT 20  PASSWORD {{reaper_password}};
-- CREATEROLE amounts to running programs on PostgreSQL 15: this login never enters a process that opens a plugin.
ALTER ROLE {{provision}}  LOGIN NOINHERIT CREATEROLE CONNECTION LIMIT 40 PASSWORD {{provision_password}};

-- Whoever runs this makes tables as the owner.
GRANT {{owner}} TO CURRENT_USER;
GRANT {{plugin}}, {{plugin_ddl}} TO {{provision}} WITH ADMIN OPTION;

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
