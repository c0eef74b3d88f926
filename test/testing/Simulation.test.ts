import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import type { Queue } from "../../src/queue/Queue.js"
import { Transactions } from "../../src/queue/Transactions.js"
import type { RateLimits } from "../../src/rate-limits/RateLimits.js"
import { type Coverage, Simulation, type SimulationOptions, TestShift } from "../../src/testing/effect.js"
import { Actor } from "../../src/testing/simulation/Actor.js"
import * as CoverageTable from "../../src/testing/simulation/Coverage.js"
import { ServerClock } from "../../src/testing/simulation/ServerClock.js"
import { SteppingClock } from "../../src/testing/simulation/SteppingClock.js"
import { isLong } from "../support/Scale.js"
import { everyFault, faultsOf } from "./SimulatedFaults.js"
import { mistakes } from "./Tampered.js"

const Receipt = Job.make("receipt", {
  payload: Schema.Struct({ order: Schema.Int }),
  queue: "mail",
  timeout: "20 seconds"
})

const receipts = Array.from({ length: 8 }, (_, index) =>
  Receipt.job({ order: index + 1 }, { key: `customer ${index % 3}` })
)

/** One run takes between a tenth of a second and several, depending on load. */
const patient = { timeout: 600_000 }

describe("a simulation", () => {
  it.live(
    "keeps every guarantee of the queue under all faults",
    () =>
      Effect.gen(function* () {
        // test/long runs many more seeds, which cover every kind of fault.
        const seen = new Set<string>()
        for (let seed = 1; seed <= 3; seed += 1) for (const fault of yield* faultsOf(seed)) seen.add(fault)
        expect(seen.size).toBeGreaterThan(everyFault.length / 3)
      }),
    patient
  )

  it.live(
    "is reproducible for a seed, and differs between seeds",
    () =>
      Effect.gen(function* () {
        const alive = Effect.map(Fiber.roots, (fibers) => fibers.length)
        const before = yield* alive
        const first = yield* Simulation.run({ seed: 7 })
        const other = yield* Simulation.run({ seed: 8 })
        const again = yield* Simulation.run({ seed: 7 })
        expect(again.fingerprint).toBe(first.fingerprint)
        expect(again.trace).toEqual(first.trace)
        expect(other.fingerprint).not.toBe(first.fingerprint)
        // Killed pods are not retained either.
        expect(yield* alive).toBe(before)
      }),
    patient
  )

  it.live(
    "injects nothing when no faults are configured",
    () =>
      Effect.gen(function* () {
        const faults = { database: false, pods: false, operators: false, clock: false }
        const handlers = [Handler.make(Receipt, ({ order }) => Effect.as(Effect.sleep("1 second"), order))]
        const report = yield* Simulation.run({ seed: 1, handlers, jobs: receipts, faults })
        expect(report.violations).toEqual([])
        expect(report.faults).toEqual([])
        expect(report.jobs.map(({ attempt, result, state }) => [state, attempt, result]).sort()).toEqual(
          [1, 2, 3, 4, 5, 6, 7, 8].map((order) => ["done", 1, order])
        )
      }),
    patient
  )

  it.live("refuses handlers without jobs, with which nothing could be violated", () =>
    Effect.gen(function* () {
      const handlers = [Handler.make(Receipt, () => Effect.void)]
      for (const options of [
        { seed: 1, handlers },
        { seed: 1, handlers, jobs: 5 }
      ])
        expect(String(yield* Effect.flip(Effect.sandbox(Simulation.run(options))))).toMatch(
          /Simulation needs a list of jobs for your handlers, got (undefined|5)\. Pass \{ jobs \}\./
        )
    })
  )
})

