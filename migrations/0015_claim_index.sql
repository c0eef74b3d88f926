-- Oldest code: 0.1.0
-- These end in the job's id, so no two of their entries are alike: looking for entries to fold into one costs every job that is
-- stored, and finds nothing.

alter index job_claim set (deduplicate_items = off);
alter index job_key set (deduplicate_items = off);
