-- Confirmations of MCP tool calls by a person, and keys that are good for MCP alone.

-- Such a key calls nothing of the admin API, so that what has to be confirmed on MCP cannot be had by another way.
ALTER TABLE public.admin_api_keys ADD COLUMN mcp_only boolean NOT NULL DEFAULT false;

-- What was asked never changes; the core may write what became of it alone (grants.sql).
CREATE TABLE public.mcp_approvals (
  id             uuid PRIMARY KEY,
  -- SHA-256 over caller, tool, arguments and the plugin's package: the call that a decision is good for.
  binding        bytea NOT NULL CHECK (octet_length(binding) = 32),
  -- The key, or the user where no key was shown.
  caller_id      uuid NOT NULL,
  caller         jsonb NOT NULL,             -- {kind, id, name}
  user_id        uuid NOT NULL REFERENCES public.admin_users,
  client_name    text,
  client_version text,
  tool           text NOT NULL,
  title          text,
  plugin         jsonb,                      -- {name, version, sha256}; NULL: a tool of the core
  arguments      text NOT NULL,              -- JSON, with every digit
  difference     text,                       -- JSON: what the call would change of a card, where that can be known
  -- Who is asked first: the client's own user, or a person in the Admin UI. A person may decide either.
  asked          text NOT NULL CHECK (asked IN ('client', 'admin')),
  -- The MCP session that was asked: the answer has to come from there. NULL: of a revision without sessions.
  session        uuid,
  state          text NOT NULL DEFAULT 'pending'
                 CHECK (state IN ('pending', 'approved', 'denied', 'used', 'expired', 'void')),
  request_id     text NOT NULL,
  created_at     timestamptz NOT NULL,
  expires_at     timestamptz NOT NULL,
  decided_at     timestamptz,
  decided_by     jsonb,                      -- {kind, id, name}
  used_at        timestamptz
) WITH (fillfactor = 70);

-- At most one at a time waits for the Admin UI for the same call.
CREATE UNIQUE INDEX mcp_approvals_asked ON public.mcp_approvals (binding) WHERE state = 'pending' AND asked = 'admin';
CREATE INDEX mcp_approvals_approved ON public.mcp_approvals (binding) WHERE state = 'approved';
CREATE INDEX mcp_approvals_pending ON public.mcp_approvals (caller_id, id) WHERE state = 'pending';
CREATE INDEX mcp_approvals_old ON public.mcp_approvals (expires_at);
