-- Oldest code: 0.1.0
-- Tokens of workspaces. A token is 256 bits of chance, so its SHA-256 is as hard to turn back as the token is to guess; a
-- slow hash is for what people think up.

create table workspace_token (
  id uuid not null,
  workspace_id text not null,
  -- The token's first characters: enough to tell which one somebody holds, and to find its row.
  prefix text not null,
  hash bytea not null,
  label text not null,
  created_at timestamptz not null,

  constraint workspace_token_pkey primary key (id),
  constraint workspace_token_named check (length(workspace_id) between 1 and 64),
  constraint workspace_token_hashed check (length(hash) = 32),
  constraint workspace_token_label_bounded check (length(label) <= 100)
);

-- Whose it might be.
create index workspace_token_bearer on workspace_token (workspace_id, prefix);
