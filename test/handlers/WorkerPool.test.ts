import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Schema, Scope, TestClock } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as WorkerPool from "../../src/handlers/WorkerPool.js"
import * as Job from "../../src/queue/Job.js"
import { TestShift } from "../../src/testing/effect.js"
import { waiting } from "../support/States.js"
import { directory, eventually, isAlive, jobOf, perform, pidsIn } from "./fixtures/Workshop.js"

const script = fileURLToPath(new URL("fixtures/worker.mjs", import.meta.url))
const Ask = Job.make("ask", { payload: Schema.Struct({ act: Schema.String, value: Schema.optional(Schema.Unknown) }) })

const command = (...args: ReadonlyArray<string>): WorkerPool.WorkerPoolOptions => ({
  command: [process.execPath, script, ...args]
})

/** A pool that is open for the whole test. */
const poolOf = (options: WorkerPool.WorkerPoolOptions) =>
  Effect.map(
    Handler.opened(WorkerPool.make(Ask, options)),
    (handler) => (act: string, value?: unknown) => perform(handler, { act, ...(value === undefined ? {} : { value }) })
  )

/** Yields to the event loop once. */
const breathe = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

const pidOf = (outcome: Outcome.Outcome) => (outcome as unknown as { result: { pid: number } }).result.pid