describe("a request through a pod", () => {
  it.live(
    "dies with its pod, before it is applied or after, and the client sends a file again",
    () =>
      Effect.gen(function* () {
        const upload = { at: 3_000, _tag: "Upload", nth: 1, pod: "pod-1" } as const
        const steps = [
          { at: 10, _tag: "Enqueue", nth: 1 } as const,
          { at: 2_000, _tag: "Cancel", nth: 1, pod: "pod-1" } as const,
          upload
        ]
        const ofPod = { nth: 1, kind: "killed" } as const
        const faults = [
          { ...ofPod, who: "pod-1.1", call: "Storage.put" },
          { ...ofPod, who: "pod-1.2", call: "Storage.get" },
          { ...ofPod, who: "pod-1.3", call: "Storage.markFetched" },
          { ...ofPod, who: "pod-1.4", call: "Storage.ack", kind: "disconnected" as const }
        ]
        const when = new Set<string>()
        for (let seed = 1; seed <= 4; seed += 1) {
          const report = yield* Simulation.run({ seed, jobs: 2, pods: 1, plan: { pods: 1, steps, faults } })
          expect(report.violations, Simulation.describe(report)).toEqual([])
          const told = report.trace.map(({ what, who }) => `${who} ${what}`).join("\n")
          expect(told).toContain("plan cancel #1 through pod-1")
          expect(told).toMatch(/pod-1\.1 Storage\.put is \w+, then its process is killed/)
          expect(told).toContain("file 1 is stored")
          for (const [, how = ""] of told.matchAll(/ is (\w+), then its process/g)) when.add(how)
          const put = report.coverage.operations.find(({ operation }) => operation === "Storage.put")
          expect(put?.hits.killed).toBe(1)
        }
        expect(when).toEqual(new Set(["sent", "applied"]))
      }),
    patient
  )
})

describe("a pause that a frozen pod applies late", () => {
  it.live(
    "does not keep the cluster from draining",
    () =>
      Simulation.regression(
        '{"seed":1,"jobs":3,"pods":2,"steps":[{"at":3500,"_tag":"Freeze","pod":"pod-1","millis":14000},{"at":4000,"_tag":"PauseQueue","queue":"plain","millis":6000,"pod":"pod-1"},{"at":16000,"_tag":"Enqueue","nth":1},{"at":16000,"_tag":"Enqueue","nth":2},{"at":16000,"_tag":"Enqueue","nth":3}],"faults":[]}'
      ),
    patient
  )
})

describe("a bug in the database", () => {
  // The test command runs three of them, to show that the checker finds bugs.
  const tried = Object.entries(mistakes).slice(0, isLong ? undefined : 3)
  for (const [mistake, { breaks, seed: from = 1, tamper }] of tried) {
    it.live(
      `is found: ${mistake}`,
      () =>
        Effect.gen(function* () {
          for (let seed = from; seed < from + 20; seed += 1) {
            const report = yield* Simulation.run({
              seed,
              jobs: 20,
              pods: 2,
              stopAt: breaks,
              drainTimeout: "1 minute",
              tamper
            })
            if (report.violations.some(({ invariant }) => invariant === breaks)) return
          }
          expect.fail(`twenty seeds did not show that "${breaks}" is broken`)
        }),
      patient
    )
  }

  // It takes as long as all other tests of this file.
  const inLongRuns = isLong ? it.live : () => {}
  inLongRuns(
    "is shown by a minimal trace, which is a regression test in one line: it fails while the bug exists",
    () =>
      Effect.gen(function* () {
        const bug = mistakes["a pause is acknowledged and not stored"]?.tamper ?? ((tables) => tables)
        const options: SimulationOptions<never> = { seed: 13, jobs: 8, pods: 2, tamper: bug }
        const report = yield* Simulation.run(options)
        const small = yield* Simulation.shrink(options, report)
        expect(small.plan.steps.length).toBeLessThan(report.plan.steps.length / 2)
        expect(small.plan.steps.map(({ _tag }) => _tag)).toContain("PauseQueue")
        expect(small.faults.length).toBeLessThanOrEqual(report.faults.length)
        expect(Simulation.describe(small)).toMatch(/^seed 13 violates an invariant: no job is claimed .*\n {2}pause: /)
        // A minimized plan can be replayed.
        const again = yield* Simulation.run({ ...options, plan: small.plan })
        expect(again.fingerprint).toBe(small.fingerprint)
        const line = Simulation.regressionLine(small)
        expect(line).not.toContain("\n")
        const failed = yield* Effect.flip(Simulation.regression(line, { tamper: bug }))
        expect(failed).toMatchObject({ _tag: "SimulationFailed", report: { seed: 13 } })
        expect(failed.message).toContain("pause: ")
        expect((yield* Simulation.regression(line)).violations).toEqual([])
      }),
    patient
  )
})

