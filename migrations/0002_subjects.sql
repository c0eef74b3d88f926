-- Oldest code: 0.1.0
--
-- Subjects: the person or customer whose data a thing holds, for erasure. Every table has a SHA-256 digest of the subject in
-- hexadecimal, so that no table has its text. A job has it in `meta`, which every way to store, move and restore a job carries.
-- Jobs without a subject have no entry in the index, and nothing is written for them.

-- Jobs of a subject that have not been erased. Erasure replaces `meta` by {"subjectErasedAt": time}. `meta` never changes otherwise, so
-- that claims stay free of index writes.
create index job_subject on job ((meta->>'subjectDigest')) where meta ? 'subjectDigest';

-- Used by erasure: what was kept of changed jobs, and of deleted jobs of a subject.
create index job_undo_job on job_undo (job_id);
create index job_undo_subject on job_undo ((before->'meta'->>'subjectDigest')) where before->'meta' ? 'subjectDigest';

alter table batch add column subject text;
alter table schedule add column subject text;
alter table upload add column subject text;

-- Used by erasure. Schedules are few.
create index batch_subject on batch (subject) where subject is not null;
create index upload_subject on upload (subject) where subject is not null;

-- What the `meta` of a job says about its subject, which the caller names: meta => subject('customer:42') in enqueue() and publish().
-- Empty without one.
create function subject(name text) returns jsonb
language plpgsql immutable parallel safe
set search_path from current
as $$
begin
  -- Erasure takes no others. It counts characters outside the Basic Multilingual Plane, such as emoji, as two.
  if length(regexp_replace(subject.name, '[\U00010000-\U0010FFFF]', 'xx', 'g')) not between 1 and 512 then
    raise exception 'subject must be 1 to 512 characters long' using errcode = 'invalid_parameter_value';
  end if;
  return subject_meta(encode(sha256(convert_to(subject.name, 'UTF8')), 'hex'));
end
$$;

-- The same for a digest.
create function subject_meta(digest text) returns jsonb
language sql immutable parallel safe
begin atomic
  select case when $1 is null then '{}'::jsonb else jsonb_build_object('subjectDigest', $1) end;
end;
