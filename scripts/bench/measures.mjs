// Takes each measurement inside the measured process. The systems only enqueue and work; all timing is done here.
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises"
import * as executions from "./executions.mjs"
import { month } from "./months.mjs"
import { keyOf, payloadOf, payloadsFrom } from "./payload.mjs"
import { offer, pull } from "./pull.mjs"
import { accept } from "./push.mjs"
import { median, quantile } from "./statistics.mjs"
import { browse, keepService, openService } from "./tabs.mjs"
import { inbox, transfer } from "./uploads.mjs"
import { deliver, receive } from "./webhooks.mjs"

const batchSize = 1000
const cpuSeconds = (since) => {
  const { system, user } = process.cpuUsage(since)
  return (system + user) / 1e6
}
const megabytes = () => process.memoryUsage.rss() / 1024 / 1024

/** Enqueues batches of 1000 in sequence, each into the next queue. Creating the payloads is not timed. */
const load = async (instance, { inHours = 0, jobs, keys = 0, queues = 1, stock = 0 }) => {
  if (stock > 0) await instance.stock(stock)
  let seconds = 0
  let cpu = 0
  const size = Math.min(batchSize, Math.ceil(jobs / queues))
  for (let first = 0; first < jobs; first += size) {
    const payloads = payloadsFrom(first, Math.min(size, jobs - first))
    const options = {}
    if (queues > 1) options.queue = (first / size) % queues
    if (keys > 0) options.keys = payloads.map(({ n }) => `key-${keyOf(n, keys)}`)
    if (inHours > 0) options.runAt = new Date(Date.now() + inHours * 3_600_000)
    const begun = performance.now()
    const spent = process.cpuUsage()
    await instance.enqueueBulk(payloads, options)
    seconds += (performance.now() - begun) / 1000
    cpu += cpuSeconds(spent)
  }
  return { jobs, seconds, cpu, value: jobs / seconds }
}

/** Concurrent callers as promises, for systems without `enqueueFrom`. */
const byPromises = (instance) => (callers, next) => {
  const caller = async () => {
    for (let payload = next(); payload !== undefined; payload = next()) await instance.enqueue(payload)
  }
  return Promise.all(Array.from({ length: callers }, caller))
}

/** Seconds in which many concurrent callers pass this many payloads to a system, after a warm-up of a fifth. */
const timed = async (from, callers, count) => {
  const upTo = (most) => {
    let made = 0
    return () => (made < most ? payloadOf(made++) : undefined)
  }
  const warming = Math.max(callers, Math.ceil(count / 5))
  await from(callers, upTo(warming))
  const begun = performance.now()
  await from(callers, upTo(count))
  return { seconds: (performance.now() - begun) / 1000, all: warming + count }
}

/** Enqueues one job at a time from many concurrent callers. */
const single = async (instance, { callers, jobs }) => {
  const { seconds } = await timed(instance.enqueueFrom ?? byPromises(instance), callers, jobs)
  return { jobs, seconds, value: jobs / seconds }
}

/** Publishes one event at a time from many concurrent callers. Rated by the jobs of the subscribers. */
const publish = async (instance, { callers, jobs, subscribers }) => {
  await instance.subscribe(subscribers)
  const { all, seconds } = await timed(instance.publishFrom, callers, Math.ceil(jobs / subscribers))
  const delivered = await instance.delivered()
  if (delivered !== all * subscribers) throw new Error(`${delivered} jobs are stored, not ${all * subscribers}`)
  return { jobs, seconds, value: jobs / seconds }
}

/** Inserts finished jobs that are past their retention. */
const age = async (instance, { jobs, kept = 0 }) => {
  await instance.age(jobs)
  if (kept > 0) await instance.age(kept, 0)
  return {}
}

const verify = async (instance, { aged, jobs, keptBefore, started, stored }) => {
  if (started !== jobs) throw new Error(`${started} handlers started for ${jobs} jobs`)
  const kept = await instance.kept()
  if (aged > 0) {
    if (kept >= jobs + aged + stored) throw new Error("nothing was purged meanwhile")
    return
  }
  const expected = jobs + keptBefore
  if (kept !== undefined && kept !== expected) throw new Error(`${kept} jobs are stored as finished, not ${expected}`)
}

/**
 * Drains the loaded jobs. Timed from the start of the first handler, which excludes boot time, until every due job is
 * finalized. A run that reaches the limit is rated by the handlers it started, and so is one that stops at `enough`.
 */
