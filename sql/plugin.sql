-- A plugin's roles and schema. Runs as the provisioner at every schema step, in one transaction; every statement may
-- be repeated. Filled in by host/src/db/plugin_schema.rs as sql/roles.sql is.

DO $$ BEGIN CREATE ROLE {{schema_role}};  EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE {{runtime_role}}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;

-- A plugin may change its own login's password and defaults; this puts them back.
ALTER ROLE {{schema_role}}  {{schema_login}} INHERIT CONNECTION LIMIT 4 PASSWORD {{schema_password}};
ALTER ROLE {{runtime_role}} LOGIN INHERIT CONNECTION LIMIT 64 PASSWORD {{runtime_password}};
ALTER ROLE {{schema_role}}  RESET ALL;
ALTER ROLE {{runtime_role}} RESET ALL;
ALTER ROLE {{schema_role}}  IN DATABASE {{database}} RESET ALL;
ALTER ROLE {{runtime_role}} IN DATABASE {{database}} RESET ALL;
GRANT {{plugin}}, {{plugin_ddl}} TO {{schema_role}};
GRANT {{plugin}} TO {{runtime_role}};

-- The schema stays the provisioner's: a plugin cannot let anybody in, not even the core.
CREATE SCHEMA IF NOT EXISTS {{schema}};
GRANT USAGE, CREATE ON SCHEMA {{schema}} TO {{schema_role}};
GRANT USAGE ON SCHEMA {{schema}} TO {{runtime_role}};

ALTER ROLE {{runtime_role}} IN DATABASE {{database}} SET search_path = {{schema}}, pg_temp;
ALTER ROLE {{runtime_role}} IN DATABASE {{database}} SET statement_timeout = '15s';
ALTER ROLE {{runtime_role}} IN DATABASE {{database}} SET lock_timeout = '3s';
ALTER ROLE {{runtime_role}} IN DATABASE {{database}} SET idle_in_transaction_session_timeout = '15s';
