-- What each run-time role may do with the core's tables. Runs as the owner after every migration; what is not
-- granted here is not allowed, so a new table is closed until a line is written for it.

-- The cards belong to a role of their own, which has no rights but what a foreign key's check takes: to see an id, and
-- UPDATE of any column for locking the row that was found. The owner works on them by rights of its own.
DO $$ BEGIN
  -- Once, since it waits for everybody who is at work on cards.
  IF (SELECT relowner FROM pg_catalog.pg_class WHERE oid = 'public.master_cards'::regclass) <> {{cards_literal}}::regrole THEN
    GRANT CREATE ON SCHEMA public TO {{cards}};
    ALTER TABLE public.master_cards OWNER TO {{cards}};
    REVOKE CREATE ON SCHEMA public FROM {{cards}};
  END IF;
END $$;
REVOKE ALL ON public.master_cards FROM {{cards}};
GRANT ALL ON public.master_cards TO {{owner}};
GRANT SELECT (id), UPDATE (created_at) ON public.master_cards TO {{cards}};

-- Of its own tables only: a database may hold others'.
DO $$
DECLARE own regclass;
BEGIN
  FOR own IN SELECT oid FROM pg_catalog.pg_class
             WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
             AND relowner IN ({{owner_literal}}::regrole, {{cards_literal}}::regrole)
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, {{core}}, {{reaper}}, {{provision}}, {{plugin}}, {{plugin_ddl}}', own);
  END LOOP;
END $$;

-- The core: never DELETE on a card (see the reaper), never UPDATE of an id that other tables point to.
GRANT SELECT, INSERT, UPDATE (title, sku, status, attributes, version, updated_at, deleted_at) ON public.master_cards TO {{core}};
-- Searches look for these keys.
GRANT EXECUTE ON FUNCTION public.card_word_keys(text), public.card_search_key_frequencies() TO {{core}};
REVOKE ALL ON FUNCTION public.card_word_keys(text), public.card_search_keys(text) FROM {{cards}};
-- Those of the versions before, as long as one of their hosts is running.
GRANT EXECUTE ON FUNCTION public.card_search_keys(text), public.card_search_frequent_keys() TO {{core}};
-- Triggers write them.
GRANT SELECT ON public.card_groups, public.card_list_index, public.card_words, public.card_times TO {{core}};
GRANT SELECT, INSERT, UPDATE, DELETE ON public.card_source_index TO {{core}};
GRANT SELECT, INSERT ON public.card_history TO {{core}};
GRANT SELECT, INSERT, UPDATE ON public.admin_users TO {{core}};
GRANT SELECT, INSERT, UPDATE, DELETE ON public.admin_sessions TO {{core}};
GRANT SELECT, INSERT, UPDATE ON public.admin_api_keys TO {{core}};
-- Triggers add to it.
GRANT SELECT, DELETE ON public.identity_changes TO {{core}};
-- Append-only: whoever gets hold of the core's login cannot rewrite what it did. No UPDATE, DELETE or TRUNCATE.
GRANT SELECT, INSERT ON public.admin_audit_log TO {{core}};
GRANT SELECT, INSERT, UPDATE ON public.plugin_state TO {{core}};
GRANT SELECT, INSERT, UPDATE ON public.plugin_owners TO {{core}};
GRANT SELECT, INSERT, UPDATE, DELETE ON public.plugin_versions TO {{core}};
GRANT SELECT, INSERT, UPDATE ON public.plugin_confirmations TO {{core}};
GRANT SELECT, INSERT, DELETE ON public.plugin_service TO {{core}};
GRANT SELECT, INSERT, UPDATE, DELETE ON public.hosts, public.rate_budgets, public.login_failures TO {{core}};
GRANT SELECT, INSERT, DELETE ON public.event_outbox, public.events TO {{core}};
GRANT SELECT, UPDATE ON public.event_numbers TO {{core}};
GRANT SELECT, INSERT, UPDATE, DELETE ON public.admin_views TO {{core}};
GRANT SELECT, INSERT, UPDATE ON public.proxy_routes TO {{core}};
-- What was asked of a person stays as it was asked; the core writes what became of it, and forgets what is long over.
GRANT SELECT, INSERT, UPDATE (state, decided_at, decided_by, reason, reported_at, used_at), DELETE ON public.mcp_approvals TO {{core}};
GRANT SELECT, INSERT, UPDATE, DELETE ON public.jobs, public.job_parts, public.job_errors, public.import_rows TO {{core}};
GRANT SELECT, INSERT, UPDATE ON public.plugin_schedules TO {{core}};
GRANT EXECUTE ON FUNCTION public.number_events(integer), public.forget_events(integer, bigint, interval) TO {{core}};
GRANT SELECT ON public.plugin_schema_state TO {{core}};
GRANT SELECT (plugin, number, sha256, plugin_version, losses, applied_at) ON public.plugin_schema_steps TO {{core}};
GRANT SELECT ON public.core_migrations TO {{core}};

-- The reaper removes cards that are marked as deleted, and sees no more of them than that takes.
GRANT SELECT (id, deleted_at), DELETE ON public.master_cards TO {{reaper}};
-- And lines of the audit log that are past their retention; a trigger keeps the young ones.
GRANT SELECT (seq, at), DELETE ON public.admin_audit_log TO {{reaper}};

-- The provisioner keeps the record of what schema.sql was run, and sees no card.
GRANT SELECT, INSERT, UPDATE, DELETE ON public.plugin_schema_state, public.plugin_schema_steps TO {{provision}};
-- What an operator confirmed; and for a purge: that the plugin is disabled and in service nowhere, and its settings.
GRANT SELECT, UPDATE (used_at), DELETE ON public.plugin_confirmations TO {{provision}};
GRANT SELECT, UPDATE (settings, sealed, settings_version, updated_at) ON public.plugin_state TO {{provision}};
GRANT SELECT ON public.plugin_service, public.hosts TO {{provision}};
GRANT SELECT (plugin), DELETE ON public.plugin_schedules TO {{provision}};

-- Plugins read the one public table; only their schema.sql may point a foreign key at it.
GRANT SELECT ON public.master_cards TO {{plugin}};
GRANT SELECT, REFERENCES (id) ON public.master_cards TO {{plugin_ddl}};
