-- A plugin's roles and schema. Runs as the provisioner at every schema step, in one transaction; every statement may
-- be repeated. Filled in by host/crates/schema/src/plugin_schema.rs as sql/roles.sql is.

SELECT cardinal.make_plugin_roles({{plugin_name}}, {{schema_login}}, {{schema_password}}, {{runtime_password}});
SELECT cardinal.limit_plugin_connections({{plugin_name}}, {{connections}});

-- The schema stays the provisioner's: a plugin cannot let anybody in, not even the core. The run-time role is let in
-- by the host, once it has looked at what schema.sql left in the catalog.
CREATE SCHEMA IF NOT EXISTS {{schema}};
{{schema_usage}};
-- CREATE is for the schema role's step alone, as its login is.
{{schema_create}};
