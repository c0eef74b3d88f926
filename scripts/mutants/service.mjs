// Mutants of processes, workflows, the gateway and the API.
import { fault, law, simulation, unit, workflows } from "./noticed-by.mjs"

export const service = [
  {
    name: "no-fence-in-transaction",
    what: "a transactional handler that lost its lease commits its effects",
    edits: [
      {
        file: "src/worker/slots/Slot.ts",
        find: "    if (movedOn.length > 0) return yield* new LeaseLost()\n",
        replace: ""
      }
    ],
    tests: [
      unit("long/TransactionFaults", "does not commit after another process"),
      fault("SIGSTOP of a process past its lease")
    ]
  },
  {
    name: "no-heartbeat",
    what: "the heartbeat of running jobs is not sent",
    edits: [
      {
        file: "src/worker/loops/JobHeartbeat.ts",
        find: "run: Effect.suspend(() => beat(held()))",
        replace: "run: Effect.succeed({})"
      }
    ],
    tests: [simulation(), fault("kill -9 of a process that runs jobs")]
  },
  {
    name: "no-pause-after-outage",
    what: "a process rescues jobs as soon as the database is back, before other processes could send a heartbeat",
    edits: [
      {
        file: "src/worker/loops/Reaper.ts",
        find: "Duration.lessThan(steady, steadyBeforeRescue) ?",
        replace: "Duration.lessThan(steady, Duration.zero) ?"
      }
    ],
    tests: [simulation(), unit("worker/Cluster", "outage|database")],
    toAdd: "a fault in which processes reconnect one after another"
  },
  {
    name: "webhook-before-commit",
    what: "a webhook is acknowledged before its job is stored",
    edits: [
      {
        file: "src/gateway/WebhookIntake.ts",
        find: "      submit(job, (exit) => {\n",
        replace: '      report(Exit.succeed({ _tag: "Stored", job: job.id as never }))\n      submit(job, (exit) => {\n'
      }
    ],
    tests: [unit("gateway/Endpoint", "before it is acknowledged|database|queue")],
    toAdd: "a fault in which PostgreSQL stops while webhooks arrive"
  },
  {
    name: "ignores-sigterm",
    what: "SIGTERM does not stop the process",
    edits: [
      {
        file: "src/cli/StopSignals.ts",
        find: "if (requestedAt === undefined) requestStop()\n      else if (!hasRunner",
        replace: "if (requestedAt === undefined) requestedAt = performance.now()\n      else if (!hasRunner"
      }
    ],
    tests: [fault("SIGTERM while quick and slow jobs run")]
  },
  {
    name: "listen-not-reconnected",
    what: "the process does not listen again after its listening connection broke",
    edits: [
      {
        file: "src/database/Listener.ts",
        find: 'Schedule.resetAfter("30 seconds")\n',
        replace: 'Schedule.resetAfter("30 seconds"),\n        Schedule.intersect(Schedule.recurs(0))\n'
      }
    ],
    tests: [fault("the listening connection terminated")]
  },
  {
    name: "undo-skipped",
    what: "a failed execution ends without undoing its steps",
    edits: [
      {
        file: "src/client/workflow/UndoPhase.ts",
        find: "if (next === undefined) this.host.finish(",
        replace: "if (next === undefined || true) this.host.finish("
      }
    ],
    tests: [workflows, unit("workflow/Promises", "compensation")]
  },
  {
    name: "undo-order-reversed",
    what: "the first step is undone first",
    edits: [
      {
        file: "src/client/workflow/UndoPhase.ts",
        find: "open.sort((a, b) => b.sequence - a.sequence)[0]",
        replace: "open.sort((a, b) => a.sequence - b.sequence)[0]"
      }
    ],
    tests: [workflows, unit("workflow/Promises", "compensation")],
    toAdd: "an invariant of the simulation: undos run in reverse order"
  },
  {
    name: "journal-not-read",
    what: "an execution that continues does not read its journal",
    edits: [
      {
        file: "src/client/workflow/WorkflowRun.ts",
        find: "const recording = this.isFirst ?",
        replace: "const recording = true ?"
      }
    ],
    tests: [workflows, unit("workflow/Promises", "a recorded step")]
  },
  {
    name: "token-prefix-only",
    what: "only the visible prefix of a workspace token is compared",
    edits: [
      {
        file: "src/access/Secrets.ts",
        find: "isAmong(given, [dummyHash, ...hashes])",
        replace: "hashes.length > 0"
      }
    ],
    tests: [law("a token opens its workspace", "UploadsPg"), unit("http/Access", "token")]
  },
  {
    name: "idempotency-key-ignored",
    what: "a repeated request with an Idempotency-Key stores its jobs again",
    edits: [
      {
        file: "src/http/jobs/EnqueueEndpoint.ts",
        find: "if (key === undefined) return yield* store(jobs, force)",
        replace: "if (key !== null) return yield* store(jobs, force)"
      }
    ],
    tests: [unit("http/Repeat", "stores its jobs once")],
    toAdd: "a law of every entry that takes a key"
  },
  {
    name: "retry-without-backoff",
    what: "a failed attempt is repeated at once",
    edits: [
      {
        file: "src/worker/slots/Judge.ts",
        find: "if (Duration.isDuration(wait)) return { wait, fault: undefined }",
        replace: "if (Duration.isDuration(wait)) return { wait: Duration.zero, fault: undefined }"
      }
    ],
    tests: [simulation(), unit("worker/RetryCurve", "ladder")],
    toAdd: "an invariant of the simulation: a retry starts no earlier than its backoff"
  },
  {
    name: "attempt-not-counted",
    what: "a failed attempt is not counted",
    edits: [
      {
        file: "src/worker/slots/Judge.ts",
        find: 'again(wait, at, { counted: true, error, remember: "failed" })',
        replace: 'again(wait, at, { counted: false, error, remember: "failed" })'
      }
    ],
    tests: [simulation(), unit("worker/Worker", "attempt|retr")],
    toAdd: "an invariant of the simulation: each failure uses up an attempt"
  },
  {
    name: "signature-not-checked",
    what: "a webhook with a wrong signature is accepted",
    edits: [
      {
        file: "src/gateway/SignedSources.ts",
        find: "return genuine ? Verdict.Genuine()",
        replace: "return genuine || true ? Verdict.Genuine()"
      }
    ],
    tests: [unit("gateway/Sources", "signature is missing, wrong")],
    toAdd: "a law of every signed source"
  },
  {
    name: "upload-before-commit",
    what: "an upload is acknowledged before it is stored",
    edits: [
      {
        file: "src/http/uploads/UploadIntake.ts",
        find: "Effect.flatMap((drafts) => publish(bearer, drafts, subject)),",
        replace:
          "Effect.flatMap((drafts) => Effect.as(Effect.forkDaemon(Effect.delay(publish(bearer, drafts, subject), 2_000)), drafts as never)),"
      }
    ],
    tests: [unit("http/Uploads", "are uploaded, listed|in the same transaction")],
    toAdd: "a fault in which PostgreSQL stops while files arrive"
  },
  {
    name: "tick-fires-twice",
    what: "a schedule fires again when a second leader reads the same tick",
    edits: [
      {
        file: "src/schedule/ScheduleSql.ts",
        find: "name = ${name} and revision = ${revision} and not paused and removed_at is null",
        replace: "name = ${name} and not paused and removed_at is null"
      }
    ],
    tests: [law("several readers", "SchedulesPg")]
  },
  {
    name: "expired-leader-keeps-term",
    what: "a leader whose lease expired and was taken over still writes",
    edits: [
      {
        file: "src/cluster/LeadershipPg.ts",
        find: "where term = ${term} and pod_id is not null for key share",
        replace: "where ${term}::int is not null and pod_id is not null for key share"
      }
    ],
    tests: [law("expired term does not return|higher term|never existed", "LeadershipPg")]
  }
]
