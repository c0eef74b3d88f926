import { type ChildProcess, fork } from "node:child_process"
import { Effect, Schema, type Scope } from "effect"
import { type BatchResult, run, type SeedBatch, type SeedOptions } from "./SeedBatch.js"

// Runs batches of seeds in child processes, one per core. A child runs this same command and receives its batches from
// the parent over IPC instead of from options.

/** A run's objects live long. With V8's default young generation of 16 MB, copying them takes a fifth of the time. */
const execArgv = ["--max-semi-space-size=64", "--min-semi-space-size=32"]

interface Request {
  readonly batch: SeedBatch
  readonly wanted: SeedOptions
}

export class WorkerEnded extends Schema.TaggedError<WorkerEnded>()("WorkerEnded", {
  from: Schema.Number,
  how: Schema.String
}) {
  override get message(): string {
    return `A simulation process exited (${this.how}) while running a batch of seeds that starts at ${this.from}. Run it with --seed ${this.from} --runs 20 --workers 1 to see the error.`
  }
}

/** Whether this process was started as a worker: with an IPC channel and with the flags above. */
export const isWorker = (): boolean =>
  process.send !== undefined && execArgv.every((flag) => process.execArgv.includes(flag))

/** Waits for the next request. Returns undefined when the parent disconnects. The parent sends one request at a time. */
const nextRequest = Effect.async<Request | undefined>((resume) => {
  const onRequest = (request: Request) => {
    process.off("disconnect", left)
    resume(Effect.succeed(request))
  }
  const left = () => {
    process.off("message", onRequest)
    resume(Effect.succeed(undefined))
  }
  process.once("message", onRequest)
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
  readonly run: (batch: SeedBatch, wanted: SeedOptions) => Effect.Effect<BatchResult, WorkerEnded>
}

const sendBatch = (child: ChildProcess, request: Request): Effect.Effect<BatchResult, WorkerEnded> =>
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

/** Starts a worker, which is killed when the Scope closes. */
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
  (child) => ({ run: (batch, wanted) => sendBatch(child, { batch, wanted }) })
)
