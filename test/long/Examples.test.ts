import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { connect, type JobView } from "../../src/client/index.js"
import * as ExampleProject from "../examples/ExampleProject.js"
import * as TestDatabase from "../support/TestDatabase.js"

const post = async (url: string, body: unknown): Promise<{ readonly [key: string]: unknown }> => {
  const headers = { "content-type": "application/json" }
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })
  expect([201, 202]).toContain(response.status)
  return response.json() as Promise<{ readonly [key: string]: unknown }>
}

interface Example {
  /** The file that `npm start` runs. */
  readonly entry: string
  /** What it prints when it is ready. */
  readonly ready: RegExp
  /** One use of it: the id of a job, and the state that the job reaches. */
  readonly use: (
    match: RegExpExecArray,
    databaseUrl: string
  ) => Promise<readonly [id: unknown, state: JobView["state"]]>
}

const local = (port = "") => `http://127.0.0.1:${port}`

const examples: Readonly<Record<string, Example>> = {
  "express-drizzle": {
    entry: "src/server.ts",
    ready: /listening on .*port: (\d+)/s,
    use: async ([, port]) => [
      (await post(`${local(port)}/orders`, { email: "ada@example.org", cents: 5 })).job,
      "pending"
    ]
  },
  "fastify-kysely": {
    entry: "src/server.ts",
    ready: /listening on \S+:(\d+)/,
    use: async ([, port]) => {
      const { jobs } = await post(`${local(port)}/images`, { url: "https://example.org/cat.jpg" })
      const [id] = jobs as ReadonlyArray<string>
      expect(await (await fetch(`${local(port)}/results/${id}`)).json()).toEqual({ bytes: 40_000 })
      return [id, "done"]
    }
  },
  hono: {
    entry: "src/server.ts",
    ready: /listening on \S+:(\d+)/,
    use: async ([, port]) => [
      (await post(`http://localhost:${port}/carts/c1/visits`, { email: "ada@example.org" })).job,
      "scheduled"
    ]
  },
  "mission-control-express": {
    entry: "src/server.ts",
    ready: /listening on .*port: (\d+)/s,
    use: async ([, port]) => [(await post(`${local(port)}/greetings`, { name: "Grace" })).job, "done"]
  },
  "mission-control-hono": {
    entry: "src/server.ts",
    ready: /listening on \S+:(\d+)/,
    use: async ([, port]) => [(await post(`http://localhost:${port}/greetings`, { name: "Grace" })).job, "done"]
  },
  "mission-control-next": {
    entry: "worker.ts",
    ready: /started: serving/,
    use: async (_, databaseUrl) => {
      await using shift = await connect(databaseUrl, { log: false })
      const { greet } = await import("../../examples/mission-control-next/lib/jobs.js")
      return [(await shift.enqueue(greet, { name: "Grace" })).id, "done"]
    }
  },
  "nestjs-module": { entry: "src/main.ts", ready: /placed as job (\S+)/, use: async ([, id]) => [id, "done"] },
  "effect-service": {
    entry: "src/main.ts",
    ready: /order placed, job ([0-9a-f-]{36})/,
    use: async ([, id]) => [id, "done"]
  },
  "next-route-handler": {
    entry: "worker.ts",
    ready: /started: serving/,
    use: async (_, databaseUrl) => {
      await using shift = await connect(databaseUrl, { log: false })
      const { welcome } = await import("../../examples/next-route-handler/lib/jobs.js")
      return [(await shift.enqueue(welcome, { email: "ada@example.org", plan: "free" })).id, "done"]
    }
  }
}

const untilState = async (databaseUrl: string, id: unknown, state: JobView["state"]): Promise<void> => {
  await using shift = await connect(databaseUrl, { log: false })
  if (state === "done") await shift.result(String(id), { timeout: "20s" })
  expect((await shift.job(String(id))).state).toBe(state)
}

describe("an example's process", () => {
  it.scopedLive.each(Object.entries(examples))(
    "%s: starts, does one job's work, and stops on SIGTERM",
    ([name, { entry, ready, use }]) =>
      Effect.gen(function* () {
        const databaseUrl = Redacted.value(yield* TestDatabase.migrated)
        const { child, ended, match } = yield* ExampleProject.started(name, entry, ready, databaseUrl)
        yield* Effect.promise(async () => {
          const [id, state] = await use(match, databaseUrl)
          await untilState(databaseUrl, id, state)
          child.kill("SIGTERM")
          const [code, signal] = await ended
          // NestJS ends the process with the signal that it received.
          expect(name === "nestjs-module" ? signal : code).toBe(name === "nestjs-module" ? "SIGTERM" : 0)
        })
      }),
    60_000
  )
})

it("every example with its own program is started", () => {
  expect(Object.keys(examples).toSorted()).toEqual(
    ExampleProject.names
      .filter((name) => !/^(telegram-bot|upload-inbox|python-and-go|order-workflow)$/.test(name))
      .toSorted()
  )
})
