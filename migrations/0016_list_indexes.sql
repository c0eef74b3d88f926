-- Oldest code: 0.1.0
-- Lists show the newest first, and a hot queue puts any number of its own jobs on top: what waits for its time, what waits for
-- another try and what died must be found below them without reading them. A job that is due when it is stored and runs
-- through enters neither index, and a claim writes no column of theirs, so the hot way does not know of them.

create index job_waiting on job (id) where finished_at is null and (run_at > created_at or last_error is not null);
create index job_dead_newest on job (id) where dead_reason is not null;