describe("many runs in one process", () => {
  it.live(
    "keep nothing of earlier ones in memory",
    () =>
      Effect.gen(function* () {
        const isLeft = (fiber: object) => Reflect.get(fiber, "currentScheduler") instanceof Actor
        const left: Array<Fiber.RuntimeFiber<unknown, unknown>> = []
        // In these runs, a workflow starts an effect after its run is over.
        for (const seed of [6, 24, 27]) {
          yield* Simulation.run({ seed })
          yield* Effect.promise(() => new Promise(setImmediate))
          left.push(...(yield* Fiber.roots).filter(isLeft))
        }
        expect(left).not.toHaveLength(0)
        yield* Simulation.run({ seed: 1 })
        const roots = new Set(yield* Fiber.roots)
        expect(left.filter((fiber) => roots.has(fiber))).toHaveLength(0)
      }),
    patient
  )
})

describe("a regression", () => {
  it.live(
    "of a leader that is frozen past its lease and then stopped passes",
    () =>
      Simulation.regression(
        '{"seed":20223,"jobs":10,"pods":2,"slowClocks":true,"steps":[{"at":2756,"_tag":"Kill","pod":"pod-1"},{"at":5395,"_tag":"Freeze","pod":"pod-2","millis":16014},{"at":5854,"_tag":"Disconnect","pod":"all","millis":15824},{"at":6865,"_tag":"Stop","pod":"pod-2"}],"faults":[]}'
      ),
    patient
  )

  it.live(
    "of an execution that is woken by the batch with a stale end of it passes",
    () =>
      Simulation.regression(
        '{"seed":333034822,"jobs":12,"pods":3,"slowClocks":true,"steps":[{"at":0,"_tag":"Enqueue","nth":5},{"at":0,"_tag":"Deliver","nth":1},{"at":1,"_tag":"Enqueue","nth":4,"pod":"pod-3"},{"at":6,"_tag":"Enqueue","nth":2},{"at":6,"_tag":"Enqueue","nth":6},{"at":7,"_tag":"Enqueue","nth":11,"pod":"pod-2"},{"at":8,"_tag":"Enqueue","nth":1,"pod":"pod-3"},{"at":8,"_tag":"Enqueue","nth":12},{"at":9,"_tag":"Enqueue","nth":7},{"at":1461,"_tag":"StepClock","millis":-60000},{"at":5377,"_tag":"Kill","pod":"pod-3"},{"at":5496,"_tag":"Disconnect","pod":"pod-1","millis":16386}],"faults":[{"who":"pod-2.1","call":"Queues.declare","nth":1,"kind":"refused"},{"who":"pod-1.1","call":"Signals.publish","nth":2,"kind":"refused"},{"who":"pod-1.1","call":"Queue.claim","nth":6,"kind":"lost"},{"who":"pod-3.1","call":"Queue.claim","nth":7,"kind":"lost"},{"who":"pod-3.1","call":"Kinds.find","nth":1,"kind":"refused"},{"who":"pod-1.1","call":"Queue.nextDue","nth":5,"kind":"lost"},{"who":"pod-1.1","call":"Workflows.record","nth":4,"kind":"refused"},{"who":"pod-1.1","call":"Queue.finalize","nth":5,"kind":"refused"},{"who":"pod-1.1","call":"Queue.claim","nth":12,"kind":"refused"},{"who":"pod-1.1","call":"Queue.nextDue","nth":11,"kind":"refused"},{"who":"pod-1.1","call":"Workflows.record","nth":8,"kind":"lost"}]}'
      ),
    patient
  )

  it.live(
    "of an execution that a child wakes in the call with its own end passes",
    () =>
      Simulation.regression(
        '{"seed":5339,"jobs":13,"pods":3,"slowClocks":true,"steps":[{"at":3,"_tag":"Enqueue","nth":4},{"at":3,"_tag":"Enqueue","nth":10},{"at":3,"_tag":"Enqueue","nth":13},{"at":4,"_tag":"Enqueue","nth":1},{"at":4,"_tag":"Enqueue","nth":2,"pod":"pod-1"},{"at":4,"_tag":"Enqueue","nth":8},{"at":9,"_tag":"Enqueue","nth":12},{"at":2259,"_tag":"Disconnect","pod":"pod-2","millis":11291}],"faults":[{"who":"pod-1.1","call":"Kinds.register","nth":1,"kind":"lost"},{"who":"pod-3.1","call":"Kinds.register","nth":1,"kind":"lost"},{"who":"pod-2.1","call":"Kinds.register","nth":1,"kind":"lost"},{"who":"pod-3.2","call":"Routes.register","nth":1,"kind":"refused"},{"who":"pod-2.2","call":"Routes.register","nth":1,"kind":"lost"},{"who":"pod-3.3","call":"Pods.beat","nth":1,"kind":"lost"},{"who":"pod-1.2","call":"Queues.declare","nth":1,"kind":"refused"},{"who":"pod-1.3","call":"RateLimits.register","nth":1,"kind":"slow"},{"who":"pod-3.4","call":"Queue.recoverAbandoned","nth":1,"kind":"lost"},{"who":"pod-3.5","call":"Schedules.nextInstant","nth":1,"kind":"refused"},{"who":"pod-3.5","call":"RateLimits.acquire","nth":2,"kind":"slow"},{"who":"pod-3.5","call":"Queue.finalize","nth":3,"kind":"slow"},{"who":"pod-3.5","call":"work in plain","nth":4,"kind":"dropped"},{"who":"pod-1.3","call":"Queues.all","nth":1,"kind":"lost"},{"who":"pod-3.5","call":"Shares.all","nth":2,"kind":"refused"},{"who":"pod-2.8","call":"RateLimits.register","nth":1,"kind":"refused"},{"who":"pod-3.5","call":"Workflows.children","nth":1,"kind":"lost"}]}'
      ),
    patient
  )

  it.effect("refuses a line that is not one", () =>
    Effect.gen(function* () {
      for (const line of ["seed 42", "{}", '{"seed":1,"jobs":1,"pods":"2","steps":[],"faults":[]}'])
        expect((yield* Effect.flip(Simulation.regression(line)))._tag).toBe("BadLine")
    })
  )
})

