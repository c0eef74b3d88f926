-- Oldest code: 0.1.0
-- Filters of jobs that somebody gave a name, for everybody who looks.

create table saved_view (
  id uuid not null,
  name text not null,
  -- The list of jobs that it opens, and what it looks for there, as the HTTP API writes it.
  page text not null,
  filter jsonb not null,
  created_at timestamptz not null,

  constraint saved_view_pkey primary key (id),
  constraint saved_view_name_once unique (name),
  constraint saved_view_named check (length(name) between 1 and 60),
  constraint saved_view_page_known check (page in ('jobs', 'scheduled', 'retries', 'dead')),
  constraint saved_view_filter_is_object check (jsonb_typeof(filter) = 'object')
);