const drain = async (instance, params, parent) => {
  const { aged = 0, asService = false, jobs, keys = 0, limit, pushTo, queues = 1, stored = 0 } = params
  const { enough = jobs } = params
  let started = 0
  let overlaps = 0
  let begun
  let spent
  let allStarted
  const everyStart = new Promise((done) => {
    allStarted = done
  })
  const count = () => {
    if (started === 0) {
      begun = performance.now()
      spent = process.cpuUsage()
    }
    if (++started === enough) allStarted()
  }
  const busy = new Set()
  const countKeyed = async ({ n }) => {
    count()
    const key = keyOf(n, keys)
    if (busy.has(key)) overlaps++
    busy.add(key)
    await turn()
    busy.delete(key)
  }
  let rss = megabytes()
  const sampling = setInterval(() => {
    rss = Math.max(rss, megabytes())
  }, 50)

  const keptBefore = asService ? await instance.kept() : 0
  const opened = performance.now()
  const inTime = sleep(limit * 1000, "late")
  if (asService) await openService(instance, count, parent)
  else await instance.work({ onJob: keys > 0 ? countKeyed : count, keyed: keys > 0, pushTo, queues })
  const late = (await Promise.race([everyStart, inTime])) === "late"
  while (!late && enough === jobs && (await instance.unfinished(queues))) await sleep(1)
  const ended = performance.now()
  const cpu = cpuSeconds(spent)
  clearInterval(sampling)
  if (asService) await keepService(parent)

  if (!late && enough === jobs) await verify(instance, { aged, jobs, keptBefore, started, stored })
  if (started === 0) throw new Error(`no handler started within ${limit} s`)
  const seconds = (ended - begun) / 1000
  return { jobs: started, seconds, cpu, value: started / seconds, rss, overlaps, late, boot: (begun - opened) / 1000 }
}

const latencies = (nanoseconds) => {
  const milliseconds = nanoseconds.map((each) => Number(each) / 1e6)
  return {
    samples: milliseconds.length,
    value: quantile(milliseconds, 0.5),
    p95: quantile(milliseconds, 0.95),
    max: Math.max(...milliseconds)
  }
}

// Long enough to finalize the last job and become idle, and random so that it never aligns with a poll interval.
const pause = () => sleep(15 + Math.random() * 15)

/** Measures the time from enqueue to handler start in an idle process that also works. */
const latency = async (instance, { samples, warming }) => {
  const taken = []
  let started = () => {}
  const onJob = ({ at }) => {
    taken.push(process.hrtime.bigint() - BigInt(at))
    started()
  }
  await instance.work({ onJob, keyed: false, queues: 1 })
  await sleep(500)
  for (let n = 0; n < warming + samples; n++) {
    const start = new Promise((done) => {
      started = done
    })
    await instance.enqueue(payloadOf(n, process.hrtime.bigint()))
    await start
    if (n >= warming) await pause()
  }
  return latencies(taken.slice(warming))
}

/** Worker side of the latency between two processes. The payload contains the enqueue time. */
const listen = async (instance, { samples, warming }, { send }) => {
  const taken = []
  let complete
  const all = new Promise((done) => {
    complete = done
  })
  const onJob = ({ at }) => {
    taken.push(process.hrtime.bigint() - BigInt(at))
    if (taken.length === warming + samples) complete()
  }
  await instance.work({ onJob, keyed: false, queues: 1 })
  await sleep(500)
  await send({ ready: true })
  await all
  return latencies(taken.slice(warming))
}

/** Producer side of the latency between two processes. */
const produce = async (instance, { samples, warming }) => {
  for (let n = 0; n < warming + samples; n++) {
    await instance.enqueue(payloadOf(n, process.hrtime.bigint()))
    if (n >= warming - 1) await pause()
  }
  return {}
}

/** Lists the newest finished jobs, the first page of Mission Control. */
const list = async (instance, { samples }) => {
  const taken = []
  for (let n = 0; n < samples; n++) {
    const begun = performance.now()
    await instance.list()
    taken.push(performance.now() - begun)
  }
  return { list: median(taken) }
}

/** Resumes the queue that other processes drain, and rates them by the times in the table. */
const watch = async (instance, { jobs }) => {
  await instance.resume()
  while (await instance.unfinished()) await sleep(20)
  const seconds = await instance.span()
  return { jobs, seconds, value: jobs / seconds }
}

/** Serves queues until killed. */
const idle = async (instance, { paused, queues }, { send }) => {
  await instance.work({ onJob: () => {}, keyed: false, paused, queues })
  await send({ ready: { connections: await instance.connections?.() } })
  return new Promise(() => {})
}

/** Works at full speed for a time and samples its memory. */
const flow = async (instance, { seconds }, { send }) => {
  let done = 0
  const onJob = () => {
    done++
  }
  await instance.work({ onJob, keyed: false, queues: 1 })
  await send({ ready: true })
  const resident = []
  const begun = performance.now()
  while (performance.now() - begun < seconds * 1000) {
    await sleep(100)
    resident.push(megabytes())
    await send({ progress: done })
  }
  const quarter = Math.floor(resident.length / 4)
  const early = median(resident.slice(quarter, 2 * quarter + 1))
  const last = median(resident.slice(3 * quarter))
  return { seconds, rate: done / seconds, value: Math.max(...resident), growth: last / early - 1 }
}

/** Enqueues for `flow`, as far ahead as the parent requests, until killed. */
const feed = async (instance, _, { onMessage, send }) => {
  let allowed = 0
  let wake = () => {}
  onMessage(({ credit }) => {
    allowed = credit
    wake()
  })
  await send({ ready: true })
  for (let fed = 0; ; ) {
    if (fed + batchSize > allowed) {
      await new Promise((done) => {
        wake = done
      })
      continue
    }
    await instance.enqueueBulk(payloadsFrom(fed, batchSize), {})
    fed += batchSize
  }
}

export const measures = {
  ...executions,
  age,
  load,
  single,
  publish,
  drain,
  latency,
  listen,
  produce,
  list,
  watch,
  idle,
  inbox,
  transfer,
  receive,
  deliver,
  offer,
  pull,
  accept,
  browse,
  flow,
  feed,
  month
}
