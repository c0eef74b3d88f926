import { Effect, Either } from "effect"
import { after, type Soon } from "../codec/DataKeys.js"
import { limits } from "../core/StoredJob.js"
import type { NewStep } from "../queue/workflow/Execution.js"
import type { Streams } from "../queue/workflow/Streams.js"
import { admitted, type Workflows } from "../queue/workflow/Workflows.js"
import { sealedJobs, sealedOne } from "./SealedJobs.js"
import { all, type Sealer, sealing } from "./Sealer.js"

// Executions over a store with sealed values. The store reads some fields of steps, asks and heartbeats, so only the values in them
// are sealed. Names, errors and numbers stay as they are.

/** The fields of a step's exit that hold values: a result, and the results of the children of a failed step. */
const exitFields = ["value", "done"] as const

/** Seals the values of a step. One that breaks a limit is left as it is: the store refuses it. */
const sealedStep = (sealer: Sealer, step: NewStep): Soon<NewStep> => {
  const { exit } = step
  if (!sealer.seals || typeof exit !== "object" || exit === null) return step
  if (Either.isLeft(admitted(step.kind, step.name, exit))) return step
  const given = exit as Readonly<Record<string, unknown>>
  const parts = exitFields.filter((field) => given[field] !== undefined)
  if (parts.length === 0) return step
  return after(all(parts.map((field) => sealer.seal(JSON.stringify(given[field])))), (made) => ({
    ...step,
    exit: { ...exit, ...Object.fromEntries(parts.map((field, place) => [field, made[place]])) }
  }))
}

const sealedChunks = (sealer: Sealer, text: string): Soon<string> =>
  sealer.seals
    ? after(
        all((JSON.parse(text) as ReadonlyArray<unknown>).map((chunk) => sealer.seal(JSON.stringify(chunk)))),
        (chunks) => JSON.stringify(chunks)
      )
    : text

const streamsOver = (sealer: Sealer, inner: Streams): Streams => ({
  ...inner,
  limits: inner.limits,
  pace: inner.pace,
  append: (run, batch) =>
    Effect.flatMap(
      sealing(() => sealedChunks(sealer, batch.text)),
      (text) => inner.append(run, { ...batch, text })
    ),
  read: (position) => Effect.flatMap(inner.read(position), sealer.readAll),
  next: (position) => Effect.flatMap(inner.next(position), sealer.readAll)
})

/** Workflows over a store with sealed values. */
export const workflowsOver = (sealer: Sealer, inner: typeof Workflows.Service): typeof Workflows.Service => ({
  ...inner,
  start: (execution) => Effect.flatMap(sealedOne(sealer, execution), inner.start),
  startInside: (run, execution) =>
    Effect.flatMap(sealedOne(sealer, execution), (sealed) => inner.startInside(run, sealed)),
  load: (run) => Effect.flatMap(inner.load(run), sealer.use),
  record: (run, step) =>
    Effect.flatMap(
      sealing(() => sealedStep(sealer, step)),
      (sealed) =>
        Effect.flatMap(inner.record(run, sealed), (recorded) =>
          recorded.repeated ? sealer.use(recorded) : Effect.succeed({ ...recorded, exit: step.exit })
        )
    ),
  // A step is sealed in a fiber, because the codec may have to wait.
  recordSoon: undefined,
  signal: (signal) =>
    Effect.flatMap(
      sealing(() => sealer.value(signal.value, limits.resultBytes)),
      (value) => inner.signal({ ...signal, value })
    ),
  ask: (ask) =>
    Effect.flatMap(
      sealing(() => sealer.value(ask.value, limits.resultBytes)),
      (value) => inner.ask({ ...ask, value })
    ),
  answer: (run, row, answer) =>
    Effect.flatMap(
      sealing(() =>
        "value" in answer ? after(sealer.value(answer.value, limits.resultBytes), (value) => ({ value })) : answer
      ),
      (sealed) => inner.answer(run, row, sealed)
    ),
  awaitAnswer: (ask) => Effect.flatMap(inner.awaitAnswer(ask), sealer.readAll),
  startChildren: (run, name, children, options) =>
    Effect.flatMap(sealedJobs(sealer, children), (sealed) => inner.startChildren(run, name, sealed, options)),
  children: (execution, name) => Effect.flatMap(inner.children(execution, name), sealer.readAll),
  cancel: (execution, options) => Effect.flatMap(inner.cancel(execution, options), sealer.read),
  retry: (execution) => Effect.flatMap(inner.retry(execution), sealer.read),
  heartbeat: (run, beat) =>
    Effect.flatMap(
      sealing(() => (beat.details === undefined ? undefined : sealer.value(beat.details, limits.heartbeatBytes))),
      (details) => inner.heartbeat(run, { ...beat, details })
    ),
  list: (filter, page) => Effect.flatMap(inner.list(filter, page), sealer.read),
  streams: streamsOver(sealer, inner.streams),
  values: (execution) => Effect.flatMap(inner.values(execution), sealer.readAll),
  show: (execution) => Effect.flatMap(inner.show(execution), sealer.read)
})
