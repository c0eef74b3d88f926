import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Logger, LogLevel, Redacted, Tracer } from "effect"
import * as LogLine from "../../src/telemetry/LogLine.js"
import * as Masking from "../../src/telemetry/Masking.js"

/** The JSON lines that an effect logs, as text. */
const textsOf = (effect: Effect.Effect<void>, mask: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const lineOf = LogLine.make(mask)
    const keep = Logger.make((options) => void lines.push(LogLine.json(lineOf(options))))
    yield* Effect.provide(effect, Logger.replace(Logger.defaultLogger, keep))
    return lines
  })

const linesOf = (effect: Effect.Effect<void>, mask: ReadonlyArray<string> = []) =>
  Effect.map(textsOf(effect, mask), (lines) => lines.map((line) => JSON.parse(line) as Record<string, unknown>))

const time = "1970-01-01T00:00:00.000Z"
const job = { id: "0198", kind: "charge", queue: "money", attempt: 2 }
const facts = { job: "0198", kind: "charge", queue: "money", attempt: 2 }
const ofJob = Effect.annotateLogs(LogLine.jobAnnotation, job)

describe("a JSON log line", () => {
  it.effect("has its time, level and message first, and no empty fields", () =>
    Effect.gen(function* () {
      expect(yield* textsOf(Effect.logInfo("stopped"))).toEqual([`{"time":"${time}","level":"info","msg":"stopped"}`])
    })
  )

  it.effect("has the level in lower case", () =>
    Effect.gen(function* () {
      const all = Effect.all(
        [Effect.logTrace, Effect.logDebug, Effect.logInfo, Effect.logWarning, Effect.logError, Effect.logFatal].map(
          (log) => log("x")
        )
      )
      const lines = yield* linesOf(Effect.asVoid(Logger.withMinimumLogLevel(all, LogLevel.All)))
      expect(lines.map(({ level }) => level)).toEqual(["trace", "debug", "info", "warn", "error", "fatal"])
    })
  )

  it.effect("names the job at the top, beside the fields of the program", () =>
    Effect.gen(function* () {
      const charged = Effect.logWarning("charged", { amount: 5 }).pipe(Effect.annotateLogs({ order: 7 }), ofJob)
      expect(yield* linesOf(charged)).toEqual([{ time, level: "warn", msg: "charged", ...facts, order: 7, amount: 5 }])
    })
  )

  it.effect("keeps fields of the program apart if they have a name with another meaning", () =>
    Effect.gen(function* () {
      const taken = { job: "nightly", kind: "vip", time: 1, msg: "no", level: "loud", trace: "t", step: 3 }
      const asArgument = Effect.logInfo("charged", taken).pipe(ofJob)
      const asAnnotation = Effect.logInfo("charged").pipe(Effect.annotateLogs(taken), ofJob)
      const line = { time, level: "info", msg: "charged", ...facts, fields: taken }
      expect(yield* linesOf(Effect.zipRight(asArgument, asAnnotation))).toEqual([line, line])
    })
  )

  it.effect("has errors as text with their stack traces, from arguments, fields and causes", () =>
    Effect.gen(function* () {
      const why = new TypeError("no", { cause: new Error("disk full") })
      const lines = yield* linesOf(
        Effect.all(
          [
            Effect.logError("it failed", why),
            Effect.logError("it failed", { error: why, order: 7 }),
            Effect.logError("it failed", Cause.fail(why)),
            Effect.logError("it failed").pipe(Effect.annotateLogs({ error: why }))
          ],
          { discard: true }
        )
      )
      expect(lines).toHaveLength(4)
      for (const line of lines) {
        expect(line).toMatchObject({ level: "error", msg: "it failed" })
        expect(line.error).toMatch(/^TypeError: no\n +at [\s\S]*disk full/)
      }
      const [text, only] = yield* linesOf(
        Effect.zipRight(Effect.logError("it failed", { error: "disk full" }), Effect.logError(why))
      )
      expect(text).toEqual({ time, level: "error", msg: "it failed", error: "disk full" })
      expect(only).toMatchObject({ msg: "no", error: expect.stringMatching(/^TypeError: no\n +at /) })
    })
  )

  it.effect("has log spans in milliseconds, and the ids of a trace that is exported", () =>
    Effect.gen(function* () {
      const parent = Tracer.externalSpan({ traceId: "4bf9", spanId: "00f0", sampled: true })
      const logged = Effect.logInfo("x").pipe(Effect.withLogSpan("lookup"), Effect.withParentSpan(parent))
      expect(yield* linesOf(logged)).toEqual([
        { time, level: "info", msg: "x", trace: "4bf9", span: "00f0", spans: { lookup: 0 } }
      ])
      // Spans of a program that exports none have random ids, which nothing else shows.
      expect(yield* linesOf(Effect.withSpan(Effect.logInfo("x"), "own"))).toEqual([{ time, level: "info", msg: "x" }])
    })
  )

  it.effect("joins several words, and shows values as JSON", () =>
    Effect.gen(function* () {
      expect(yield* linesOf(Effect.logInfo("took", 7, ["a", 1], undefined, null))).toEqual([
        { time, level: "info", msg: 'took 7 ["a",1] undefined null' }
      ])
    })
  )
})

