-- Oldest code: 0.1.0
--
-- Endpoints of customers, to which webhooks are sent: endpoint.

-- A URL of a customer. The jobs that send to it have its id as their key.
create table endpoint (
  -- UUID version 7: sorts by the time of creation.
  id uuid not null,
  created_at timestamptz not null,
  url text not null,
  -- Whose endpoint it is, in the words of the application. Null if the application has no customers.
  customer text,
  description text not null,
  -- Only webhooks of these types are sent. Null: all.
  types text[],
  -- Signing secrets, the newest first: [{"secret": …, "until": epoch milliseconds or null}].
  secrets jsonb not null,
  -- No webhook is sent from this time on.
  disabled_at timestamptz,
  -- Why: operator, failing or gone.
  disabled_because text,
  -- The first of the attempts that have failed since the last success, and their number. Null and 0 after a success.
  first_failed_at timestamptz,
  failures int not null default 0,
  last_error text,

  constraint endpoint_pkey primary key (id)
);

-- The endpoints of a customer. Used by every send to a customer.
create index endpoint_customer on endpoint (customer, id);

-- Disabled endpoints, newest first. Used by the incidents of Mission Control.
create index endpoint_disabled on endpoint (id) where disabled_at is not null;
