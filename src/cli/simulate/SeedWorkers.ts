import { type ChildProcess, fork } from "node:child_process"
import { Effect, Schema, type Scope } from "effect"
import { type BatchResult, run, type SeedBatch, type Wanted } from "./SeedBatch.js"

// Runs batches of seeds in child processes of this command, one per core. Each child is this same program; the
// environment variable tells it to take batches from its parent instead of options.

const marker = "NIGHTSHIFT_SIMULATION_WORKER"

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

export const isWorker = (): boolean => process.send !== undefined && process.env[marker] === "1"

/** Serves batches until the parent disconnects. */
export const serve: Effect.Effect<void> = Effect.async<void>((resume) => {
  process.on("message", ({ batch, wanted }: Request) => {
    Effect.runPromise(run(batch, wanted)).then(
      (result) => process.send?.(result),
      (error) => {
        process.stderr.write(`${error}\n`)
        process.exit(1)
      }
    )
  })
  process.on("disconnect", () => resume(Effect.void))
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
        env: { ...process.env, [marker]: "1" },
        execArgv,
        stdio: ["ignore", "ignore", "inherit", "ipc"]
      })
    ),
    (child) => Effect.sync(() => void child.kill("SIGKILL"))
  ),
  (child) => ({ run: (batch, wanted) => ask(child, { batch, wanted }) })
)
