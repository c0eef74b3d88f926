-- Oldest code: 0.1.0
-- When a pod first took a job whose kind it does not know, since the job was stored, requeued or last known: from then on it
-- has a day to be found by one that does. Null for nearly all jobs, and then it takes no room.

alter table job add column unknown_since timestamptz;
