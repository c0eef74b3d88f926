import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as App from "../../src/cli/App.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import { TestShift } from "../../src/testing/TestShift.js"
import * as Nightshift from "../support/Nightshift.js"

// A module with a pool that its handlers share. It imports `Handler` and `Job` from src, because `nightshift` itself
// would need the build.
const module = (effect: string, build: string) => `
import { Context, Effect, Layer, Schema } from ${JSON.stringify(effect)}
const { Handler, Job, events } = globalThis.appLayerTest
class Pool extends Context.Tag("test/Pool")() {}
const query = Effect.flatMap(Pool, (pool) => Effect.sync(() => pool.number))
const kind = (name) => Job.make(name, { payload: Schema.Struct({}) })
export const handlers = [
  Handler.make(kind("first"), () => query),
  Handler.make(kind("second"), () => query),
  Handler.scoped(kind("third"), Effect.map(Pool, (pool) => () => Effect.succeed(pool.number)))
]
let built = 0
export const layer = Layer.scoped(Pool, ${build})
`

const pool = `Effect.acquireRelease(
  Effect.sync(() => { events.push("opened"); return { number: ++built } }),
  () => Effect.sync(() => void events.push("closed"))
)`

const load = (build: string) =>
  Effect.gen(function* () {
    const events: Array<string> = []
    Object.assign(globalThis, { appLayerTest: { Handler, Job, events } })
    const effect = pathToFileURL(join(Nightshift.root, "node_modules/effect/dist/esm/index.js")).href
    const file = join(yield* Nightshift.folder, "app.mjs")
    writeFileSync(file, module(effect, build))
    return { app: yield* App.load(file), events }
  })

const enqueue = (kind: string) =>
  Effect.flatMap(Queue, (queue) => queue.enqueue([{ kind, version: 1, payload: {}, queue: "default", attempts: 1 }]))

describe("the layer of an app", () => {
  it.scoped("is built once for all handlers and jobs of a process, and closed when the process stops", () =>
    Effect.gen(function* () {
      const { app, events } = yield* load(pool)
      const shift = yield* Layer.build(
        TestShift.layer({ handlers: app.handlers, grace: 0 }) as Layer.Layer<TestShift | Queue>
      )
      yield* Effect.gen(function* () {
        const { jobs, settle, stopPod } = yield* TestShift
        for (let n = 0; n < 30; n += 1) for (const kind of ["first", "second", "third"]) yield* enqueue(kind)
        yield* settle
        expect(new Set((yield* jobs).map(({ result, state }) => `${state} ${result}`))).toEqual(new Set(["done 1"]))
        expect(events).toEqual(["opened"])
        yield* Fiber.join(yield* Effect.fork(stopPod))
        expect(events).toEqual(["opened", "closed"])
      }).pipe(Effect.provide(shift))
    })
  )

  it.scoped("stops the start when it fails, and names the app it belongs to", () =>
    Effect.gen(function* () {
      const { app } = yield* load('Effect.fail(new Error("no such host: pool"))')
      const [handler] = app.handlers
      if (handler === undefined) return yield* Effect.dieMessage("three are given")
      const error = yield* Effect.flip(Handler.opened(handler) as unknown as Effect.Effect<unknown, Error>)
      expect(error.message).toMatch(/^Cannot load the app .*app\.mjs: its `layer` failed with "no such host: pool"\.$/)
    })
  )
})

describe("an app without handlers", () => {
  const messageOf = (source: string) =>
    Effect.gen(function* () {
      const file = join(yield* Nightshift.folder, "app.mjs")
      writeFileSync(file, source)
      return (yield* Effect.flip(App.load(file))).message.replace(/^.*app\.mjs: /, "")
    })
  const makers = "what job.handle(…) returned, or Handler.make with Effect."
  const advice = `Export an array of handlers, export const handlers = […], each of them ${makers}`

  it.scoped("is refused with what its exports lack, for promises and for Effect", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.flip(App.load(yield* Nightshift.folder))
      expect(folder.message).toMatch(/: it is not a file\. Correct --app\.$/)
      expect(yield* messageOf("export const jobs = []")).toBe(`it has no export named \`handlers\`. ${advice}`)
      expect(yield* messageOf("export const handler = {}")).toBe(`it exports \`handler\`, not \`handlers\`. ${advice}`)
      expect(yield* messageOf("export const handlers = {}")).toBe(`its \`handlers\` is not an array. ${advice}`)
      expect(yield* messageOf("export const handlers = [7]")).toBe(
        `element 0 of its \`handlers\` is not a handler: pass ${makers}`
      )
    })
  )
})

describe("the queues of an app", () => {
  const loaded = (queues: string) =>
    Effect.gen(function* () {
      const file = join(yield* Nightshift.folder, "app.mjs")
      writeFileSync(file, `export const handlers = []\nexport const queues = ${queues}\n`)
      return yield* App.load(file)
    })

  it.scoped("are names, or an object with their workers and limits", () =>
    Effect.gen(function* () {
      expect(yield* loaded('["mail"]')).toMatchObject({ queues: ["mail"] })
      const limits = { mail: { workers: 20, rate: "100/m" } }
      expect(yield* loaded(JSON.stringify(limits))).toMatchObject({ queues: limits })
      for (const wrong of ['"mail"', "[1]", "undefined"]) {
        const { message } = yield* Effect.flip(loaded(wrong))
        expect(message).toContain("its `queues` must be an array of names, or an object like { mail: ")
      }
    })
  )
})