describe("coverage", () => {
  it("sums operations by fault and names the faults that never hit one", () => {
    const of = (hits: Coverage["operations"][number]["hits"]): Coverage => ({
      operations: [
        { operation: "Queue.claim", way: "call", count: 10, hits },
        { operation: "work", way: "hint", count: 1, hits: {} }
      ],
      steps: { Kill: 1 }
    })
    const sum = CoverageTable.sum([
      of({ refused: 1, slow: 2 }),
      of({ refused: 2, lost: 1, killed: 1, disconnected: 3 })
    ])
    expect(sum.operations[0]).toMatchObject({ count: 20, hits: { refused: 3, slow: 2, lost: 1 } })
    expect(sum.steps).toEqual({ Kill: 2 })
    expect(CoverageTable.untouched(sum)).toEqual(["work: dropped"])
    expect(CoverageTable.table(sum).split("\n")[1]?.split(/\s+/)).toEqual("Queue.claim 20 3 1 2 3 1 -".split(" "))
  })
})

describe("custom handlers in a simulation", () => {
  /** Whether one of a few seeds breaks the shop's guarantee: one mail per order. */
  const firstBroken = (mailer: (sent: Map<number, number>) => ReadonlyArray<Handler.Handler<Queue | RateLimits>>) =>
    Effect.gen(function* () {
      for (let seed = 1; seed <= (isLong ? 8 : 5); seed += 1) {
        const sent = new Map<number, number>()
        const report = yield* Simulation.run({
          seed,
          handlers: mailer(sent),
          jobs: receipts,
          pods: 2,
          invariants: [
            {
              name: "one mail",
              promise: "nobody gets two mails for one order",
              atEnd: () =>
                [...sent].flatMap(([order, count]) => (count > 1 ? [{ found: `order ${order}: ${count}` }] : []))
            }
          ]
        })
        const other = report.violations.filter(({ invariant }) => invariant !== "one mail")
        expect(other, Simulation.describe(report)).toEqual([])
        if (report.violations.length > 0) return seed
      }
      return undefined
    })

  it.live(
    "are caught repeating effects that they do not guard",
    () =>
      Effect.gen(function* () {
        const careless = (sent: Map<number, number>) => [
          Handler.make(Receipt, ({ order }) =>
            Effect.zipRight(
              Effect.sync(() => sent.set(order, (sent.get(order) ?? 0) + 1)),
              Effect.sleep("3 seconds")
            )
          )
        ]
        const careful = (sent: Map<number, number>) => [
          Handler.promise(Receipt, async ({ order }) => {
            await Promise.resolve()
            sent.set(order, 1)
          })
        ]
        expect(yield* firstBroken(careless)).toBeDefined()
        expect(yield* firstBroken(careful)).toBeUndefined()
      }),
    patient
  )
})

