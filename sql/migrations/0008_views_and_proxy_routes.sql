-- Saved list views, and proxy routes that are set at run time.

CREATE TABLE public.admin_views (
  id         uuid PRIMARY KEY,
  owner_id   uuid NOT NULL REFERENCES public.admin_users,
  name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
  filter     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(filter) = 'object'),  -- query parameters of the list
  sort       text,
  columns    jsonb CHECK (jsonb_typeof(columns) = 'array'),
  version    bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX admin_views_name ON public.admin_views (owner_id, lower(name));

-- One row, or none while nobody has set any: all routes change together, so that no host ever has half of a change.
CREATE TABLE public.proxy_routes (
  one_row    boolean PRIMARY KEY DEFAULT true CHECK (one_row),
  routes     jsonb NOT NULL CHECK (jsonb_typeof(routes) = 'array'),   -- [{prefix, upstream}]
  version    bigint NOT NULL,
  updated_by jsonb NOT NULL,                                          -- {kind, id, name}
  updated_at timestamptz NOT NULL DEFAULT now()
);
