-- Oldest code: 0.1.0
-- What the gateway remembers beside jobs: who is signed in, who guessed too often, and what users were told of dead jobs.

-- One sign-in per Telegram user, for all bots.
create table bot_session (
  user_id bigint not null,
  started_at timestamptz not null,
  expires_at timestamptz not null,

  constraint bot_session_pkey primary key (user_id)
);

create index bot_session_expiry on bot_session (expires_at);

-- Wrong codes per user. A guess is counted before it is looked at, so one that stands here may still turn out right.
create table bot_guess (
  user_id bigint not null,
  failures int not null,
  since timestamptz not null,
  locked_until timestamptz,

  constraint bot_guess_pkey primary key (user_id),
  constraint bot_guess_counts check (failures > 0)
);

-- Messages about dead jobs, written down before they are sent: sending cannot be undone and must not be repeated. There is no
-- foreign key: a job may be purged before its letter is forgotten.
create table bot_dead_letter (
  job_id uuid not null,
  chat_id bigint not null,
  intended_at timestamptz not null,
  settled_at timestamptz,
  bot text not null,
  state text not null,

  constraint bot_dead_letter_pkey primary key (job_id),
  constraint bot_dead_letter_state_known check (state in ('intended', 'sent', 'refused', 'unknown', 'withdrawn')),
  constraint bot_dead_letter_end_is_dated check ((state = 'intended') = (settled_at is null))
);

create index bot_dead_letter_intended on bot_dead_letter (intended_at);
