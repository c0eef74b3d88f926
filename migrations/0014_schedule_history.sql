-- Oldest code: 0.1.0
-- What schedules did lately. It stands on the schedule's own row, so that it is written with the fire that it tells of, is
-- bounded without anybody sweeping it, and outlives the jobs.

alter table schedule
  -- Newest first, a handful (src/schedule/Outcome.ts).
  add column history jsonb not null default '[]';
