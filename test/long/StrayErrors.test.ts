import { readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"

// Handlers that crash their process outside any handler's error channel.
const app = `
import { Effect, Schema } from "effect"
import { Handler, Job } from ${JSON.stringify(pathToFileURL(join(Nightshift.root, "dist/index.js")).href)}
const payload = Schema.Struct({})
const handler = (name, run) => Handler.promise(Job.make(name, { payload }), run)
const never = () => new Promise(() => {})
export const handlers = [
  handler("patient", never),
  handler("timer", () => { setTimeout(() => { throw new TypeError("stray") }, 10); return never() }),
  handler("promise", () => { Promise.reject(new RangeError("unawaited")); return never() }),
  handler("exit", () => process.exit(7))
]
`

describe("a handler that crashes its process", () => {
  it.scopedLive.each([
    ["timer", 1, /an uncaught error \(TypeError: stray\)/],
    ["promise", 1, /an unhandled promise rejection \(RangeError: unawaited\)/],
    ["exit", 7, /exit code 7/]
  ] as const)(
    "by its %s is among the jobs that the last log line names",
    ([kind, code, cause]) =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        symlinkSync(join(Nightshift.root, "node_modules"), join(cwd, "node_modules"))
        writeFileSync(join(cwd, "app.mjs"), app)
        const env = { LOG_FORMAT: "json" }
        const pod = yield* Nightshift.start(["serve", "--embedded", "--port", "0", "--app", "app.mjs"], { cwd, env })
        const [, url] = yield* pod.said(/"url":"(http:[^"]+)"/)
        const [, tokenFile = ""] = yield* pod.said(/"adminTokenFile":"([^"]+)"/)
        const token = readFileSync(tokenFile, "utf8").trim()
        const enqueue = (name: string) =>
          Effect.promise(async () => {
            const response = await fetch(`${url}/api/v1/jobs`, {
              method: "POST",
              headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
              body: JSON.stringify({ jobs: [{ kind: name, payload: {} }] })
            })
            return response.status
          })
        expect(yield* enqueue("patient")).toBe(201)
        yield* Effect.exit(enqueue(kind))
        const { code: exit, stderr } = yield* pod.finished
        expect(exit).toBe(code)
        const last = stderr.split("\n").find((line) => line.includes('"level":"fatal"')) ?? ""
        expect(last).toMatch(cause)
        expect(JSON.parse(last).jobs.map((job: { readonly kind: string }) => job.kind)).toContain(kind)
      }),
    120_000
  )
})
