-- Why a person has refused a tool call, and when its caller heard of it.

ALTER TABLE public.mcp_approvals
  ADD COLUMN reason      text CHECK (char_length(reason) BETWEEN 1 AND 500),
  -- A caller hears of a refusal once; then the same call may be asked about again.
  ADD COLUMN reported_at timestamptz;

CREATE INDEX mcp_approvals_denied ON public.mcp_approvals (binding) WHERE state = 'denied' AND reported_at IS NULL;