describe("a hostile value", () => {
  const circular: Record<string, unknown> = { name: "loop", list: [] }
  circular.self = circular
  const bomb: Array<unknown> = []
  bomb.push(bomb, bomb)
  const proxy = new Proxy({}, { ownKeys: () => JSON.parse("{") })
  const endless: { toJSON(): unknown } = { toJSON: () => ({ ...endless }) }
  const ownCause = new Error("round")
  ownCause.cause = ownCause
  const deep: Record<string, unknown> = {}
  let bottom = deep
  for (let depth = 0; depth < 50_000; depth += 1) {
    bottom.next = {}
    bottom = bottom.next as Record<string, unknown>
  }
  const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`f${index}`, index]))

  it.effect.each([
    ["a circular object", circular, { name: "loop", list: [], self: "[circular]" }],
    ["a circular list", bomb, ["[circular]", "[circular]"]],
    ["a BigInt", 12345678901234567890n, "12345678901234567890"],
    ["a symbol", Symbol("s"), "Symbol(s)"],
    ["a function", function named() {}, "[function named]"],
    ["no number", Number.NaN, "NaN"],
    ["an invalid date", new Date(Number.NaN), null],
    ["bytes", new Uint8Array(3), "[3 bytes]"],
    ["a Map", new Map([["a", 1n]]), { a: "1" }],
    ["a Set", new Set([1, 2]), [1, 2]],
    ["a secret", Redacted.make("hunter2"), "<redacted>"],
    ["a proxy that throws", proxy, "[unreadable]"],
    [
      "a getter that throws",
      {
        get a() {
          throw new Error("no")
        }
      },
      "[unreadable]"
    ],
    ["toJSON that throws", { toJSON: () => JSON.parse("{") }, "[unreadable]"],
    ["toJSON without end", endless, expect.anything()],
    ["an error that is its own cause", ownCause, expect.stringContaining("round")],
    ["a deep object", deep, expect.anything()],
    ["a wide object", wide, expect.objectContaining({ f99: 99, "…": "more fields" })],
    ["a long list", Array.from({ length: 200 }, () => 0), expect.arrayContaining(["… (100 more)"])]
  ] as ReadonlyArray<readonly [string, unknown, unknown]>)("never breaks a line: %s", ([, value, shown]) =>
    Effect.gen(function* () {
      const log = Effect.logInfo("x", { value }).pipe(ofJob)
      const [line] = yield* textsOf(log)
      expect(JSON.parse(line ?? "")).toMatchObject({ msg: "x", ...facts, value: shown })
      expect(line?.length).toBeLessThan(40_000)
      expect(yield* linesOf(Effect.logInfo("x").pipe(Effect.annotateLogs({ value }), ofJob), ["pin"])).toMatchObject([
        { msg: "x", ...facts, value: shown }
      ])
      expect(yield* linesOf(Effect.logInfo("x", value))).toHaveLength(1)
    })
  )

  it.effect("is cut if it is long, and says how much is missing", () =>
    Effect.gen(function* () {
      const [line] = yield* linesOf(Effect.logInfo("m".repeat(20_000), { value: "v".repeat(1_000_000) }))
      expect(line?.msg).toMatch(/^m{16384}… \(3616 more characters\)$/)
      expect(line?.value).toMatch(/^v{16384}… \(983616 more characters\)$/)
    })
  )

  it.effect("never makes a second line", () =>
    Effect.gen(function* () {
      const text = 'x\n{"level":"info","msg":"forged"}\r\u0085\u2028\u2029\u001b[31m\u009b31m\v\f\u007f'
      const [line] = yield* textsOf(Effect.logInfo(text, { [text]: text, error: text }))
      expect(line).toMatch(/^[\u0020-\u007e]+$/)
      expect(JSON.parse(line ?? "")).toEqual({ time, level: "info", msg: text, [text]: text, error: text })
    })
  )
})

