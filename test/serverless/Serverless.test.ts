import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { z } from "zod"
import * as client from "../../src/client/index.js"
import { handle, job, Outcome } from "../../src/serverless/index.js"
import { useDatabase } from "../client/ClientDatabase.js"
import { secretOf } from "../gateway/PushEndpoint.js"
import { byFetch, byLambda, serve } from "./Functions.js"

const payload = z.object({ name: z.string(), at: z.string().transform((text) => new Date(text)) })
const at = "2026-01-02T03:04:05.000Z"
const greet = client.job("greet", { payload, queue: "functions", attempts: 2, backoff: "1s" })
const wait = client.job("wait", { payload: z.object({}), queue: "functions" })

const signalled = () => {
  let resolve = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
const started = signalled()
const stopped = signalled()

const functions = [
  job("greet", { payload }).handle(async ({ at: when, name }, { attempt, attempts, key, signal }) => {
    if (name === "nobody") return Outcome.dead("no name")
    if (name === "late" && attempt === 1) throw new RangeError("not yet")
    return { text: `${name} ${when.getTime()}`, attempt, attempts, key, aborted: signal.aborted }
  }),
  job("wait", { payload: z.object({}) }).handle(async (_, { signal }) => {
    started.resolve()
    await new Promise((resolve) => signal.addEventListener("abort", resolve))
    stopped.resolve()
  })
]

describe.each([
  ["fetch", byFetch],
  ["lambda", byLambda]
])("a function behind %s", (_, by) => {
  const database = useDatabase()
  const secret = secretOf("s")

  beforeAll(() => {
    process.env.HTTP_HANDLER_ALLOW = "127.0.0.1"
    vi.spyOn(console, "error").mockImplementation(() => {})
  })
  afterAll(() => {
    delete process.env.HTTP_HANDLER_ALLOW
    vi.restoreAllMocks()
  })

  it("runs the jobs that a worker sends, with their results, retries and deaths", async () => {
    await using endpoint = await serve(by(handle({ secret: [secretOf("old"), secret], jobs: functions })))
    await using shift = await client.connect(database.url(), { log: false })
    await using _worker = await client.worker(shift, {
      handlers: [greet.push({ url: endpoint.url, secret })],
      log: false
    })
    const enqueue = async (name: string) => (await shift.enqueue(greet, { name, at }, { key: "k" })).id
    const [ada, late, nobody] = [await enqueue("Ada"), await enqueue("late"), await enqueue("nobody")]
    expect(await shift.result(ada, { timeout: "20s" })).toEqual({
      text: `Ada ${Date.parse(at)}`,
      attempt: 1,
      attempts: 2,
      key: "k",
      aborted: false
    })
    expect(await shift.result(late, { timeout: "20s" })).toMatchObject({ attempt: 2 })
    expect((await shift.job(late)).history).toMatchObject([{ message: "RangeError: not yet" }])
    await expect(shift.result(nobody, { timeout: "20s" })).rejects.toThrow("no name")
  })
})

describe("a function whose job is cancelled", () => {
  const database = useDatabase()

  it("loses its request, and its signal is aborted", async () => {
    process.env.HTTP_HANDLER_ALLOW = "127.0.0.1"
    const secret = secretOf("s")
    await using endpoint = await serve(byFetch(handle({ secret, jobs: functions })))
    await using shift = await client.connect(database.url(), { log: false })
    await using _worker = await client.worker(shift, { handlers: [wait.push({ url: endpoint.url, secret })] })
    const { id } = await shift.enqueue(wait, {})
    await started.promise
    await shift.cancel(id)
    await stopped.promise
    await expect(shift.result(id, { timeout: "20s" })).rejects.toThrow(client.JobCancelledError)
  })
})