describe.concurrent("a worker pool", () => {
  it.scopedLive("sends a child one line per job, and uses its answer as the outcome", () =>
    Effect.gen(function* () {
      const ask = yield* poolOf(command())
      expect(yield* ask("echo", { deep: ["größe\n", 1] })).toMatchObject({
        _tag: "Done",
        result: { echoed: { deep: ["größe\n", 1] } }
      })
      expect(yield* ask("error")).toEqual(Outcome.retry("no luck", Duration.seconds(7)))
      expect(yield* ask("plainError")).toEqual(Outcome.retry("the child process reported an error without a message"))
      expect(yield* ask("dead")).toEqual(Outcome.dead("never"))
      expect(yield* ask("throttled")).toEqual(Outcome.throttled({ after: Duration.seconds(90) }))
      expect(yield* ask("nulls")).toEqual(Outcome.done())
      expect(yield* ask("slices")).toEqual(Outcome.done("größe 🌙"))
      expect(yield* ask("large", "x".repeat(900_000))).toEqual(Outcome.done(900_000))
    })
  )

  it.scopedLive("reuses children, and runs as many as there are concurrent jobs", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const ask = yield* poolOf(command("", file))
      const first = pidOf(yield* ask("echo"))
      expect(pidOf(yield* ask("echo"))).toBe(first)
      yield* Effect.all(
        Array.from({ length: 30 }, (_, index) => ask("echo", index)),
        { concurrency: 3 }
      )
      const pids = yield* pidsIn(file, 1)
      expect(pids.length).toBeLessThanOrEqual(3)
      expect(pids).toContain(first)
    })
  )

  it.scopedLive.each([
    ["otherId", 'it replied for another job id, "somebody-else"'],
    ["noId", 'it sent an invalid reply: "{\\"status\\":\\"ok\\"}"'],
    ["garbage", 'it sent an invalid reply: "Traceback: what?"'],
    ["oddStatus", "it sent an invalid reply"],
    ["endless", "it wrote a line longer than 1048576 bytes"],
    ["die", "it exited with code 9: out of paper"],
    ["hush", "it closed its output"]
  ] as const)("replaces a child that breaks: %s", ([act, why]) =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const ask = yield* poolOf(command("", file))
      const before = pidOf(yield* ask("echo"))
      const broken = yield* ask(act)
      expect(broken).toMatchObject({
        _tag: "Retry",
        error: expect.stringContaining(`the child process failed: ${why}`)
      })
      expect(isAlive(before)).toBe(false)
      expect(pidOf(yield* ask("echo"))).not.toBe(before)
      expect(yield* pidsIn(file, 2)).toHaveLength(2)
    })
  )

  it.scopedLive("replaces a child that wrote too much, but accepts its answer", () =>
    Effect.gen(function* () {
      const ask = yield* poolOf(command())
      const before = pidOf(yield* ask("echo"))
      expect(yield* ask("twice")).toEqual(Outcome.done())
      expect(pidOf(yield* ask("echo"))).not.toBe(before)
      yield* eventually(() => !isAlive(before))
    })
  )

  it.scopedLive("ends a child that writes without being asked", () =>
    Effect.gen(function* () {
      const ask = yield* poolOf(command())
      const chatty = pidOf(yield* ask("chatter"))
      yield* eventually(() => !isAlive(chatty))
      expect(yield* ask("echo", 1)).toMatchObject({ result: { echoed: 1 } })
    })
  )

  it.scopedLive("replaces a child that exited between two jobs", () =>
    Effect.gen(function* () {
      const ask = yield* poolOf(command())
      const gone = pidOf(yield* ask("dieLater"))
      yield* eventually(() => !isAlive(gone))
      // The pool may ask the dead child before it notices the exit; that is an ordinary failure.
      const answers = [yield* ask("echo", 1), yield* ask("echo", 1)]
      expect(answers.at(-1)).toMatchObject({ _tag: "Done", result: { echoed: 1 } })
    })
  )

  it.scopedLive("replaces the child of a job that is stopped", () =>
    Effect.gen(function* () {
      const ask = yield* poolOf(command())
      const before = pidOf(yield* ask("echo"))
      const running = yield* Effect.fork(ask("hang"))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(running)
      expect(isAlive(before)).toBe(false)
      expect(yield* ask("echo", 2)).toMatchObject({ result: { echoed: 2 } })
    })
  )

  it.scopedLive("leaves no child behind when jobs are stopped while their children start", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const ask = yield* poolOf({ command: ["sh", "-c", 'echo $$ >> "$0"; echo ready; exec sleep 1000', file] })
      // Stops the job at any point from before the start's first step to after its last.
      const stopAfter = (turns: number) =>
        Effect.gen(function* () {
          const running = yield* Effect.fork(ask("echo"))
          yield* Effect.repeatN(breathe, turns)
          yield* Fiber.interrupt(running)
        })
      yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index),
        stopAfter,
        { concurrency: 8 }
      )
      const pids = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").map(Number) : []
      expect(pids.filter(isAlive)).toEqual([])
    })
  )

  it.scopedLive("ends every child with its pod concurrently, including those that ignore TERM", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const scope = yield* Scope.make()
      const ask = yield* Scope.extend(poolOf(command("deaf", file)), scope)
      yield* Effect.all(
        Array.from({ length: 3 }, (_, index) => ask("echo", index)),
        { concurrency: "unbounded" }
      )
      const running = yield* Effect.fork(ask("hang"))
      const pids = yield* pidsIn(file, 3)
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      const told = () => (existsSync(`${file}.term`) ? readFileSync(`${file}.term`, "utf8").trim().split("\n") : [])
      yield* eventually(() => told().length === 3 && pids.every(isAlive))
      yield* Fiber.join(closing)
      expect(pids.filter(isAlive)).toEqual([])
      yield* Fiber.interrupt(running)
    })
  )

  it.scopedLive("waits for a child to be ready, up to a limit", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const silent = yield* poolOf({
        command: ["sh", "-c", 'echo $$ > "$0"; exec sleep 1000', file],
        startTimeout: "1 second"
      })
      expect(yield* silent("echo")).toEqual(Outcome.retry("the child process failed: it was not ready after 1s"))
      const [pid = 0] = yield* pidsIn(file, 1)
      expect(isAlive(pid)).toBe(false)
      const mumbling = yield* poolOf(command("mumble"))
      expect(yield* mumbling("echo")).toEqual(
        Outcome.retry('the child process failed: it wrote "warming up" to stdout instead of its ready line')
      )
      const other = yield* poolOf({ ...command("mumble"), ready: /^warming/ })
      // The child's second line comes unasked.
      expect(yield* other("echo")).toMatchObject({ _tag: "Retry" })
    })
  )

  it.scopedLive("reports a command that does not exist", () =>
    Effect.gen(function* () {
      const ask = yield* poolOf({ command: ["/no/such/worker"] })
      expect(yield* ask("echo")).toMatchObject({
        _tag: "Retry",
        error: expect.stringMatching(/^the child process failed: \/no\/such\/worker.*(not found|No such file)/)
      })
    })
  )

  it.scopedLive("gives its children a clean environment", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "environment")
      const write = "require('fs').writeFileSync(process.argv[1], JSON.stringify(process.env)); console.log('ready')"
      const ask = yield* poolOf({
        command: [process.execPath, "-e", write, file],
        environment: { MODEL: "small" },
        directory: "/"
      })
      yield* ask("echo")
      const { SHLVL: _, ...found } = JSON.parse(readFileSync(file, "utf8"))
      expect(found).toEqual({ PATH: "/usr/local/bin:/usr/bin:/bin", MODEL: "small" })
    })
  )
})

