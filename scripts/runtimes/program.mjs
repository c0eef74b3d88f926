// What a runtime must be able to do, through the public entries alone: `program.mjs client` runs one part. Copied into a
// project that has the package installed.
import assert from "node:assert/strict"
import { setTimeout as sleep } from "node:timers/promises"
import { connect, job, worker, workflow } from "nightshift/client"
import { testShift } from "nightshift/testing"

const anything = { "~standard": { version: 1, vendor: "runtimes", validate: (value) => ({ value }) } }
const greet = job("greet", { payload: anything, queue: "greetings" })
const add = job("add", { payload: anything, queue: "sums", backoff: "100ms" })
const slow = job("slow", { payload: anything, queue: "slow" })

const added = add.handle(async ({ a, b }, { attempt }) => {
  if (attempt === 1) throw new Error("the first attempt fails")
  return { sum: a + b }
})

const order = workflow(
  "order",
  { payload: anything, queue: "orders", key: ({ id }) => id },
  async ({ cents }, step) => {
    const paid = await step.run("charge", () => ({ cents }))
    await step.sleep("cool off", "200ms")
    const approval = await step.waitFor("approval", { timeout: "1m" })
    return { ...paid, ...approval }
  }
)

/** A name that no earlier run of this program has used. */
const unique = () => `${process.pid}-${Date.now()}`

const withShift = async (use) => {
  const shift = await connect(process.env.DATABASE_URL, { log: false })
  try {
    await use(shift)
  } finally {
    await shift.close()
  }
}

const parts = {
  client: () =>
    withShift(async (shift) => {
      const { id, outcome } = await shift.enqueue(greet, { name: "Ada" }, { dedupe: unique() })
      assert.equal(outcome, "enqueued")
      assert.deepEqual(await shift.result(id, { timeout: "1m" }), { said: "hello Ada" })
      assert.equal((await shift.job(id)).state, "done")
      await assert.rejects(shift.enqueue(greet, { count: 1n }), { code: "INVALID_JOB" })
    }),
  worker: () =>
    withShift(async (shift) => {
      const running = await worker(shift, { handlers: [added], health: { port: 0 } })
      const { id } = await shift.enqueue(add, { a: 1, b: 2 })
      assert.deepEqual(await shift.result(id, { timeout: "1m" }), { sum: 3 })
      assert.equal((await shift.job(id)).attempt, 2)
      assert.equal((await fetch(`${running.healthUrl}/readyz`)).status, 200)
      assert.match(await (await fetch(`${running.healthUrl}/metrics`)).text(), /^# HELP /)
      const delay = async () => (await (await fetch(`${running.healthUrl}/healthz`)).json()).eventLoopDelaySeconds
      await delay()
      await sleep(2000)
      assert.ok((await delay()) < 1.5, "an idle event loop is reported as blocked")
      const end = performance.now() + 500
      while (performance.now() < end);
      assert.ok((await delay()) > 0.4, "a blocked event loop is not reported")
      await running.stop()
    }),
  workflow: () =>
    withShift(async (shift) => {
      await worker(shift, { handlers: [order] })
      const run = await shift.start(order, { id: unique(), cents: 4200 })
      await run.signal("approval", { by: "ada" })
      assert.deepEqual(await run.result({ timeout: "1m" }), { cents: 4200, by: "ada" })
    }),
  testShift: async () => {
    const shift = await testShift({ handlers: [added, order], log: false })
    const { id } = await shift.enqueue(add, { a: 2, b: 2 }, { delay: "7d" })
    await shift.advance("6d")
    assert.equal((await shift.job(id)).state, "scheduled")
    assert.deepEqual(await shift.result(id), { sum: 4 })
    const run = await shift.start(order, { id: "A-17", cents: 1 })
    await run.signal("approval", { by: "ada" })
    await shift.drain()
    assert.deepEqual(await run.result(), { cents: 1, by: "ada" })
    await shift.close()
  },
  // Runs until SIGTERM; the job that is running then must end first.
  stop: async () => {
    const shift = await connect(process.env.DATABASE_URL, { log: false })
    const handler = slow.handle(async () => {
      console.log("the job is running")
      await sleep(500)
      console.log("the job is done")
    })
    await worker(shift, { handlers: [handler] })
    process.once("SIGTERM", () => void shift.close().then(() => console.log("closed")))
    await shift.enqueue(slow, {})
  }
}

await parts[process.argv[2]]()
