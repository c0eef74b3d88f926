import { describe, expect, it } from "@effect/vitest"
import { Duration } from "effect"
import type { JobId, PodId } from "../../src/core/Ids.js"
import type { HistoryEntry, StoredJob } from "../../src/core/StoredJob.js"
import { fresh } from "../../src/queue/settings/QueueRow.js"
import type { Standing } from "../../src/queue/why/JobDiagnosis.js"
import { type Facts, judge, Reason, reasonOfQueue } from "../../src/queue/why/Why.js"

const now = 1_000_000
const later = now + 60_000
const id = "0198c0de-0000-7000-8000-000000000001" as JobId
const other = "0198c0de-0000-7000-8000-000000000002" as JobId
const podId = "0198c0de-0000-7000-8000-00000000000f" as PodId

const job: StoredJob = {
  id,
  queue: "mail",
  kind: "greet",
  version: 1,
  payload: {},
  key: undefined,
  state: "pending",
  priority: 0,
  runAt: now - 1_000,
  attempt: 0,
  attempts: 5,
  crashCount: 0,
  dedupe: undefined,
  pod: undefined,
  createdAt: now - 1_000,
  updatedAt: now - 1_000,
  startedAt: undefined,
  heartbeatAt: undefined,
  finishedAt: undefined,
  cancelRequestedAt: undefined,
  onDead: undefined,
  result: undefined,
  progress: undefined,
  lastError: undefined,
  history: [],
  reason: undefined,
  meta: undefined,
  batch: undefined,
  execution: undefined
}

const standing: Standing = {
  job,
  now,
  paused: false,
  maxWorkers: 10,
  cooling: undefined,
  keyCoolingUntil: undefined,
  rated: undefined,
  held: undefined,
  waits: [],
  leftTo: undefined,
  ahead: { count: 0, exact: true },
  keyed: false
}

const pod: Facts["pods"][number] = {
  id: podId,
  label: "shop-worker-1",
  queues: ["mail"],
  kinds: ["greet"],
  slots: [{ queue: "mail", have: 4, busy: 4 }],
  draining: false
}

interface Case {
  readonly job?: Partial<StoredJob>
  readonly standing?: Partial<Standing>
  readonly pods?: ReadonlyArray<Partial<Facts["pods"][number]>>
  readonly limit?: Facts["limit"]
}

const factsOf = (of: Case): Facts => ({
  standing: { ...standing, ...of.standing, job: { ...job, ...of.job } },
  pods: (of.pods ?? [{}]).map((more) => ({ ...pod, ...more })),
  limit: of.limit,
  staleAfter: Duration.seconds(60)
})

/** A job whose last attempt had this outcome. */
const ended = (outcome: string): Partial<StoredJob> => {
  const last: HistoryEntry = { attempt: 1, pod: podId, startedAt: now - 20, endedAt: now - 10, outcome }
  return { runAt: later, updatedAt: now - 10, history: [last] }
}

const running: Partial<StoredJob> = { state: "running", pod: podId, heartbeatAt: now - 5_000, attempt: 1 }
const dead = (reason: StoredJob["reason"]): Partial<StoredJob> => ({
  state: reason === "cancelled" ? "cancelled" : "dead",
  reason,
  crashCount: 5
})
const erased: Partial<StoredJob> = { meta: { subjectErasedAt: "2026-01-31T09:00:00.000Z" } }
const erasedOn = /^Its data was erased on 2026-01-31, so it cannot run again\.$/
const rate = { jobs: 5, per: Duration.minutes(1) }
const limit = {
  scope: "github",
  capacity: 10,
  rate: 1,
  declared: { capacity: 10, rate: 1 },
  tuned: false,
  tokens: 0.25,
  lent: 0,
  dryUntil: undefined
}
const busy = { by: other, cause: "busy", until: undefined } as const
const cooling = { until: later, times: 3 }

type Row = readonly [name: string, of: Case, reason: Reason, says: RegExp, until?: number]

