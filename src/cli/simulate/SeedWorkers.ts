import { type ChildProcess, fork } from "node:child_process"
import { Effect, Schema, type Scope } from "effect"
import { type BatchResult, run, type SeedBatch, type Wanted } from "./SeedBatch.js"

// Runs batches of seeds in child processes of this command, one per core. Each child is this same program, and
// takes batches from its parent instead of options.

/** Young objects of a run survive for long. With V8's default of 16 MB, a fifth of the time goes into copying them. */
const execArgv = ["--max-semi-space-size=64", "--min-semi-space-size=32"]

interface Request {
  readonly batch: SeedBatch
  readonly wanted: Wanted
}

export class WorkerEnded extends Schema.TaggedError<WorkerEnded>()("WorkerEnded", {
  from: Schema.Number,
  how: Schema.String
}) {
  override get message(): string {
    return `A simulation process ended (${this.how}) while it ran the seeds from ${this.from}. Run them with --workers 1 to see why.`
  }
}

/** A parent with an IPC channel started this process with the flags of a worker. */
export const isWorker = (): boolean =>
  process.send !== undefined && execArgv.every((flag) => process.execArgv.includes(flag))

/** The next request; undefined when the parent has disconnected. The parent sends one at a time. */
const nextRequest = Effect.async<Request | undefined>((resume) => {
  const asked = (request: Request) => {
    process.off("disconnect", left)
    resume(Effect.succeed(request))
  }
  const left = () => {
    process.off("message", asked)
    resume(Effect.succeed(undefined))
  }
  process.once("message", asked)
  process.once("disconnect", left)
})

/** Serves batches until the parent disconnects. */
export const serve: Effect.Effect<void> = Effect.gen(function* () {
  for (;;) {
    const request = yield* nextRequest
    if (request === undefined) return
    process.send?.(yield* run(request.batch, request.wanted))
  }
})

export interface Worker {
  readonly run: (batch: SeedBatch, wanted: Wanted) => Effect.Effect<BatchResult, WorkerEnded>
}

const ask = (child: ChildProcess, request: Request): Effect.Effect<BatchResult, WorkerEnded> =>
  Effect.async((resume) => {
    const answered = (result: BatchResult) => {
      child.off("exit", ended)
      resume(Effect.succeed(result))
    }
    const ended = (code: number | null, signal: string | null) => {
      child.off("message", answered)
      const how = signal === null ? `exit code ${code}` : `signal ${signal}`
      resume(new WorkerEnded({ from: request.batch.from, how }))
    }
    child.once("message", answered)
    child.once("exit", ended)
    child.send(request)
  })

/** Starts a worker that ends with the Scope. */
export const start: Effect.Effect<Worker, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() =>
      fork(process.argv[1] ?? "", ["simulate"], {
        execArgv,
        stdio: ["ignore", "ignore", "inherit", "ipc"]
      })
    ),
    (child) => Effect.sync(() => void child.kill("SIGKILL"))
  ),
  (child) => ({ run: (batch, wanted) => ask(child, { batch, wanted }) })
)
