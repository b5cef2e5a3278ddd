-- What keys, sessions and logins share between hosts: lineages both ways, changes that every host must notice at once,
-- and failed logins.

-- A key's rotations are followed from the old key to its successor, revoked ones among them.
CREATE INDEX admin_api_keys_rotation ON public.admin_api_keys (replaces_id) WHERE replaces_id IS NOT NULL;
