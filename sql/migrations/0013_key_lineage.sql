-- Which key a key was made with, so that revoking a key takes along what was made with it, and so that both share a rate.

ALTER TABLE public.admin_api_keys
  -- NULL: made by a login or a JWT, or before this column was here. A rotation points the keys that were made with the
  -- old key at its successor.
  ADD COLUMN made_by_key_id uuid REFERENCES public.admin_api_keys,
  -- The first key of its rotations: on this key's budget its calls count. NULL: it is the first itself. While a key and
  -- its successor overlap, they go no faster together than one of them.
  ADD COLUMN budget_key_id  uuid REFERENCES public.admin_api_keys;

CREATE INDEX admin_api_keys_maker ON public.admin_api_keys (made_by_key_id) WHERE made_by_key_id IS NOT NULL;
