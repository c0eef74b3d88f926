// Measures a remote worker: one keep-alive connection that claims jobs in batches and ends them.
import { Agent, request } from "node:http"

const batch = 100
const worker = { id: "bench" }

/** Serves remote workers until killed. */
export const offer = async (instance, _, { send }) => {
  await send({ ready: await instance.offer() })
  return new Promise(() => {})
}

const poster =
  ({ port, token }) =>
  (call, body) =>
    new Promise((done, fail) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
      const path = `/api/v1/work/${call}`
      const sent = request({ host: "127.0.0.1", port, path, method: "POST", headers, agent }, (response) => {
        const chunks = []
        response.on("data", (chunk) => chunks.push(chunk))
        response.on("error", fail)
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString()
          if (response.statusCode === 200) done(JSON.parse(text))
          else fail(new Error(`${path} returned ${response.statusCode}: ${text}`))
        })
      })
      sent.on("error", fail)
      sent.end(JSON.stringify({ worker, ...body }))
    })

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** Claims and ends jobs, one request at a time. */
export const pull = async (_, { jobs, ...endpoint }) => {
  const post = poster(endpoint)
  const begun = performance.now()
  let done = 0
  while (done < jobs) {
    const { jobs: claimed } = await post("claim", { queues: ["default"], max: batch, waitSeconds: 10 })
    if (claimed.length === 0) throw new Error(`no more jobs after ${done} of ${jobs}`)
    const ends = claimed.map(({ id, lease }) => ({ id, lease, outcome: "done" }))
    const { jobs: ended } = await post("finish", { jobs: ends })
    if (ended.some(({ status }) => status !== "done")) throw new Error("a result was not stored")
    done += claimed.length
  }
  agent.destroy()
  const seconds = (performance.now() - begun) / 1000
  return { jobs: done, seconds, value: done / seconds }
}