const rows: ReadonlyArray<Row> = [
  ["in a paused queue", { standing: { paused: true } }, "paused", /"mail" is paused/],
  ["with a later start time", { job: { runAt: later } }, "not_due", /scheduled for later/, later],
  ["snoozed", { job: ended("snoozed") }, "not_due", /snoozed/, later],
  [
    "that failed",
    { job: { runAt: later, attempt: 2, lastError: "no", state: "retrying" } },
    "retrying",
    /Attempt 2 of 5 failed/,
    later
  ],
  [
    "returned by a pod of older code",
    { job: { runAt: later, lastError: "newer" } },
    "retrying",
    /^A process returned it to the queue: newer\. /,
    later
  ],
  ["throttled alone", { job: ended("throttled") }, "cooling_down", /handler was throttled/, later],
  [
    "throttled by a limit",
    { job: ended("throttled by github"), limit },
    "rate_limited",
    /"github" had no token.*0\.2 of 10/,
    later
  ],
  ["throttled by a limit that is gone", { job: ended("throttled by x") }, "rate_limited", /"x" had no token/, later],
  [
    "moved to later after it was throttled",
    { job: { ...ended("throttled by github"), updatedAt: now } },
    "not_due",
    /scheduled for later/,
    later
  ],
  ["in a queue that cools down", { standing: { cooling } }, "cooling_down", /throttled, 3 times in a row/, later],
  ["whose key cools down", { standing: { keyCoolingUntil: later } }, "cooling_down", /A job with the same key/, later],
  [
    "in a queue whose rate is used up",
    { standing: { rated: { rate, opensAt: later } } },
    "rate_limited",
    /rate of 5 jobs in 1m/,
    later
  ],
  ["that no pod serves", { pods: [{ queues: ["push"] }] }, "no_pod", /No live process serves queue "mail"/],
  ["whose pods are stopping", { pods: [{ draining: true }] }, "no_pod", /is stopping/],
  [
    "of a misspelled kind",
    { pods: [{ kinds: ["greet-all", "gret"] }] },
    "unknown_kind",
    /for the kind "greet"\. Did you mean gret\? Start a process that has one\.$/
  ],
  ["of an unknown kind", { pods: [{ kinds: [] }] }, "unknown_kind", /no handler|has a handler for the kind "greet"/],
  [
    "of a kind known only to pods of other queues",
    { pods: [{ kinds: [] }, { queues: ["push"] }] },
    "unknown_kind",
    /serves other queues/
  ],
  [
    "that a pod without its handler returned, while another pod has the handler",
    {
      job: { runAt: later, lastError: 'this process has no handler for the kind "greet"' },
      pods: [{}, { id: other as unknown as PodId, label: "dev", kinds: ["noop_echo"] }]
    },
    "unknown_kind",
    /^Process dev serves queue "mail" without a handler for the kind "greet" and returned it\. .*--queues none/,
    later
  ],
  [
    "that was returned after a failed attempt by a pod that has left",
    {
      job: {
        attempt: 1,
        runAt: later,
        lastError: 'this process has no handler for the kind "greet"',
        history: [
          { attempt: 1, startedAt: now - 6_000, endedAt: now - 5_000, outcome: "failed", message: "boom", pod: podId }
        ]
      }
    },
    "retrying",
    /^A process returned it to the queue: this process has no handler for the kind "greet"\./,
    later
  ],
  [
    "that was returned because its kind is unknown",
    { job: { runAt: later, lastError: "no handler" }, pods: [{ kinds: [] }] },
    "unknown_kind",
    /Start a process/
  ],
  [
    "whose key is busy",
    { standing: { held: busy } },
    "key_busy",
    new RegExp(`Job ${other} with the same key is running`)
  ],
  [
    "behind another of its key",
    { standing: { held: { by: other, cause: "order", until: later } } },
    "key_order",
    /comes first, and waits/,
    later
  ],
  ["next in line", { pods: [{ slots: [] }] }, "waiting_for_slot", /number 1 in line; 0 of 0/],
  [
    "next in line where a slot is free",
    { pods: [{ slots: [{ queue: "mail", have: 4, busy: 3 }] }] },
    "waiting_for_slot",
    /in a moment/
  ],
  [
    "thirteenth in line",
    { standing: { ahead: { count: 12, exact: true } }, pods: [{}, { draining: true }] },
    "waiting_for_slot",
    /number 13 in line; 4 of 4 slots/
  ],
  [
    "far behind, where keys take turns",
    { standing: { ahead: { count: 1000, exact: false }, keyed: true } },
    "waiting_for_slot",
    /behind more than 1000 others in line \(keys take turns/
  ],
  ["in a queue without workers", { standing: { maxWorkers: 0 } }, "waiting_for_slot", /worker total of 0/],
  ["that runs", { job: running }, "running", /^It runs in process shop-worker-1\.$/],
  [
    "that was asked to stop",
    { job: { ...running, cancelRequestedAt: now } },
    "running",
    /asked to stop and has not stopped/
  ],
  [
    "whose pod is gone",
    { job: running, pods: [] },
    "running",
    /sends no heartbeat.*returned to the queue/,
    now + 55_000
  ],
  [
    "whose pod is gone and that was asked to stop",
    { job: { ...running, cancelRequestedAt: now }, pods: [] },
    "running",
    /is cancelled as requested/,
    now + 55_000
  ],
  [
    "that sleeps",
    {
      job: { runAt: later },
      standing: { waits: [{ kind: "sleep", name: "cool off", dueAt: later, remaining: undefined }] }
    },
    "sleeping",
    /It sleeps until/,
    later
  ],
  [
    "that waits for a signal",
    {
      job: { runAt: later },
      standing: { waits: [{ kind: "signal", name: "approval", dueAt: later, remaining: undefined }] }
    },
    "waiting_for_signal",
    /waits for the signal "approval"/,
    later
  ],
  [
    "that waits for an event, again after it has continued as a new run",
    {
      job: { runAt: later },
      standing: { waits: [{ kind: "signal", name: "event:order.shipped@1#2", dueAt: later, remaining: undefined }] }
    },
    "waiting_for_signal",
    /^It waits for the event "order\.shipped"\.$/,
    later
  ],
  [
    "that waits for children",
    {
      job: { runAt: later },
      standing: { waits: [{ kind: "children", name: "ship", dueAt: undefined, remaining: 2 }] }
    },
    "waiting_for_child",
    /"ship" waits for children\. 2 of them/,
    later
  ],
  [
    "whose code has changed",
    {
      job: { runAt: later },
      standing: { waits: [{ kind: "changed", name: "charge", dueAt: undefined, remaining: undefined }] }
    },
    "changed",
    /no longer follows its journal at step "charge"/,
    later
  ],
  [
    "that is pinned to another release",
    { job: { runAt: later, execution: "order/A-17" }, standing: { leftTo: "1f0c9a7be402" } },
    "pinned",
    /pinned to release 1f0c9a7be402, .* nightshift workflows unpin order\/A-17\.$/,
    later
  ],
  ["that is done", { job: { state: "done" } }, "done", /is done/],
  ["out of attempts", { job: dead("exhausted") }, "dead", /All its 5 attempts failed/],
  ["out of its only attempt", { job: { ...dead("exhausted"), attempts: 1 } }, "dead", /Its one attempt failed/],
  ["rejected", { job: dead("rejected") }, "dead", /rejected it permanently/],
  [
    "with an error",
    { job: { ...dead("exhausted"), lastError: "fetch failed.\n    at send (mail.ts:7:3)" } },
    "dead",
    /then requeue it\. Last error: fetch failed\.$/
  ],
  ["undecodable", { job: dead("undecodable") }, "dead", /decode its payload/],
  ["of a kind that stayed unknown", { job: dead("unknown_kind") }, "dead", /for a day/],
  ["that kills pods", { job: dead("poison") }, "dead", /died 5 times/],
  ["that was cancelled", { job: dead("cancelled") }, "cancelled", /was cancelled/],
  ["that was cancelled and erased", { job: { ...dead("cancelled"), ...erased } }, "cancelled", erasedOn],
  ["that died and was erased", { job: { ...dead("exhausted"), ...erased } }, "dead", erasedOn],
  ["that is done and was erased", { job: { state: "done", ...erased } }, "done", erasedOn]
]

describe("the reason why a job is not running", () => {
  for (const [name, of, reason, says, until] of rows) {
    it(`is reported for a job ${name}: ${reason}`, () => {
      const why = judge(factsOf(of))
      expect(why).toMatchObject({ reason, until })
      expect(why.detail).toMatch(says)
    })
  }

  it("is tested for every reason", () => {
    expect(new Set(rows.map((row) => row[2]))).toEqual(new Set(Reason.literals))
  })

  it("names the one to fix first when several apply", () => {
    const all: Partial<Standing> = {
      paused: true,
      cooling,
      keyCoolingUntil: later,
      rated: { rate, opensAt: later },
      held: busy
    }
    const reasonOf = (less: Partial<Standing>, more: Case = {}) =>
      judge(factsOf({ ...more, standing: { ...all, ...less } })).reason
    const later_ = { job: { runAt: later } }
    expect(reasonOf({}, later_)).toBe("paused")
    expect(reasonOf({ paused: false }, { ...later_, pods: [] })).toBe("not_due")
    expect(reasonOf({ paused: false }, { pods: [] })).toBe("no_pod")
    expect(reasonOf({ paused: false }, { pods: [{ kinds: [] }] })).toBe("unknown_kind")
    expect(reasonOf({ paused: false })).toBe("cooling_down")
    expect(reasonOf({ paused: false, cooling: undefined })).toBe("cooling_down")
    expect(reasonOf({ paused: false, cooling: undefined, keyCoolingUntil: undefined })).toBe("rate_limited")
    expect(reasonOf({ ...standing })).toBe("waiting_for_slot")
    expect(reasonOf({ ...standing, held: busy })).toBe("key_busy")
  })
})

describe("the reason why due jobs of a queue wait", () => {
  it("is the same as for one job, the lasting ones first", () => {
    const pod = { queues: ["q"], draining: false, slots: [{ queue: "q", wanted: 2, have: 2, busy: 1 }] }
    const full = { ...pod, slots: [{ queue: "q", wanted: 2, have: 2, busy: 2 }] }
    const settings = { ...fresh("q"), throttledUntil: 20 }
    const perKey = { concurrency: 1, order: "none" } as const
    expect(reasonOfQueue("q", { ...settings, paused: true }, [], 10)).toBe("paused")
    expect(reasonOfQueue("q", settings, [{ ...pod, draining: true }], 10)).toBe("no_pod")
    expect(reasonOfQueue("q", settings, [pod], 10)).toBe("cooling_down")
    expect(reasonOfQueue("q", settings, [full], 30)).toBe("waiting_for_slot")
    expect(reasonOfQueue("q", { ...settings, rate, perKey }, [pod], 30)).toBe("rate_limited")
    expect(reasonOfQueue("q", { ...settings, perKey }, [pod], 30)).toBe("key_busy")
    expect(reasonOfQueue("q", undefined, [pod], 30)).toBeUndefined()
  })
})