describe("a masked field", () => {
  it.effect("is hidden in fields at any depth, in words, in errors and in texts", () =>
    Effect.gen(function* () {
      const [line] = yield* textsOf(
        Effect.logError(
          "sent password=hunter2",
          { user: { Password: "hunter2" }, list: [{ email: "ada@example.org" }] },
          ['{"email":"ada@example.org"}'],
          new Error('no mailbox {"email": "ada@example.org"}')
        ).pipe(Effect.annotateLogs({ password: "hunter2", note: "email: ada@example.org" }), ofJob),
        ["password", "email"]
      )
      expect(line).not.toMatch(/hunter2|ada@example/)
      expect(JSON.parse(line ?? "")).toMatchObject({
        ...facts,
        password: "[masked]",
        user: { Password: "[masked]" },
        list: [{ email: "[masked]" }]
      })
    })
  )

  it.effect("is hidden in the execution, and in the step, of a job that has it in its payload", () =>
    Effect.gen(function* () {
      const signup = { ...job, execution: "signup/ada@example.org", [Masking.dataOf]: { email: "ada@example.org" } }
      const logged = Effect.logInfo("execution signup/ada@example.org").pipe(
        Effect.annotateLogs({ [LogLine.jobAnnotation]: signup, [LogLine.stepAnnotation]: "mail ada@example.org" })
      )
      expect(yield* linesOf(logged, ["email"])).toEqual([
        {
          ...{ time, level: "info", msg: "execution signup/[masked]", ...facts },
          ...{ execution: "signup/[masked]", step: "mail [masked]" }
        }
      ])
    })
  )

  it.effect("is hidden where a number is its value, and only there", () =>
    Effect.gen(function* () {
      const data = { [Masking.dataOf]: { pin: 471100 } }
      const logged = Effect.logInfo("x", { entered: 471100, deep: [471100], amount: 4711001, small: 47 }).pipe(
        Effect.annotateLogs(LogLine.jobAnnotation, data)
      )
      expect(yield* linesOf(logged, ["pin"])).toEqual([
        { time, level: "info", msg: "x", entered: "[masked]", deep: ["[masked]"], amount: 4711001, small: 47 }
      ])
    })
  )

  it.effect("is hidden in a message of several words", () =>
    Effect.gen(function* () {
      const words = Effect.logInfo("sent password:", "hunter2", "to ada")
      const number = Effect.logInfo("pin =", 471100)
      const lines = yield* linesOf(Effect.zipRight(words, number), ["password", "pin"])
      expect(lines.map(({ msg }) => msg)).toEqual(["sent password: [masked] to ada", "pin = [masked]"])
    })
  )

  it.effect("is replaced once in a text that is masked twice", () =>
    Effect.gen(function* () {
      const given = ["password=[masked] now", "'password': '[masked]'", [{ password: "hunter2" }, "password=hunter2"]]
      const lines = yield* linesOf(Effect.asVoid(Effect.forEach(given, (each) => Effect.logInfo(each))), ["password"])
      expect(lines.map(({ msg }) => msg)).toEqual([
        "password=[masked] now",
        "'password': '[masked]'",
        '[{"password":"[masked]"},"password=[masked]"]'
      ])
      const [forged] = yield* linesOf(Effect.logInfo('password=[masked]hunter2 password="[masked]hunter2"'), [
        "password"
      ])
      expect(forged?.msg).not.toContain("hunter2")
    })
  )

  it.effect("does not hide what identifies the job", () =>
    Effect.gen(function* () {
      expect(yield* linesOf(ofJob(Effect.logInfo("x")), ["queue", "kind", "msg", "job"])).toEqual([
        { time, level: "info", msg: "x", ...facts }
      ])
    })
  )
})
