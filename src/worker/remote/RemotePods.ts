import { createHash } from "node:crypto"
import { Clock, Context, Duration, Effect, Exit, Layer, Schedule } from "effect"
import { type Assignment, type PodFacts, Pods, podsTopic, type QueueSlots, type RemotePod } from "../../cluster/Pods.js"
import * as Batcher from "../../core/Batcher.js"
import { steadyNow } from "../../core/ChangeWatch.js"
import * as CoalescingCache from "../../core/CoalescingCache.js"
import type { PodId } from "../../core/Ids.js"
import * as Kind from "../../core/Kind.js"
import type { Loop } from "../../core/Loop.js"
import { after, makeLatch } from "../../core/LoopSchedule.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { Kinds, type RegisteredKind } from "../../queue/Kinds.js"
import { type HeldJob, Queue } from "../../queue/Queue.js"
import { fresh } from "../../queue/settings/QueueRow.js"
import { type QueueSettings, Queues } from "../../queue/settings/QueueSettings.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { roomBeside } from "../slots/Suspects.js"

// A remote worker is a pod whose requests arrive at processes of the cluster. The process that serves it writes its row, and
// the leader assigns it slots as to every pod. It holds no lock: it is dead when no process has heard from it for
// QUEUE_STALE_AFTER.

/** A worker as it describes itself. */
export interface WorkerAbout {
  /** Who sent the request. Workers of different callers are different workers. */
  readonly caller: string
  /** Chosen by the worker, and unique among the workers of its caller. */
  readonly id: string
  readonly name: string | undefined
  /** Language or runtime, with its version. */
  readonly runtime: string | undefined
  readonly host: string | undefined
  readonly pid: number | undefined
}

/** What a worker serves. */
export interface Served {
  readonly queues: ReadonlyArray<string>
  /** The kinds that it has handlers for; undefined if it takes every kind. */
  readonly kinds: ReadonlyArray<string> | undefined
}

/** A worker that has no row yet. */
interface Newcomer {
  readonly worker: RemoteWorker
  readonly serves: Served
}

interface Held extends HeldJob {
  readonly queue: string
  readonly crashCount: number
}

/** A worker that this process has heard from. */
export class RemoteWorker {
  assignment: Pick<Assignment, "shares" | "servingPods"> = { shares: new Map(), servingPods: new Map() }
  /** Requests that wait for jobs. */
  polls = 0
  /** When its last request arrived, on the monotonic clock. */
  seenAt = 0
  /** When its row was first found missing, on the same clock: it has left through another process, unless it goes on. */
  missedAt = Number.POSITIVE_INFINITY
  /** Counts claims, so that each begins with another queue. */
  turn = 0
  /** Jobs that this process has claimed for the worker and that may not have ended. */
  readonly held = new Map<string, Held>()
  checkedAt = Number.NEGATIVE_INFINITY

  constructor(
    readonly facts: PodFacts,
    readonly kinds: ReadonlySet<string> | undefined,
    /** The slots in its row, if it has not claimed from this process. */
    readonly stored?: ReadonlyArray<QueueSlots>
  ) {}

  heldOf(queue: string): ReadonlyArray<Held> {
    return [...this.held.values()].filter((job) => job.queue === queue)
  }
}

export const keyOf = ({ id, lease }: HeldJob): string => `${id} ${lease}`

/** The id of a worker's row, derived so that no worker can take the id of a process or of another caller's worker. */
export const podIdOf = ({ caller, id }: Pick<WorkerAbout, "caller" | "id">): PodId => {
  const digest = createHash("sha256").update(`${caller} ${id}`).digest("hex")
  const variant = ((Number.parseInt(digest.charAt(16), 16) & 0x3) | 0x8).toString(16)
  const text = `${digest.slice(0, 12)}8${digest.slice(13, 16)}${variant}${digest.slice(17, 32)}`
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as PodId
}

/** A worker at its limit is compared with the database at most this often: other processes may have ended its jobs. */
const checkInterval = Duration.toMillis("1 second")

const unknownText = "unknown"

/** The remote workers that this process serves. */
export class RemotePods extends Context.Tag("nightshift/worker/RemotePods")<
  RemotePods,
  {
    /** Returns the worker, with a row of its own. Registers kinds that no process has registered. */
    readonly join: (about: WorkerAbout, serves: Served) => Effect.Effect<RemoteWorker, DatabaseError>
    /** Notes a request of a worker. Undefined if this process does not know it. */
    readonly heard: (id: PodId) => Effect.Effect<RemoteWorker | undefined>
    /** Keeps the row of a worker that has claimed from another process only, such as the one before a restart. */
    readonly adopt: (id: PodId) => Effect.Effect<void, DatabaseError>
    /** Removes a worker that stops. */
    readonly leave: (id: PodId) => Effect.Effect<void, DatabaseError>
    /** How many more jobs of a queue the worker may hold, if it asks for `wanted`. */
    readonly room: (worker: RemoteWorker, queue: string, wanted: number) => Effect.Effect<number, DatabaseError>
    /** Reads the settings of the queues, unless they were read a few seconds ago. */
    readonly freshSettings: Effect.Effect<void, DatabaseError>
    /** The settings as they were last read. */
    readonly settings: (queue: string) => QueueSettings | undefined
  }
