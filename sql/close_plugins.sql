-- What a schema role may do in its step alone is taken from those whose step is over, however it ended, and from those
-- that older versions left with it. Runs as the provisioner at every start, after grants.sql, and for one plugin when the
-- process of its step died. Filled in by host/crates/schema/src/plugin_schema/close.rs as sql/roles.sql is.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
DECLARE
  plugin      text;
  place       name;
  schema_role name;
BEGIN
  -- A row that is locked has its step under way: at a start it is left out, for one plugin its end is waited for. Locking
  -- a row keeps others from beginning a step meanwhile.
  FOR plugin IN SELECT replace(s.plugin, '-', '_') FROM public.plugin_schema_state s {{locked_rows}} LOOP
    place := 'plugin_' || plugin;
    schema_role := {{role_prefix}} || 's_' || plugin;
    CONTINUE WHEN NOT EXISTS (
      SELECT FROM pg_roles r, pg_namespace n
      WHERE r.rolname = schema_role AND n.nspname = place AND n.nspowner = current_user::regrole
      AND (r.rolcanlogin OR has_schema_privilege(r.oid, n.oid, 'CREATE')
           OR pg_has_role(r.oid, {{plugin_ddl_literal}}, 'MEMBER') OR pg_has_role(r.oid, {{plugin_literal}}, 'MEMBER'))
    );
    PERFORM cardinal.close_plugin_login(plugin);
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM %I', place, schema_role);
  END LOOP;
END $$;
