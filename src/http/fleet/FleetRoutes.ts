import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Duration, Effect, Fiber, Layer, Schema, type Scope } from "effect"
import { Caller } from "../access/Caller.js"
import { ServedCell } from "../access/ServedCell.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import { Misdirected } from "../RequestErrors.js"
import { type CellClient, CellClients, longest } from "./CellClients.js"
import { CellFigures, CellFiguresView, FleetHistory, merged } from "./CellFigures.js"

export const FleetView = Schema.Struct({
  cell: Schema.NullOr(Schema.String).annotations({
    description: "The cell of this service; null if it is not part of a fleet."
  }),
  cells: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      api: Schema.NullOr(Schema.String).annotations({ description: "Address of its service, from the fleet file." }),
      figures: Schema.NullOr(CellFiguresView).annotations({
        description: "The last known figures; null if there are none."
      }),
      at: Schema.NullOr(Instant.Moment).annotations({ description: "When the figures were read." }),
      failure: Schema.NullOr(Schema.String).annotations({
        description: "Why newer figures could not be read; null while the cell responds."
      })
    })
  ),
  history: Schema.NullOr(FleetHistory).annotations({
    description: "The last hour of all cells together. Latencies are merged, not averaged."
  })
}).annotations({ identifier: "Fleet" })

export const group = HttpApiGroup.make("fleet")
  .add(
    HttpApiEndpoint.get("cell", "/cell")
      .addSuccess(CellFiguresView)
      .annotateContext(about("Get the totals of this cell, or of this installation if it has no fleet."))
  )
  .add(
    HttpApiEndpoint.get("overview", "/fleet")
      .addSuccess(FleetView)
      .annotateContext(
        about(
          "Get the figures of all cells of the fleet. A cell that does not respond has its last known figures. `/api/v1/cells/<name>/…` is the API of another cell: the request is sent there with the caller's name and role."
        )
      )
  )

/** Milliseconds for which figures are shared by all callers. */
const fresh = 1_000

/** Longest time that a response waits for a cell. What a cell sends later is in the next response. */
const patience = Duration.seconds(1)

/** Longer than that of a request to another cell, which has its own message. */
const askLimit = Duration.sum(longest, "1 second")

type Card = (typeof FleetView.Type)["cells"][number]

interface Watched {
  readonly name: string
  readonly api: string | undefined
}

/** Keeps the last figures of a cell. One request at a time, in the background. */
const watch = (
  { api, name }: Watched,
  ask: Effect.Effect<CellFiguresView, { readonly message: string }>,
  scope: Scope.Scope
): Effect.Effect<Card> => {
  let card: Card = { name, api: api ?? null, figures: null, at: null, failure: null }
  let askedAt = 0
  let asking: Fiber.RuntimeFiber<void> | undefined
  const refresh = Effect.gen(function* () {
    const at = Instant.format(yield* Clock.currentTimeMillis)
    card = yield* Effect.matchCause(
      Effect.timeoutFail(ask, {
        duration: askLimit,
        onTimeout: () => ({ message: `No response within ${Duration.toSeconds(askLimit)} s.` })
      }),
      {
        onSuccess: (figures) => ({ ...card, figures, at, failure: null }),
        onFailure: (cause) => ({
          ...card,
          failure: cause._tag === "Fail" ? cause.error.message : "The figures could not be read."
        })
      }
    )
  }).pipe(
    Effect.ensuring(
      Effect.sync(() => {
        asking = undefined
      })
    )
  )
  return Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (asking === undefined && now - askedAt >= fresh) {
      askedAt = now
      asking = yield* Effect.forkIn(refresh, scope)
    }
    // A cell that failed before is not awaited.
    if (asking !== undefined && card.failure === null)
      yield* Effect.timeoutOption(Effect.disconnect(Fiber.await(asking)), patience)
    return card
  })
}

/** Figures are shared by all callers, so they are read as a viewer. */
const overviewer = { who: "fleet", role: "viewer" } as const

const decode = Schema.decodeUnknown(Schema.parseJson(CellFiguresView))

const figuresOf = (client: CellClient) =>
  Effect.gen(function* () {
    const { body, status } = yield* client({ method: "GET", path: "cell", caller: overviewer })
    const text = body instanceof Uint8Array ? new TextDecoder().decode(body) : ""
    if (status !== 200) {
      const { error } = yield* Effect.try(() => JSON.parse(text)).pipe(
        Effect.orElseSucceed(() => ({ error: undefined }))
      )
      return yield* Effect.fail({ message: String(error?.message ?? `The service returned ${status}.`) })
    }
    return yield* Effect.mapError(decode(text), () => ({
      message: "The service answers in another form. Upgrade all cells to the same release."
    }))
  })

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "fleet">,
  never,
  CellFigures
> = HttpApiBuilder.group(apiOf(group), "fleet", (handlers) =>
  Effect.gen(function* () {
    const own = yield* CellFigures
    const clients = yield* CellClients
    const membership = yield* ServedCell
    const scope = yield* Effect.scope
    const cells = [...(membership?.fleet.cells.values() ?? [])].map((cell) => {
      const client = clients.get(cell.name)
      return watch(cell, client === undefined ? own.read : figuresOf(client), scope)
    })
    return handlers
      .handle("cell", () => own.read)
      .handle("overview", () =>
        Effect.gen(function* () {
          if ((yield* Caller).forwarded === true)
            return yield* new Misdirected({
              message: "Only a request that no other cell has forwarded gets the figures of all cells."
            })
          const cards = yield* Effect.all(cells, { concurrency: "unbounded" })
          return {
            cell: membership?.cell.name ?? null,
            cells: cards,
            history: merged(cards.flatMap(({ figures }) => (figures === null ? [] : [figures.history])))
          }
        })
      )
  })
).pipe(Layer.provide(CellClients.layer))