>() {
  static readonly layer: Layer.Layer<
    RemotePods,
    never,
    Pods | Queue | Queues | Kinds | Hints | ClusterConfig | Metrics
  > = Layer.scoped(
    RemotePods,
    Effect.suspend(() => make)
  )
}

/** Clients may send lists in any order. */
const isSameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>) =>
  a.size === b.size && [...a].every((item) => b.has(item))

const make = Effect.gen(function* () {
  const pods = yield* Pods
  const queue = yield* Queue
  const queues = yield* Queues
  const kinds = yield* Kinds
  const hints = yield* Hints
  const { lease, staleAfter } = yield* ClusterConfig
  const workers = new Map<
    PodId,
    { readonly worker: RemoteWorker; readonly ready: Effect.Effect<void, DatabaseError> }
  >()
  let settings = new Map<string, QueueSettings>()
  const latch = makeLatch()

  const beatInterval = Duration.toMillis(lease) / 3
  let settingsReadAt = Number.NEGATIVE_INFINITY

  const readSettings = Effect.gen(function* () {
    const now = yield* steadyNow
    settings = new Map((yield* queues.all).map((each) => [each.name, each]))
    settingsReadAt = now
  })

  const shareOf = ({ assignment }: RemoteWorker, name: string): number => {
    const { maxWorkers, paused } = settings.get(name) ?? fresh(name)
    if (paused) return 0
    return assignment.shares.get(name) ?? Math.ceil(maxWorkers / (assignment.servingPods.get(name) ?? 1))
  }

  const rowOf = (worker: RemoteWorker, joins: boolean): RemotePod => ({
    ...worker.facts,
    joins,
    draining: false,
    slots:
      worker.stored ??
      worker.facts.queues.map((name) => {
        const share = shareOf(worker, name)
        return { queue: name, wanted: share, have: share, busy: worker.heldOf(name).length }
      })
  })

  const goesOn = ({ missedAt, polls, seenAt }: RemoteWorker) =>
    Number.isFinite(missedAt) && (polls > 0 || seenAt > missedAt)

  const beat = (all: ReadonlyArray<RemoteWorker>, joins: (worker: RemoteWorker) => boolean) =>
    Effect.gen(function* () {
      const now = yield* steadyNow
      const rows = all.map((worker) => rowOf(worker, joins(worker)))
      const assigned = yield* pods.beatRemote(rows, lease)
      for (const worker of all) {
        const found = assigned.get(worker.facts.id)
        worker.missedAt = found === undefined ? Math.min(worker.missedAt, now) : Number.POSITIVE_INFINITY
        worker.assignment = found ?? worker.assignment
      }
    })

  /** Kinds that only remote workers serve, so that jobs of them can be enqueued by name. */
  const register = (all: ReadonlyArray<Served>) =>
    Effect.gen(function* () {
      const given = new Map<string, RegisteredKind>()
      for (const { kinds: names = [], queues } of all)
        for (const name of names)
          if (!given.has(name)) {
            const queue = queues[0] ?? Kind.defaults.queue
            given.set(name, { name, queue, version: 1, attempts: Kind.defaults.attempts, onDead: undefined })
          }
      if (given.size === 0) return
      for (const { name } of yield* kinds.all) given.delete(name)
      if (given.size > 0) yield* kinds.register([...given.values()])
    })

  const introduce = (all: ReadonlyArray<Newcomer>) =>
    Effect.gen(function* () {
      yield* queues.declare([...new Set(all.flatMap(({ serves }) => serves.queues))])
      yield* register(all.map(({ serves }) => serves))
      yield* readSettings
      yield* beat(
        all.map(({ worker }) => worker),
        () => true
      )
      yield* hints.publish(podsTopic, "all")
      latch.open()
      return all.map(() => Exit.void)
    })

  // A fleet of workers that starts at once would otherwise wait for connections until they time out.
  const newcomers = yield* Batcher.make<Newcomer, void, DatabaseError, never>({
    maxWeight: 500,
    capacity: 10_000,
    isolate: ({ _tag }) => _tag !== "DatabaseUnavailable",
    flush: introduce
  })

  const allKinds = yield* CoalescingCache.refreshed(kinds.all, "1 second")
  const kindsOf = (serves: Served) =>
    serves.kinds === undefined
      ? Effect.map(allKinds, ({ value }) =>
          value.flatMap(({ name, queue, workflow }) =>
            workflow !== true && serves.queues.includes(queue) ? [name] : []
          )
        )
      : Effect.succeed(serves.kinds)

  const makeWorker = (about: WorkerAbout, id: PodId, serves: Served) =>
    Effect.gen(function* () {
      const facts: PodFacts = {
        id,
        label: about.name,
        version: unknownText,
        queues: serves.queues,
        kinds: yield* kindsOf(serves),
        releases: {},
        host: { name: about.host ?? unknownText, pid: about.pid ?? 0, node: about.runtime ?? unknownText },
        startedAt: yield* Clock.currentTimeMillis
      }
      const worker = new RemoteWorker(facts, serves.kinds === undefined ? undefined : new Set(serves.kinds))
      const ready = yield* Effect.cached(
        // Requests that arrive meanwhile wait for it, so it does not end with the first one.
        Effect.onError(Effect.uninterruptible(newcomers.submit({ worker, serves })), () =>
          Effect.sync(() => void workers.delete(id))
        )
      )
      return { worker, ready }
    })

  const isServed = ({ worker }: { readonly worker: RemoteWorker }, { kinds: given, queues: names }: Served) =>
    worker.stored === undefined &&
    isSameSet(new Set(worker.facts.queues), new Set(names)) &&
    (given === undefined
      ? worker.kinds === undefined
      : worker.kinds !== undefined && isSameSet(worker.kinds, new Set(given)))

  const heard = (id: PodId) =>
    Effect.map(steadyNow, (now) => {
      const worker = workers.get(id)?.worker
      if (worker !== undefined) worker.seenAt = now
      return worker
    })

  // After a restart, the workers of a fleet are read at once.
  const rows = yield* CoalescingCache.refreshed(
    Effect.map(pods.present(staleAfter), (all) => new Map(all.map((pod) => [pod.id, pod]))),
    "1 second"
  )
  const adopt = (id: PodId) =>
    Effect.gen(function* () {
      const row = (yield* rows).value.get(id)
      if (row === undefined || workers.has(id)) return
      workers.set(id, { worker: new RemoteWorker(row, undefined, row.slots), ready: Effect.void })
      yield* heard(id)
      latch.open()
    })

  /** Forgets jobs that have ended through other processes, or without the worker. */
  const forgetEnded = (worker: RemoteWorker) =>
    Effect.gen(function* () {
      const now = yield* steadyNow
      if (now - worker.checkedAt < checkInterval) return
      worker.checkedAt = now
      const held = [...worker.held.values()]
      const attempts = yield* queue.attempts(worker.facts.id, held)
      held.forEach((job, index) => {
        if (attempts[index]?._tag !== "Running") worker.held.delete(keyOf(job))
      })
    })

  const pass = Effect.gen(function* () {
    const now = yield* steadyNow
    for (const [id, { worker }] of workers) {
      if (worker.polls === 0 && now - worker.seenAt > Duration.toMillis(staleAfter)) workers.delete(id)
    }
    if (workers.size === 0) latch.close()
    else {
      yield* readSettings
      yield* beat(
        [...workers.values()].map(({ worker }) => worker),
        goesOn
      )
    }
    return {}
  })
  const loop: Loop = {
    name: "remote workers",
    about: "sending the heartbeats of the remote workers that this process serves",
    schedule: after(
      Effect.suspend(() => (workers.size > 0 ? Effect.void : latch.opened)),
      Schedule.spaced(Duration.millis(beatInterval))
    ),
    runAtStart: false,
    steps: [{ name: "beat", timeout: lease, run: pass }]
  }
  yield* runLoop(loop)

  return RemotePods.of({
    join: (about, serves) =>
      Effect.gen(function* () {
        const id = podIdOf(about)
        const known = workers.get(id)
        let entry = known
        if (entry === undefined || !isServed(entry, serves)) {
          const made = yield* makeWorker(about, id, serves)
          // Another request may have joined meanwhile.
          entry = workers.get(id)
          if (entry === undefined || !isServed(entry, serves)) {
            if (known !== undefined) for (const [key, job] of known.worker.held) made.worker.held.set(key, job)
            entry = made
            workers.set(id, made)
          }
        }
        yield* heard(id)
        yield* entry.ready
        // It has left through another process.
        if (Number.isFinite(entry.worker.missedAt)) yield* newcomers.submit({ worker: entry.worker, serves })
        return entry.worker
      }),
    heard,
    adopt,
    leave: (id) =>
      Effect.suspend(() => {
        workers.delete(id)
        return Effect.zipRight(pods.leave(id), hints.publish(podsTopic, id))
      }),
    room: (worker, name, wanted) =>
      Effect.gen(function* () {
        const left = () => {
          const held = worker.heldOf(name)
          const share = shareOf(worker, name)
          return Math.min(share - held.length, roomBeside(held, share))
        }
        if (left() < wanted && worker.heldOf(name).length > 0) yield* forgetEnded(worker)
        return Math.max(0, Math.min(wanted, left()))
      }),
    freshSettings: Effect.flatMap(steadyNow, (now) =>
      now - settingsReadAt < beatInterval ? Effect.void : readSettings
    ),
    settings: (name) => settings.get(name)
  })
})
