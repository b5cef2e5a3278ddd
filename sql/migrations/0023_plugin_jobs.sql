-- Jobs whose work is a plugin's, and when the host starts some of them.

ALTER TABLE public.jobs
  ADD COLUMN plugin     text,
  ADD COLUMN plugin_job text,                                  -- its name in backend.jobs
  ADD COLUMN resumable  boolean NOT NULL DEFAULT false,        -- goes on after the death of the process that ran it
  ADD COLUMN runs       integer NOT NULL DEFAULT 0,            -- how often it was begun or gone on with
  ADD COLUMN checkpoint jsonb,                                 -- where the next run goes on, in the plugin's words
  ADD COLUMN message    text,                                  -- how far it is, in the plugin's words
  ADD CONSTRAINT jobs_plugin CHECK ((action = 'plugin_job') = (plugin IS NOT NULL AND plugin_job IS NOT NULL));
CREATE INDEX jobs_of_plugin ON public.jobs (plugin, plugin_job) WHERE plugin IS NOT NULL AND state IN ('queued', 'running');
-- One run of a job at a time, whatever hosts do.
CREATE UNIQUE INDEX jobs_plugin_running ON public.jobs (plugin, plugin_job) WHERE plugin IS NOT NULL AND state = 'running';

CREATE TABLE public.plugin_schedules (
  plugin   text NOT NULL,
  job      text NOT NULL,
  cron     text NOT NULL,                                      -- as declared: next_at was made from it
  next_at  timestamptz NOT NULL,
  last_at  timestamptz,
  last_job uuid REFERENCES public.jobs ON DELETE SET NULL,
  PRIMARY KEY (plugin, job)
);
CREATE INDEX plugin_schedules_last_job ON public.plugin_schedules (last_job);
