// Measurements of workflow executions, inside the measured process.
import { setTimeout as sleep } from "node:timers/promises"
import { median, quantile } from "./statistics.mjs"

const cpuSeconds = (since) => {
  const { system, user } = process.cpuUsage(since)
  return (system + user) / 1e6
}

const fromCallers = (callers, first, count, call) => {
  let next = first
  const caller = async () => {
    while (next < first + count) await call(next++)
  }
  return Promise.all(Array.from({ length: Math.min(callers, count) }, caller))
}

const verify = async (flows, executions, steps) => {
  const found = await flows.recorded()
  if (found.executions !== executions || found.steps !== executions * steps)
    throw new Error(
      `${found.executions} executions with ${found.steps} steps are stored, not ${executions} of ${steps}`
    )
}

/** Counts started steps. `all` resolves when there were this many. */
const counter = (expected) => {
  let started = 0
  let reached
  const all = new Promise((done) => {
    reached = done
  })
  return {
    all,
    count: () => {
      if (++started === expected) reached()
    }
  }
}

/** Resolves when every end is stored. Queries only after every step has started, because the query costs time. */
const settled = async (flows, all) => {
  await all
  while (await flows.unfinished()) await sleep(1)
}

const rated = (executions, steps, seconds, cpu) => ({
  executions,
  seconds,
  cpu,
  steps: (executions * steps) / seconds,
  value: executions / seconds
})

/** Stores executions for `drainExecutions`. */
export const loadExecutions = async (instance, { callers, executions, steps }) => {
  const flows = await instance.workflows()
  await fromCallers(callers, 0, executions, (n) => flows.run(n, steps))
  return {}
}

/** Runs stored executions. Timed from the first step, which excludes boot, until every end is written. */
export const drainExecutions = async (instance, { executions, steps }) => {
  const flows = await instance.workflows()
  const { all, count } = counter(executions * steps)
  let begun
  let spent
  const onStep = () => {
    begun ??= performance.now()
    spent ??= process.cpuUsage()
    count()
  }
  await flows.work({ onStep })
  await settled(flows, all)
  const seconds = (performance.now() - begun) / 1000
  const cpu = cpuSeconds(spent)
  await verify(flows, executions, steps)
  return rated(executions, steps, seconds, cpu)
}

/** Starts executions from many callers and runs them in the same process, after a warm-up, until every end is written. */
export const execute = async (instance, { callers, executions, steps }) => {
  const flows = await instance.workflows()
  const warming = Math.ceil(executions / 5)
  const warm = counter(warming * steps)
  const whole = counter((warming + executions) * steps)
  const onStep = () => {
    warm.count()
    whole.count()
  }
  await flows.work({ onStep })
  await fromCallers(callers, 0, warming, (n) => flows.run(n, steps))
  await settled(flows, warm.all)
  const begun = performance.now()
  const spent = process.cpuUsage()
  await fromCallers(callers, warming, executions, (n) => flows.run(n, steps))
  await settled(flows, whole.all)
  const seconds = (performance.now() - begun) / 1000
  const cpu = cpuSeconds(spent)
  await verify(flows, warming + executions, steps)
  return rated(executions, steps, seconds, cpu)
}

/** Wakes suspended executions of an idle process, one after another. `wake` returns when that took effect. */
const wakeUps = async (flows, { samples, warming }, wake) => {
  const total = warming + samples
  await fromCallers(256, 0, total, (n) => flows.startWaiting(n))
  await flows.suspended(total)
  await sleep(500)
  const taken = []
  for (let n = 0; n < total; n++) {
    const begun = performance.now()
    taken.push((await wake(n)) - begun)
    // Long enough to become idle, and random so that it never aligns with a poll interval.
    if (n >= warming) await sleep(15 + Math.random() * 15)
  }
  return taken.slice(warming)
}

/** The time from a signal to the start of the next step. */
const toNextStep = async (instance, counts) => {
  const flows = await instance.workflows()
  let started = () => {}
  await flows.work({ onStep: () => started(performance.now()) })
  return wakeUps(flows, counts, async (n) => {
    const start = new Promise((done) => {
      started = done
    })
    await flows.signal(n)
    return start
  })
}

export const signal = async (instance, counts) => {
  const taken = await toNextStep(instance, counts)
  return { samples: taken.length, value: quantile(taken, 0.5), p95: quantile(taken, 0.95), max: Math.max(...taken) }
}

/** The time from a signal to the result, for a caller that sends the one and awaits the other. */
export const result = async (instance, counts) => {
  const flows = await instance.workflows()
  await flows.work({ onStep: () => {} })
  const taken = await wakeUps(flows, counts, async (n) => {
    await flows.signal(n)
    const value = await flows.result(n)
    const ended = performance.now()
    if (value !== n) throw new Error(`execution ${n} returned ${value}`)
    return ended
  })
  return { samples: taken.length, value: quantile(taken, 0.5), p99: quantile(taken, 0.99), max: Math.max(...taken) }
}

/** Writes tokens in a step and reads them at the same time, after a warm-up, until the reader has the last one. */
export const stream = async (instance, { chunks }) => {
  const flows = await instance.workflows()
  await flows.work({ onStep: () => {} })
  const read = async (n, expected) => {
    let next = 0
    for await (const token of flows.stream(n, expected)) {
      if (token !== `token ${next}`) throw new Error(`read ${token} instead of token ${next}`)
      next += 1
    }
    if (next !== expected) throw new Error(`read ${next} tokens of ${expected}`)
  }
  await read(0, Math.ceil(chunks / 10))
  const begun = performance.now()
  const spent = process.cpuUsage()
  await read(1, chunks)
  const seconds = (performance.now() - begun) / 1000
  return { chunks, seconds, cpu: cpuSeconds(spent), value: chunks / seconds }
}

/** Stores sleeping executions. Returns their size on disk. */
export const sleepers = async (instance, { executions }) => {
  const flows = await instance.workflows()
  return { disk: await flows.sleepers(executions) }
}

/** Wakes a few executions while others sleep. */
export const wake = async (instance, counts) => ({
  wake: median(await toNextStep(instance, counts))
})
