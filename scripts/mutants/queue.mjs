// Mutants of the statements that store, claim and finish jobs and steps.
import { law, unit } from "./noticed-by.mjs"

export const queue = [
  {
    name: "no-lease-fence",
    what: "a run that lost its lease finishes the job anyway",
    edits: [
      {
        file: "src/queue/JobSql.ts",
        find: '  where j.id = e.id and j.lease = e.lease and ${few("place")}`),\n\n  /** Returns the jobs that did not end',
        replace: '  where j.id = e.id and ${few("place")}`),\n\n  /** Returns the jobs that did not end'
      }
    ],
    tests: [law("zombie's finalize")]
  },
  {
    name: "no-lease-fence-for-results",
    what: "a run that lost its lease stores its failure or result anyway",
    edits: [
      {
        file: "src/queue/JobSql.ts",
        find: "    where j.id = e.id and j.lease = e.lease and not ($16",
        replace: "    where j.id = e.id and j.lease is not null and not ($16"
      }
    ],
    tests: [law("moved on|two ends of a job|zombie")]
  },
  {
    name: "end-of-new-child-not-counted",
    what: "an execution that became a child while it ran ends without waking its parent",
    edits: [
      {
        file: "src/queue/JobSql.ts",
        find: "not ($16::boolean and j.is_child is true)",
        replace: "$16::boolean is not null"
      }
    ],
    tests: [law("becomes a child")]
  },
  {
    name: "claims-paused-queue",
    what: "a claim takes jobs of a paused queue",
    edits: [
      {
        file: "src/queue/claim/ClaimPg.ts",
        find: "row !== undefined && (row.paused || (row.throttledUntil",
        replace: "row !== undefined && ((row.throttledUntil"
      },
      { file: "src/queue/claim/ClaimSql.ts", find: "=> `not q.paused\n      and coalesce(", replace: "=> `coalesce(" }
    ],
    tests: [law("while a queue is paused")]
  },
  {
    name: "claims-by-cached-pause",
    what: "a claim trusts its cached copy of the queue's row and does not check the pause itself",
    edits: [
      {
        file: "src/queue/claim/ClaimSql.ts",
        find: "=> `not q.paused\n      and coalesce(",
        replace: "=> `coalesce("
      }
    ],
    tests: [law("while a queue is paused|paused"), unit("queue/QueueLimits", "has not learned of")],
    toAdd: "a fault in which an operator pauses a queue while a process does not listen"
  },
  {
    name: "claims-out-of-key-order",
    what: "a claim takes the next job of a key while an earlier one has not ended",
    edits: [
      {
        file: "src/queue/claim/ClaimSql.ts",
        find: "and (key_scan.begun is null or key_scan.key_order = 'none' or (",
        replace: "and (true or ("
      }
    ],
    tests: [law("strict:|serial:")]
  },
  {
    name: "claims-over-rate",
    what: "a claim takes more jobs than the rate of the queue allows",
    edits: [
      {
        file: "src/queue/claim/ClaimSql.ts",
        find: "least($3::int, floor(tokens + 1e-6)::int)",
        replace: "$3::int"
      }
    ],
    tests: [law("tokens of the bucket|bucket holds")]
  },
  {
    name: "claims-too-early",
    what: "a claim takes jobs before their start time",
    edits: [
      {
        file: "src/queue/claim/ClaimSql.ts",
        find: "start.id) and run_at <= ${instant(now)}\n        order by run_at, id\n        limit ${limit}",
        replace: "start.id)\n        order by run_at, id\n        limit ${limit}"
      }
    ],
    tests: [law("before its start time")]
  },
  {
    name: "step-without-lease",
    what: "a run that lost its lease records steps",
    edits: [
      {
        file: "src/queue/workflow/WorkflowSql.ts",
        find: "where id = g.job_id and lease = g.lease for key share",
        replace: "where id = g.job_id for key share"
      }
    ],
    tests: [law("lost its lease records nothing")]
  },
  {
    name: "signal-lost-when-suspending",
    what: "a signal that arrives while the execution suspends does not wake it",
    edits: [
      {
        file: "src/queue/workflow/WorkflowSql.ts",
        find: "run_at = case when j.woken > e.woken or j.dedupe_key = any(locked.executions)",
        replace: "run_at = case when false"
      }
    ],
    tests: [law("suspension due at once|is due at once")]
  },
  {
    name: "dedupe-window-ignored",
    what: "a dedupe key is held after its window has ended",
    edits: [
      {
        file: "migrations/0001_baseline.sql",
        find: "coalesce(j.finished_at is not null and j.dedupe_until <= fresh.created_at, false) as lapsed",
        replace: "false as lapsed"
      }
    ],
    tests: [law("retained key with a window")]
  },
  {
    name: "poison-limit-ignored",
    what: "a job that kills its processes is rescued for ever",
    edits: [
      {
        file: "src/queue/JobSql.ts",
        find: 'const isPoison = "j.crash_count + 1 >= $4"',
        replace: 'const isPoison = "j.crash_count + 1 >= $4 + 1000"'
      }
    ],
    tests: [law("poison at its fifth crash")]
  },
  {
    name: "result-dropped-on-cancel",
    what: "a job that succeeds although it was cancelled is recorded as cancelled",
    edits: [
      {
        file: "src/queue/JobSql.ts",
        find: "const endState = `case when e.verb = 'done' then 'done'",
        replace: "const endState = `case when e.verb = 'done' and j.cancel_requested_at is null then 'done'"
      }
    ],
    tests: [law("may still be done|cancel"), unit("worker/Cancel", "keeps the result")]
  },
  {
    name: "retention-deletes-pending",
    what: "retention deletes jobs that have not run",
    edits: [
      {
        file: "src/queue/JobSql.ts",
        find: '    where finished_at >= ${instant("$2")} and finished_at < ${instant("$3")} and status = $1\n',
        replace: "    where coalesce(finished_at, created_at) < ${instant(\"$3\")} and status in ($1, 'pending')\n"
      }
    ],
    tests: [law("keeps recent, dead and unfinished")]
  },
  {
    name: "depth-cap-ignored",
    what: "a full queue accepts more jobs",
    edits: [
      {
        file: "src/queue/enqueue/DepthCap.ts",
        find: "if (room.left < count) {",
        replace: "if (room.left < count - 1_000_000) {"
      }
    ],
    tests: [law("up to its cap")]
  },
  {
    name: "enqueue-outside-transaction",
    what: "an enqueue in the caller's transaction is committed although the transaction rolls back",
    edits: [
      {
        file: "src/queue/enqueue/EnqueuePg.ts",
        find: "        if (Option.isSome(outer)) {\n",
        replace: "        if (Option.isSome(outer) && jobs.length > 1_000) {\n"
      }
    ],
    tests: [law("part of the caller's transaction")]
  },
  {
    name: "progress-without-lease",
    what: "a run that lost its lease writes progress",
    edits: [
      {
        file: "src/queue/JobSql.ts",
        find: "  where id = $1 and lease = $2`",
        replace: "  where id = $1 and $2::uuid is not null`"
      }
    ],
    tests: [law("fenced by the lease")]
  }
]
