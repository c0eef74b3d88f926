// Runs measurements in separate processes with a timeout.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const program = fileURLToPath(new URL("./child.mjs", import.meta.url))
const running = new Set()

const killAll = () => {
  for (const child of running) child.kill("SIGKILL")
}
process.once("exit", killAll)

/**
 * Starts one measurement. `result` rejects if the child reports an error, exits or times out. `ready` resolves with the
 * child's ready message. `send` sends a message. `end` kills the child, which does not count as a failure.
 */
export const startChild = ({ onProgress = () => {}, seconds, ...task }) => {
  const child = spawn(process.execPath, [program, JSON.stringify(task)], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, NO_LOG_SUCCESS: "1", NODE_ENV: "production" }
  })
  running.add(child)
  child.stdin.on("error", () => {})

  let complaint = ""
  child.stderr.on("data", (data) => {
    complaint = (complaint + data).slice(-2000)
  })

  let heard
  let ready
  const readiness = new Promise((done) => {
    ready = done
  })
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (!line.startsWith('{"bench":')) return
    const { bench } = JSON.parse(line)
    if (bench.ready) ready(bench.ready)
    else if (bench.progress !== undefined) onProgress(bench.progress)
    else heard = bench
  })

  let ended = false
  const result = new Promise((done, fail) => {
    const timer = setTimeout(() => {
      heard = { error: `still running after ${seconds} s; killed` }
      child.kill("SIGKILL")
    }, seconds * 1000)
    child.on("error", fail)
    child.on("close", (code, signal) => {
      clearTimeout(timer)
      running.delete(child)
      if (heard?.result !== undefined) return done(heard.result)
      if (ended) return done(undefined)
      fail(new Error(heard?.error ?? `ended with ${signal ?? code}: ${complaint}`))
    })
  })
  // `ready` must reject if the process fails before it is ready.
  const readyOrFailed = Promise.race([readiness, result])
  for (const each of [result, readyOrFailed]) each.catch(() => {})

  return {
    result,
    ready: readyOrFailed,
    send: (message) => child.stdin.write(`${JSON.stringify(message)}\n`),
    end: () => {
      ended = true
      child.kill("SIGKILL")
      return result
    }
  }
}