describe("a worker pool whose children fail to start", () => {
  it.effect("starts one at a time with growing pauses, and fails no other job for it", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const handler = yield* Handler.opened(WorkerPool.make(Ask, command("crash", file)))
      const wave = Effect.map(
        Effect.all(
          Array.from({ length: 8 }, (_, index) => perform(handler, { act: "echo" }, jobOf(`job-${index}`))),
          { concurrency: "unbounded" }
        ),
        (outcomes) => outcomes.map(({ _tag }) => _tag).sort()
      )
      const started = () => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").length : 0)
      // The first wave does not know yet that children fail.
      expect(yield* wave).toEqual(Array(8).fill("Retry"))
      expect(started()).toBe(8)
      const one = ["Retry", ...Array(7).fill("Snooze")]
      for (const [pause, index] of [1, 2, 4, 8, 16, 32, 60, 60].map((pause, index) => [pause, index] as const)) {
        yield* TestClock.adjust(Duration.seconds(pause - 0.5))
        expect(yield* wave).toEqual(Array(8).fill("Snooze"))
        yield* TestClock.adjust("500 millis")
        expect([pause, yield* wave]).toEqual([pause, one])
        expect(started()).toBe(9 + index)
      }
      const outcome = yield* perform(handler, { act: "echo" })
      expect(outcome).toEqual(Outcome.snooze(Duration.seconds(60)))
      yield* TestClock.adjust("1 minute")
      expect(yield* perform(handler, { act: "echo" })).toEqual(
        Outcome.retry("the child process failed: it exited with code 3: cannot start today")
      )
    }).pipe(Effect.scoped)
  )
})

describe("a worker pool in a pod", () => {
  it.effect("keeps idle children for a while, then ends them", () =>
    Effect.gen(function* () {
      const handler = yield* Handler.opened(WorkerPool.make(Ask, { ...command(), idle: "1 minute" }))
      const first = pidOf(yield* perform(handler, { act: "echo" }))
      yield* TestClock.adjust("59 seconds")
      expect(pidOf(yield* perform(handler, { act: "echo" }))).toBe(first)
      yield* TestClock.adjust("61 seconds")
      yield* TestClock.adjust("60 seconds")
      yield* eventually(() => !isAlive(first)).pipe(Effect.withClock(Clock.make()))
    }).pipe(Effect.scoped)
  )

  it.effect("times out like any handler: its child is replaced and the attempt counted", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const begun = join(yield* directory, "begun")
      const { id } = yield* Ask.enqueue({ act: "hang", value: begun })
      yield* eventually(() => existsSync(begun)).pipe(Effect.withClock(Clock.make()))
      yield* shift.advance("15 minutes")
      yield* Effect.repeat(shift.settle, {
        until: () => Effect.map(shift.job(id), ({ state }) => state !== "running")
      })
      expect(yield* shift.job(id)).toMatchObject({
        state: waiting,
        attempt: 1,
        lastError: expect.stringContaining("timed out after 15m")
      })
    }).pipe(Effect.scoped, Effect.provide(TestShift.layer({ handlers: [WorkerPool.make(Ask, command())] })))
  )
})
