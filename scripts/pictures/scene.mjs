// The content of the screenshots: the demo, a worker with workflows, and a few changes for the audit log. Waits until
// every page has content.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { z } from "zod"

/** Milliseconds. */
const startLimit = 90_000
const fillLimit = 120_000
const pollEvery = 500

/** Starts the demo on a free port. */
export const startDemo = async (root) => {
  const child = spawn(process.execPath, [join(root, "dist", "nightshift.js"), "demo", "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, "close")
    child.kill("SIGINT")
    await gone
  }
  let said = ""
  const greeted = new Promise((found, failed) => {
    child.stdout.on("data", (chunk) => {
      said += chunk
      const link = /http:\S+token=\S+/.exec(said)
      const database = /DATABASE_URL=(\S+)/.exec(said)
      if (link !== null && database !== null) found({ link: link[0], database: database[1] })
    })
    child.once("close", () => failed(new Error("the demo exited before it was ready")))
  })
  const late = sleep(startLimit, undefined, { ref: false }).then(() => {
    throw new Error(`the demo was not ready after ${startLimit / 1000} s`)
  })
  try {
    const { database, link } = await Promise.race([greeted, late])
    const token = new URLSearchParams(link.split("?")[1]).get("token")
    return { link, database, origin: new URL(link).origin, token, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Sends requests to the API of the demo. */
export const clientOf = ({ origin, token }) => {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
  const send = async (method, path, body) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const response = await fetch(`${origin}/api/v1/${path}`, { method, headers, ...sent })
    if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}`)
    return response.json()
  }
  return { get: (path) => send("GET", path), send }
}

/** Executions in several states, in a worker inside this process. */
const startWorkflows = async (root, { database }) => {
  const { connect, event, on, webhookHandler, worker, workflow } = await import(join(root, "dist", "client.js"))
  const queue = "orders-workflow"
  const shipment = workflow("shipment", { payload: z.string(), queue }, (item, step) =>
    step.run("print label", () => `label of ${item}`)
  )
  const order = workflow(
    "order",
    { payload: z.object({ id: z.string(), items: z.array(z.string()) }), key: ({ id }) => id, queue },
    async ({ id, items }, step) => {
      const charge = ({ attempt }) => {
        if (attempt === 1) throw new Error("the bank is closed")
        if (id === "C-3") throw new Error("card declined")
        return { payment: `payment of ${id}` }
      }
      await step.run("charge", charge, { attempts: 3, backoff: "400ms", undo: () => undefined })
      await step.sleep("cool off", "1s")
      if (id !== "B-1") await step.waitFor("approval", { timeout: "7d" })
      await step.all("ship", items, (item) => shipment(item))
      return { shipped: items.length }
    }
  )
  const paid = event("order.paid", z.object({ order: z.string(), country: z.string() }))
  const shift = await connect(database, { log: false })
  const running = await worker(shift, {
    handlers: [
      order,
      shipment,
      webhookHandler(),
      on(paid, { as: "send-invoice" }, async () => "sent"),
      on(paid, { as: "tell-customs", match: { "data.country": "CH" } }, async () => {
        throw new Error("customs are closed")
      }),
      on(paid, { as: "daily-digest", debounce: "1h", by: "data.country" }, async () => undefined)
    ]
  })
  for (const id of ["A-17", "B-1", "C-3"]) {
    await shift.start(order, { id, items: ["book", "lamp"] })
    await shift.publish(paid, { order: id, country: id === "C-3" ? "CH" : "DE" }, { id, key: id })
  }
  // No request is sent: private addresses are not allowed.
  const addressed = { url: "http://127.0.0.1:4000/hooks", customer: "acme", description: "Accounting of Acme" }
  const { id } = await shift.endpoints.create(addressed)
  await shift.endpoints.send({ customer: "acme", type: "order.paid" }, { order: "A-17" })
  const { id: old } = await shift.endpoints.create({ ...addressed, customer: "globex", description: "Old warehouse" })
  await shift.endpoints.disable(old)
  const stop = async () => {
    await running.stop()
    await shift.close()
  }
  return { endpoint: id, stop }
}

/** The content that each page needs: a name and a check. */
const parts = {
  "three pods": async ({ get }) => (await get("pods")).pods.length >= 3,
  "a running job": async ({ get }) => (await get("jobs?state=running&limit=1")).jobs.length > 0,
  "a retrying job": async ({ get }) => (await get("jobs?state=retrying&limit=1")).jobs.length > 0,
  "a scheduled reminder": async ({ get }) =>
    (await get("jobs?state=scheduled&kind=send_reminder&limit=1")).jobs.length > 0,
  "an exhausted payment": async ({ get }) =>
    (await get("jobs?kind=charge_card&state=dead&reason=exhausted&limit=1")).jobs.length > 0,
  "rates of queues": async ({ get }) =>
    (await get("queues")).queues.some(({ throughput }) => (throughput?.completed ?? 0) > 0),
  "deliveries of a bot": async ({ get }) => (await get("bots/helpdesk/deliveries")).deliveries.length >= 3,
  "uploaded files": async ({ get }) => (await get("uploads/files")).files.length >= 3,
  "a failed webhook": async ({ get }) => (await get("jobs?kind=webhook.send&state=retrying&limit=1")).jobs.length > 0,
  "a finished execution": async ({ get }) =>
    (await get("workflows")).executions.some(({ execution, state }) => execution === "order/B-1" && state === "done"),
  "a waiting execution": async ({ get }) => (await get("workflows")).executions.some(({ state }) => state === "waiting")
}

/** Waits until all content exists. At the time limit, reports what is missing and continues. */
const fill = async (client, report) => {
  const begun = performance.now()
  let missing = Object.keys(parts)
  while (missing.length > 0 && performance.now() - begun < fillLimit) {
    const found = await Promise.all(missing.map((name) => parts[name](client).catch(() => false)))
    missing = missing.filter((_, index) => !found[index])
    if (missing.length > 0) await sleep(pollEvery)
  }
  if (missing.length > 0) report(`the demo has no ${missing.join(", no ")} after ${fillLimit / 1000} s`)
}

/** Starts the demo and the worker. `stop` ends them. */
export const setScene = async (root, report) => {
  const demo = await startDemo(root)
  const stops = [demo.stop]
  const stop = async () => {
    for (const end of stops.toReversed()) await end().catch((error) => report(`could not stop: ${error.message}`))
  }
  try {
    const client = clientOf(demo)
    const { endpoint, stop: stopWorkflows } = await startWorkflows(root, demo)
    stops.push(stopWorkflows)
    await client.send("PATCH", "queues/mail", { paused: true })
    await client.send("PATCH", "queues/mail", { paused: false })
    await fill(client, report)
    const dead = await client.get("jobs?kind=charge_card&state=dead&reason=exhausted&limit=1")
    const waiting = await client.get("jobs?state=scheduled&kind=send_reminder&limit=1")
    const { pods } = await client.get("pods")
    const { events } = await client.get("published")
    const [event] = events.filter(({ ownId }) => ownId === "C-3")
    const ids = {
      deadJob: dead.jobs[0]?.id,
      waitingJob: waiting.jobs[0]?.id,
      pod: pods[0]?.id,
      event: event?.id,
      endpoint
    }
    return { link: demo.link, ...ids, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
