import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Console, Data, Effect, Exit, type Scope } from "effect"
import * as Cli from "../../src/cli/Cli.js"
import * as Failure from "../../src/cli/Failure.js"

export const root = fileURLToPath(new URL("../..", import.meta.url))
const command = join(root, "dist", "nightshift.js")

export interface Finished {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

interface Options {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  readonly uid?: number
  /** Another program of Node to start instead of the command line. */
  readonly program?: string
}

/** The process ended before it printed the expected text. */
export class EndedEarly extends Data.TaggedError("EndedEarly")<Finished> {}

/** The built command line as a real process. */
export interface Running {
  readonly pid: number
  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
  /** Waits for a line on standard output or error that matches, and returns the match. */
  readonly said: (pattern: RegExp) => Effect.Effect<RegExpExecArray, EndedEarly>
  /** Its standard output and error so far. */
  readonly printed: () => string
  readonly finished: Effect.Effect<Finished>
}

const watch = (child: ChildProcess): Running => {
  let stdout = ""
  let stderr = ""
  const result = once(child, "close").then(([code, signal]): Finished => ({ code, signal, stdout, stderr }))
  const listeners = new Set<() => void>()
  child.stdout?.on("data", (chunk) => {
    stdout += chunk
    for (const listener of listeners) listener()
  })
  child.stderr?.on("data", (chunk) => {
    stderr += chunk
    for (const listener of listeners) listener()
  })
  return {
    pid: child.pid ?? 0,
    signal: (signal) => Effect.sync(() => void child.kill(signal)),
    said: (pattern) =>
      Effect.async<RegExpExecArray, EndedEarly>((resume) => {
        const look = () => {
          const match = pattern.exec(stdout) ?? pattern.exec(stderr)
          if (match !== null) {
            listeners.delete(look)
            resume(Effect.succeed(match))
          }
        }
        listeners.add(look)
        look()
        result.then((finished) => resume(Effect.fail(new EndedEarly(finished))))
      }),
    printed: () => `${stdout}${stderr}`,
    finished: Effect.promise(() => result)
  }
}

/** Starts the process; closing the Scope kills it if it still runs. */
export const start = (args: ReadonlyArray<string>, options: Options): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [options.program ?? command, ...args], {
          cwd: options.cwd,
          env: { PATH: process.env.PATH, ...options.env },
          ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid })
        })
      ),
      (child) =>
        Effect.promise(async () => {
          if (child.exitCode !== null || child.signalCode !== null) return
          const gone = once(child, "close")
          child.kill("SIGKILL")
          await gone
        })
    ),
    watch
  )

/** Runs the process to its end. */
export const run = (args: ReadonlyArray<string>, options: Options): Effect.Effect<Finished> =>
  Effect.scoped(Effect.flatMap(start(args, options), (running) => running.finished))

const applyVariables = (set: Readonly<Record<string, string | undefined>>) => {
  for (const name of Object.keys(process.env)) if (!(name in set)) delete process.env[name]
  for (const [name, value] of Object.entries(set)) if (value !== undefined) process.env[name] = value
}

/** Changes this process's working directory and environment until the Scope closes. */
export const disguise = ({ cwd, env }: Options): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(
    Effect.acquireRelease(
      Effect.sync(() => {
        const before = { cwd: process.cwd(), env: { ...process.env } }
        process.chdir(cwd)
        applyVariables({ PATH: process.env.PATH, ...env })
        return before
      }),
      (before) =>
        Effect.sync(() => {
          applyVariables(before.env)
          process.chdir(before.cwd)
        })
    )
  )

/** Log lines bypass the console: they go straight to standard error. */
const keepStderr = (lines: Array<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = process.stderr.write
      process.stderr.write = (chunk: string | Uint8Array) => lines.push(String(chunk)) > 0
      return before
    }),
    (before) =>
      Effect.sync(() => {
        process.stderr.write = before
      })
  )

// Working directory and environment belong to the whole process.
const one = Effect.unsafeMakeSemaphore(1)

/** Runs a command to its end in this process, which is much faster. Tests of signals, pipes or terminals use `run`. */
export const call = (args: ReadonlyArray<string>, options: Options): Effect.Effect<Finished> =>
  Effect.gen(function* () {
    const stdout: Array<string> = []
    const stderr: Array<string> = []
    const inner = yield* Console.consoleWith(Effect.succeed)
    const keep = (lines: Array<string>) => {
      const print = (...words: ReadonlyArray<unknown>) => void lines.push(`${words.join(" ")}\n`)
      return { print, effect: (...words: ReadonlyArray<unknown>) => Effect.sync(() => print(...words)) }
    }
    const [out, err] = [keep(stdout), keep(stderr)]
    const console: Console.Console = {
      ...inner,
      log: out.effect,
      error: err.effect,
      unsafe: { ...inner.unsafe, log: out.print, error: err.print }
    }
    yield* disguise(options)
    yield* keepStderr(stderr)
    const exit = yield* Effect.exit(Effect.withConsole(Cli.run(["node", "nightshift", ...args]), console))
    const { code, lines } = Exit.isSuccess(exit)
      ? { code: Failure.ExitCode.done, lines: [] }
      : Failure.describe(exit.cause)
    stderr.push(...lines.map((line) => `nightshift: ${line}\n`))
    return { code, signal: null, stdout: stdout.join(""), stderr: stderr.join("") }
  }).pipe(Effect.scoped, one.withPermits(1))

/** An empty folder to run in, removed with the Scope. */
export const folder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightshift-run-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)