describe("a transaction in memory", () => {
  it.effect("stores its enqueues only if it succeeds", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { run } = yield* Transactions
      const failed = yield* Effect.exit(run(Effect.zipRight(Receipt.enqueue({ order: 1 }), Effect.fail("no"))))
      expect(Exit.isFailure(failed)).toBe(true)
      expect(yield* shift.jobs).toEqual([])
      const { id } = yield* run(Receipt.enqueue({ order: 2 }))
      expect((yield* shift.jobs).map((job) => job.id)).toEqual([id])
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Receipt, () => Effect.void)] })))
  )
})

describe("a stepping clock", () => {
  it("wakes sleepers by instant, then in the order they went to sleep, and no interrupted ones", () => {
    const clock = new SteppingClock(1_000)
    const woken: Array<string> = []
    const sleep = (name: string, delay: number, owner = "a") =>
      clock.after(owner, delay, () => woken.push(`${name} ${clock.now}`))
    for (const [index, delay] of [30, 10, 20, 10, 40].entries()) sleep(`${index}`, delay)
    sleep("called off", 5)()
    sleep("forgotten", 10, "b")
    clock.forget("b")
    expect([clock.sleepers("a"), clock.sleepers("b")]).toEqual([5, 0])
    while (clock.step());
    expect(woken).toEqual(["1 1010", "3 1010", "2 1020", "0 1030", "4 1040"])
  })

  it("steps with the database's in every process that has noticed, while monotonic time is unaffected", () => {
    const clock = new SteppingClock(0)
    const server = new ServerClock(clock, 1)
    const before = clock.clockOf("a", server.follow("a", 250))
    const steady = before.unsafeCurrentTimeNanos()
    server.step(300_000)
    expect(before.unsafeCurrentTimeMillis()).toBe(250)
    expect(clock.clockOf("b", server.follow("b", 0)).unsafeCurrentTimeMillis()).toBe(300_000)
    while (clock.step());
    expect(before.unsafeCurrentTimeMillis()).toBe(300_250 + clock.now)
    expect(before.unsafeCurrentTimeNanos() - steady).toBe(BigInt(clock.now) * 1_000_000n)
  })
})
