// Simulates Mission Control users: open tabs that follow the event stream, and page requests.
import http from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import { requestsOf, searches } from "./pages.mjs"

/** Milliseconds between searches, over all tabs. */
const searchEvery = 3_000

/** Request timeout in milliseconds, longer than the API's own limit. */
const patience = 65_000

/** Waits for a message of the parent and returns its value. */
const awaitMessage = ({ onMessage }, word) =>
  new Promise((done) => onMessage((message) => word in message && done(message[word])))

/** Starts a service with a paused queue, and resumes the queue when the parent asks. */
export const openService = async (instance, onJob, parent) => {
  const begin = awaitMessage(parent, "begin")
  await parent.send({ ready: await instance.serve({ onJob }) })
  await begin
  await instance.resume()
}

/** Reports the end of the work and keeps serving open requests. */
export const keepService = async (parent) => {
  const close = awaitMessage(parent, "close")
  await parent.send({ progress: "drained" })
  await close
}

const send = ({ agent, body, headers, method = "GET", path, port }) =>
  new Promise((done, fail) => {
    const options = { agent, headers, host: "127.0.0.1", method, path: `/api/v1/${path}`, port, timeout: patience }
    const request = http.request(options, done)
    request.on("error", fail)
    request.on("timeout", () => request.destroy(new Error(`no answer in ${patience / 1000} s`)))
    request.end(body)
  })

const textOf = async (response) => {
  const chunks = []
  for await (const chunk of response) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

/** Logs in like a browser and keeps the session cookie. */
const logIn = async ({ port, token }) => {
  const body = JSON.stringify({ token })
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) }
  const response = await send({ port, path: "session", method: "POST", headers, body })
  const text = await textOf(response)
  if (response.statusCode !== 200) throw new Error(`The login was answered with ${response.statusCode}: ${text}`)
  const cookie = response.headers["set-cookie"].map((each) => each.split(";")[0]).join("; ")
  return { port, headers: { cookie } }
}

/** Opens a tab that follows the event stream until closed. */
const openTab = async (visitor) => {
  const response = await send({ ...visitor, agent: false, path: "events?jobs=none" })
  const tab = { isOpen: response.statusCode === 200, received: 0, close: () => response.destroy() }
  const first = new Promise((done) => {
    response.once("data", done)
    response.once("close", done)
  })
  response.on("data", (chunk) => {
    tab.received += chunk.length
  })
  response.on("error", () => {})
  response.on("close", () => {
    tab.isOpen = false
  })
  await first
  return tab
}

const ask = async (visitor, agent, [shown, path]) => {
  const begun = performance.now()
  const end = (answer) => ({ shown, path, ms: performance.now() - begun, ...answer })
  try {
    const response = await send({ ...visitor, agent, path })
    const text = await textOf(response)
    return end(response.statusCode === 200 ? {} : { refused: `${response.statusCode} ${text.slice(0, 200)}` })
  } catch (error) {
    return end({ refused: error.message })
  }
}

const slowestOfEach = (answers) => {
  const slowest = {}
  for (const { ms, shown } of answers) slowest[shown] = Math.max(slowest[shown] ?? 0, ms)
  return slowest
}

/**
 * Keeps tabs open and requests pages at a fixed rate (open loop), with occasional searches, until the parent stops it
 * and every request was made at least once.
 */
export const browse = async (_, { perSecond, tabs }, parent) => {
  const endpoint = awaitMessage(parent, "endpoint")
  let isEnough = false
  awaitMessage(parent, "enough").then(() => {
    isEnough = true
  })
  const visitor = await logIn(await endpoint)
  const agent = new http.Agent({ keepAlive: true })
  const get = async (path) => {
    const response = await send({ ...visitor, agent, path })
    const text = await textOf(response)
    if (response.statusCode !== 200) throw new Error(`${path} was answered with ${response.statusCode}: ${text}`)
    return JSON.parse(text)
  }
  const requests = Object.entries(await requestsOf(get))
  const opened = await Promise.all(Array.from({ length: tabs }, () => openTab(visitor)))
  await parent.send({ ready: true })

  const pages = requests.filter(([shown]) => !searches.has(shown))
  const sought = requests.filter(([shown]) => searches.has(shown))
  const asked = []
  const begun = performance.now()
  const walk = async (list, every) => {
    for (let count = 0; !isEnough || count < list.length; ) {
      asked.push(ask(visitor, agent, list[count++ % list.length]))
      await sleep(begun + count * every - performance.now())
    }
  }
  await Promise.all([walk(pages, 1000 / perSecond), walk(sought, searchEvery / (perSecond / 10) ** 2)])
  const answers = await Promise.all(asked)
  const closed = opened.filter(({ isOpen }) => !isOpen).length
  const received = opened.reduce((sum, tab) => sum + tab.received, 0)
  for (const tab of opened) tab.close()
  if (closed > 0) throw new Error(`${closed} of ${tabs} tabs were closed by the service`)

  const [slowest] = answers.toSorted((a, b) => b.ms - a.ms)
  const refusals = answers.filter(({ refused }) => refused !== undefined)
  return {
    tabs,
    received,
    requests: answers.length,
    slowest: slowest.ms,
    slowestPage: slowest.shown,
    slowestOfEach: slowestOfEach(answers),
    refused: refusals.length,
    refusals: refusals.slice(0, 20)
  }
}
