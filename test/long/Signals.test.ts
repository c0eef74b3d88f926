import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import { below, gone } from "../support/ProcessFamily.js"

// Real processes as users start them: through npx and npm with a shell in between, and in a terminal that closes.

/** A folder with nightshift installed as npm does it. */
const project = Effect.map(Nightshift.folder, (cwd) => {
  const command = join(Nightshift.root, "dist", "nightshift.js")
  chmodSync(command, 0o755)
  mkdirSync(join(cwd, "node_modules", ".bin"), { recursive: true })
  symlinkSync(Nightshift.root, join(cwd, "node_modules", "nightshift"))
  symlinkSync(command, join(cwd, "node_modules", ".bin", "nightshift"))
  const scripts = {
    start: "exec nightshift serve --embedded --port 0",
    plain: "nightshift serve --embedded --port 0",
    demo: "exec nightshift demo --port 0"
  }
  writeFileSync(join(cwd, "package.json"), JSON.stringify({ name: "shop", private: true, scripts }))
  return cwd
})

const isServer = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("node\0")

/** A user's environment: npm started this run and left its variables in the environment. */
const environment = () => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"))),
  LOG_LEVEL: "warning"
})

interface Started {
  readonly pid: number
  readonly child: ChildProcess
  /** Its descendants, once the server is up. */
  readonly family: ReadonlyArray<number>
  readonly ended: Effect.Effect<void>
}

/** Starts a command and waits until the server is up. The Scope kills what is left. */
const start = (cwd: string, [name, ...args]: readonly [string, ...Array<string>]) =>
  Effect.gen(function* () {
    let family: ReadonlyArray<number> = []
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn(name, args, { cwd, env: environment() })),
      (running) =>
        Effect.sync(() => {
          for (const pid of [running.pid ?? 0, ...family]) {
            try {
              if (pid > 0) process.kill(pid, "SIGKILL")
            } catch {}
          }
        })
    )
    const ended = once(child, "exit")
    yield* Effect.async<void>((resume) => {
      let said = ""
      child.stdout?.on("data", (chunk) => {
        said += chunk
        if (/is up|Stop it with Ctrl-C/.test(said)) resume(Effect.void)
      })
      ended.then(() => resume(Effect.dieMessage(`${name} ended before the server was up: ${said}`)))
    })
    family = yield* below(child.pid ?? 0)
    const started: Started = { pid: child.pid ?? 0, child, family, ended: Effect.promise(() => ended) }
    return started
  })

const stopped = (
  command: readonly [string, ...Array<string>],
  signal: NodeJS.Signals
): Effect.Effect<void, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const { child, ended, family } = yield* start(yield* project, command)
    // The server, its PostgreSQL with its own processes, and the shells around both.
    expect(family.length).toBeGreaterThan(4)
    child.kill(signal)
    yield* ended
    yield* gone(family)
  })

describe("a server that is asked to stop leaves no process behind", () => {
  it.scopedLive(
    "by SIGTERM to npx",
    () => stopped(["npx", "nightshift", "serve", "--embedded", "--port", "0"], "SIGTERM"),
    120_000
  )
  it.scopedLive("by SIGTERM to npm start", () => stopped(["npm", "start"], "SIGTERM"), 120_000)
  it.scopedLive("by SIGINT to npm start", () => stopped(["npm", "start"], "SIGINT"), 120_000)
  it.scopedLive("by SIGTERM to a script without exec", () => stopped(["npm", "run", "plain"], "SIGTERM"), 120_000)
  it.scopedLive("by SIGTERM to npm run demo", () => stopped(["npm", "run", "demo"], "SIGTERM"), 120_000)
})

// `script` of util-linux gives a command its own terminal, which closes when `script` is killed.
describe("a server in a terminal", () => {
  const inTerminal = (command: string) => ["script", "-qfec", command, "/dev/null"] as const
  const serve = "node_modules/.bin/nightshift serve --embedded --port 0"

  it.scopedLive(
    "stops when the terminal closes",
    () =>
      Effect.gen(function* () {
        const { child, family } = yield* start(yield* project, [...inTerminal(serve)])
        child.kill("SIGKILL")
        yield* gone(family)
      }),
    120_000
  )

  it.scopedLive(
    "stops under npx when the terminal closes",
    () =>
      Effect.gen(function* () {
        const { child, family } = yield* start(yield* project, [
          ...inTerminal("npx nightshift serve --embedded --port 0")
        ])
        child.kill("SIGKILL")
        yield* gone(family)
      }),
    120_000
  )

  it.scopedLive(
    "stays under nohup when the terminal closes",
    () =>
      Effect.gen(function* () {
        const cwd = yield* project
        // The shell prints what the server writes to nohup's file, and ends with the terminal.
        const command = "nohup node_modules/.bin/nightshift serve --port 0 >out 2>&1 & tail -f out --retry"
        const { child, family } = yield* start(cwd, [...inTerminal(command)])
        const server = family.filter((pid) => isServer(pid))
        expect(server).toHaveLength(1)
        child.kill("SIGKILL")
        yield* gone(family.filter((pid) => !server.includes(pid)))
        for (const pid of server) {
          expect(process.kill(pid, "SIGHUP")).toBe(true)
          process.kill(pid, "SIGTERM")
        }
        yield* gone(server)
      }),
    120_000
  )
})
