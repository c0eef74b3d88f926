import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { type Answer, TestServer } from "./TestServer.js"

// Requests of remote workers, for tests.

export interface Job {
  readonly id: string
  readonly lease: string
  readonly deadline: string
  readonly attempt: number
  readonly payload: unknown
  readonly meta: unknown
}

export const worker = { id: "one", name: "shouter", runtime: "python 3.12", host: "box", pid: 7 }
export const plain = { worker, queues: ["default"], kinds: ["plain"] }

export const jobsOf = ({ json }: Answer): ReadonlyArray<Job> => (json as { readonly jobs: ReadonlyArray<Job> }).jobs

export const post = (call: string, json: unknown) =>
  Effect.flatMap(TestServer, ({ admin }) => admin("POST", `/api/v1/work/${call}`, { json }))

export const enqueue = (payload: unknown, more: object = {}) =>
  Effect.gen(function* () {
    const { admin } = yield* TestServer
    const answer = yield* admin("POST", "/api/v1/jobs", { json: { kind: "plain", payload, ...more } })
    return (answer.json as { readonly id: string }).id
  })

export const stored = (id: string) =>
  Effect.flatMap(TestServer, ({ admin }) => Effect.map(admin("GET", `/api/v1/jobs/${id}`), ({ json }) => json))

export const claimOne = (by: object = worker, queue = "default") =>
  Effect.flatMap(post("claim", { ...plain, queues: [queue], worker: by, waitSeconds: 20 }), (answer) => {
    const [job] = jobsOf(answer)
    return job === undefined ? Effect.dieMessage(answer.text) : Effect.succeed(job)
  })

/** Requests for jobs of one queue, so that tests can share a server. */
export const workOf = (queue: string) => ({
  enqueue: (payload: unknown) => enqueue(payload, { queue }),
  claimOne: (by: object = worker) => claimOne(by, queue)
})

/** The same with numbers of other languages, which JavaScript cannot write: strings like `number 1e400` become them. */
export const postNumbers = (call: string, json: object) =>
  Effect.flatMap(TestServer, ({ admin }) => {
    const body = JSON.stringify(json).replace(/"number ([^"]+)"/g, "$1")
    return admin("POST", `/api/v1/work/${call}`, { body, headers: { "content-type": "application/json" } })
  })

export const finish = (job: Job, end: object, by: object = worker) =>
  post("finish", { worker: by, jobs: [{ id: job.id, lease: job.lease, ...end }] })

export const heartbeat = (job: Job, more: object = {}) =>
  post("heartbeat", { worker, jobs: [{ id: job.id, lease: job.lease, ...more }] })

export const lost = {
  jobs: [{ status: null, error: { tag: "LeaseLost", message: expect.stringContaining("Discard it") } }]
}
