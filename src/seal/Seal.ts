import { Context, Effect, Either, Layer, Option, Redacted } from "effect"
import type { ConfigError } from "effect/ConfigError"
import { type Codec, MissingKeyError } from "../codec/Codec.js"
import { parseKeys, seal } from "../codec/Seal.js"
import * as BytesText from "../core/BytesText.js"
import * as Setting from "../core/Setting.js"
import { limits } from "../core/StoredJob.js"
import { Batches } from "../queue/batch/Batches.js"
import { Events } from "../queue/events/Events.js"
import { DirectHandoff } from "../queue/handoff/DirectHandoff.js"
import { type JobActions, JobAdmin } from "../queue/JobAdmin.js"
import { JobsMemory } from "../queue/JobsMemory.js"
import { Queue } from "../queue/Queue.js"
import { JobSearch } from "../queue/search/JobSearch.js"
import { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import { Workflows } from "../queue/workflow/Workflows.js"
import { eventsOver } from "./SealedEvents.js"
import { sealedFollowUp } from "./SealedJobs.js"
import { handoffOver, queueOver, storing } from "./SealedQueue.js"
import { workflowsOver } from "./SealedWorkflows.js"
import { Sealer, sealing } from "./Sealer.js"

// Puts a codec over the ports of a store, in memory or in PostgreSQL. Without a codec the ports are those of the store.

const readKeys = (text: string): Either.Either<string, string> => {
  try {
    seal({ keys: parseKeys(text) })
    return Either.right(text)
  } catch (error) {
    // The message names keys by their id, never by their bytes.
    return Either.left(
      `keys like k2:<base64 of 32 bytes>,k1:<base64 of 32 bytes>; ${error instanceof Error ? error.message.replace(/\.$/, "") : error}`
    )
  }
}

export const settings = {
  keys: Setting.secret(
    {
      key: "NIGHTSHIFT_SEAL_KEYS",
      about:
        "Keys that seal payloads and other values: `k2:<base64 of 32 bytes>,k1:…`. The first one seals, all open. Without keys, values are stored as they are."
    },
    readKeys
  ),
  openOnly: Setting.boolean(
    {
      key: "NIGHTSHIFT_SEAL_OPEN_ONLY",
      about: "Opens sealed values but seals no new ones: while keys are introduced, or before they are removed."
    },
    false
  ),
  compress: Setting.optionalText(
    {
      key: "NIGHTSHIFT_SEAL_COMPRESS",
      about: "Compresses values of more than this size before they are sealed, such as `8KiB`."
    },
    (text) => (Option.isSome(BytesText.parse(text)) ? Either.right(text) : Either.left(BytesText.expected))
  ),
  plainEvents: Setting.list({
    key: "NIGHTSHIFT_SEAL_PLAIN_EVENTS",
    about: "Names of events whose data is not sealed, because subscribers or waits compare it: `order.paid,geo.*`."
  })
}

/** The codec of the settings. Undefined without keys. */
export const configured: Effect.Effect<Codec | undefined, ConfigError> = Effect.map(
  Setting.group(settings),
  ({ compress, keys, openOnly, plainEvents }) =>
    Option.isNone(keys)
      ? undefined
      : seal({
          keys: parseKeys(Redacted.value(keys.value)),
          compress: Option.getOrUndefined(Option.map(Option.flatMap(compress, BytesText.parse), (over) => ({ over }))),
          plainEvents,
          openOnly
        })
)

const actionsOver = (sealer: Sealer, inner: JobActions): JobActions => ({
  cancel: (id) => Effect.flatMap(inner.cancel(id), sealer.read),
  requeue: (id) => Effect.flatMap(inner.requeue(id), sealer.read),
  runNow: (id) => Effect.flatMap(inner.runNow(id), sealer.read),
  remove: (id) => Effect.flatMap(inner.remove(id), sealer.read)
})

const adminOver = (sealer: Sealer, inner: typeof JobAdmin.Service): typeof JobAdmin.Service => ({
  ...inner,
  ...actionsOver(sealer, inner),
  recordingUndo: (act) => actionsOver(sealer, inner.recordingUndo(act)),
  edit: (id, edit) =>
    Effect.flatMap(
      sealing(() => (edit.payload === undefined ? undefined : sealer.value(edit.payload, limits.payloadBytes))),
      (payload) => Effect.flatMap(inner.edit(id, payload === undefined ? edit : { ...edit, payload }), sealer.read)
    ),
  undo: (id, act) => Effect.flatMap(inner.undo(id, act), sealer.read)
})

const searchOver = (sealer: Sealer, inner: typeof JobSearch.Service): typeof JobSearch.Service => ({
  ...inner,
  get: (id) => Effect.flatMap(inner.get(id), sealer.read),
  list: (filter, page) => Effect.flatMap(inner.list(filter, page), sealer.read),
  find: (text) => Effect.flatMap(inner.find(text), sealer.read),
  // A caller that waits uses only the result: the rest of the job may stay sealed.
  await: (id) =>
    Effect.flatMap(inner.await(id), (job) => Effect.zipRight(sealer.readAll(job.result), sealer.read(job))),
  awaitEnd: (id) =>
    Effect.flatMap(inner.awaitEnd(id), (job) => Effect.zipRight(sealer.readAll(job.result), sealer.read(job)))
})

const batchesOver = (
  sealer: Sealer,
  inner: typeof Batches.Service,
  search: typeof JobSearch.Service | undefined
): typeof Batches.Service => {
  const store = storing(sealer, search)
  return {
    ...inner,
    create: (batch) =>
      Effect.gen(function* () {
        const { followUp } = batch
        const sealed = followUp === undefined ? undefined : yield* sealing(() => sealedFollowUp(sealer, followUp))
        const created = store(batch.jobs, (jobs) => inner.create({ ...batch, jobs, followUp: sealed }))
        return yield* Effect.flatMap(created, sealer.read)
      }),
    add: (id, jobs) => store(jobs, (sealed) => inner.add(id, sealed)),
    get: (id) => Effect.flatMap(inner.get(id), sealer.read),
    list: (page) => Effect.flatMap(inner.list(page), sealer.read)
  }
}

/** The same services, which seal the values that they store and open those that they return. */
export const over =
  (codec: Codec) =>
  <Ports>(ports: Context.Context<Ports>): Context.Context<Ports> => {
    const sealer = new Sealer(codec)
    const found = <I, S>(tag: Context.Tag<I, S>): S | undefined => Option.getOrUndefined(Context.getOption(ports, tag))
    const search = found(JobSearch)
    const workflows = found(Workflows)
    let made: Context.Context<never> = ports as unknown as Context.Context<never>
    const replace = <I, S>(tag: Context.Tag<I, S>, make: (inner: S) => S) => {
      const inner = found(tag)
      if (inner !== undefined) made = Context.add(made, tag, make(inner)) as unknown as Context.Context<never>
    }
    replace(Queue, (inner) => queueOver(sealer, inner, search, workflows))
    replace(DirectHandoff, (inner) => handoffOver(sealer, inner))
    replace(JobSearch, (inner) => searchOver(sealer, inner))
    replace(JobsMemory, (inner) => ({ ...inner, all: Effect.flatMap(inner.all, sealer.read) }))
    replace(JobAdmin, (inner) => adminOver(sealer, inner))
    replace(JobDiagnosis, (inner) => ({
      ...inner,
      of: (id) => Effect.flatMap(inner.of(id), sealer.read)
    }))
    replace(Batches, (inner) => batchesOver(sealer, inner, search))
    replace(Events, (inner) => eventsOver(sealer, inner))
    replace(Workflows, (inner) => workflowsOver(sealer, inner))
    return made as unknown as Context.Context<Ports>
  }

/** Seals what the ports store, with this codec or that of the settings. */
export const layer = <Ports, E, R>(
  ports: Layer.Layer<Ports, E, R>,
  codec?: Codec
): Layer.Layer<Ports, E | ConfigError, R> =>
  Layer.unwrapEffect(
    Effect.map(codec === undefined ? configured : Effect.succeed(codec), (chosen) =>
      chosen === undefined ? ports : Layer.map(ports, over(chosen))
    )
  )

/** Opens nothing: what is read shows keys and sizes instead of sealed text. */
const noKeys: Codec = {
  seal: () => {
    throw new Error("there are no keys")
  },
  open: ({ key }) => {
    throw new MissingKeyError(key)
  },
  openOnly: true
}

/** The same for commands, which show sealed values without keys too. */
export const layerForCommand = <Ports, E, R>(ports: Layer.Layer<Ports, E, R>): Layer.Layer<Ports, E | ConfigError, R> =>
  Layer.unwrapEffect(Effect.map(configured, (codec = noKeys) => Layer.map(ports, over(codec))))
