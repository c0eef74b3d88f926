import { Clock, Context, Duration, Effect, Redacted } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId, makeGenerator } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Endpoint from "./Endpoint.js"

/** Maximum page size. */
export const maxEndpointPage = 200

/** Selects endpoints. */
export interface EndpointsRequest {
  /** Maximum number of endpoints. */
  readonly limit: number
  /** Cursor returned by the previous page. [the newest] */
  readonly cursor?: string | undefined
  /** Only endpoints of this customer. [all] */
  readonly customer?: string | undefined
  /** Only endpoints that work, that fail or that are disabled. [all] */
  readonly standing?: Endpoint.Standing | undefined
}

/** An endpoint before and after a change. */
export interface EndpointChange {
  readonly before: Endpoint.Endpoint
  readonly after: Endpoint.Endpoint
}

type NotFound = Endpoint.EndpointNotFound | DatabaseError

/** Endpoints of customers, their secrets and their standing. */
export class Endpoints extends Context.Tag("nightshift/queue/Endpoints")<
  Endpoints,
  {
    /** Stores an endpoint. The secret is returned only here and by `rotate`. */
    readonly create: (
      endpoint: Endpoint.NewEndpoint
    ) => Effect.Effect<Endpoint.EndpointWithSecret, Endpoint.InvalidEndpoint | DatabaseError>

    /** Returns an endpoint without its secrets. */
    readonly get: (id: string) => Effect.Effect<Endpoint.Endpoint, NotFound>

    /** Lists endpoints, newest first. */
    readonly list: (request: EndpointsRequest) => Effect.Effect<
      {
        /** One page of endpoints. */
        readonly endpoints: ReadonlyArray<Endpoint.Endpoint>
        /** Cursor of the next page. Undefined on the last page. */
        readonly next: string | undefined
      },
      BadCursor | DatabaseError
    >

    /** Changes the given fields only. A new URL starts without failures. */
    readonly change: (
      id: string,
      patch: Endpoint.EndpointPatch
    ) => Effect.Effect<EndpointChange, Endpoint.InvalidEndpoint | NotFound>

    /** Adds a secret. The previous ones also sign for `keep`, so that the customer can change it without a gap. */
    readonly rotate: (
      id: string,
      keep: Duration.Duration,
      secret?: string
    ) => Effect.Effect<Endpoint.EndpointWithSecret, Endpoint.InvalidEndpoint | NotFound>

    /** Stops sending to an endpoint, or starts again. Enabling forgets its failures. */
    readonly enable: (id: string, isEnabled: boolean) => Effect.Effect<EndpointChange, NotFound>

    /** Deletes an endpoint and its secrets. */
    readonly remove: (id: string) => Effect.Effect<Endpoint.Endpoint, NotFound>

    /** Ids of the endpoints of a customer, or of those without one, that want this type. Disabled ones are included. */
    readonly targets: (
      customer: string | undefined,
      type: string
    ) => Effect.Effect<ReadonlyArray<string>, DatabaseError>

    /** An endpoint with the secrets that sign now, for one attempt. */
    readonly open: (id: string) => Effect.Effect<
      {
        /** Where to send, and whether it is disabled. */
        readonly endpoint: Endpoint.Endpoint
        /** Its secrets, the newest first. */
        readonly secrets: ReadonlyArray<Redacted.Redacted>
      },
      NotFound
    >

    /** Records a failed attempt at its present URL, and disables the endpoint if it is the last one too many. */
    readonly failed: (id: string, failure: Endpoint.Failure) => Effect.Effect<EndpointChange, NotFound>

    /**
     * Ends a series of failed attempts at this URL, if it is the present one. Call it only if the endpoint was failing: a healthy
     * one costs no write.
     */
    readonly succeeded: (id: string, url: string) => Effect.Effect<void, DatabaseError>
  }
>() {}

/** The rows, in PostgreSQL or in memory. */
export interface EndpointStore {
  readonly insert: (row: Endpoint.EndpointRow) => Effect.Effect<void, DatabaseError>
  readonly find: (id: string) => Effect.Effect<Endpoint.EndpointRow | undefined, DatabaseError>
  /** Locks a row and replaces it. */
  readonly edit: (
    id: string,
    change: (row: Endpoint.EndpointRow) => Endpoint.EndpointRow
  ) => Effect.Effect<
    { readonly before: Endpoint.EndpointRow; readonly after: Endpoint.EndpointRow } | undefined,
    DatabaseError
  >
  readonly remove: (id: string) => Effect.Effect<Endpoint.EndpointRow | undefined, DatabaseError>
  /** Newest first, those with a smaller id than the cursor. */
  readonly page: (request: EndpointsRequest) => Effect.Effect<ReadonlyArray<Endpoint.EndpointRow>, DatabaseError>
  readonly targets: (customer: string | undefined, type: string) => Effect.Effect<ReadonlyArray<string>, DatabaseError>
}

/** The service over a store. */
export const make = (store: EndpointStore): Effect.Effect<typeof Endpoints.Service> =>
  Effect.map(makeGenerator, (ids) => {
    const found = <A>(id: string, look: (id: string) => Effect.Effect<A | undefined, DatabaseError>) =>
      Effect.gen(function* () {
        const row = isId(id) ? yield* look(id) : undefined
        return row ?? (yield* new Endpoint.EndpointNotFound({ id: String(id).slice(0, 64) }))
      })

    const edit = (id: string, change: (row: Endpoint.EndpointRow, now: number) => Endpoint.EndpointRow) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const { after, before } = yield* found(id, (known) => store.edit(known, (row) => change(row, now)))
        return { before: Endpoint.viewOf(before), after: Endpoint.viewOf(after) }
      })

    return {
      create: Effect.fn("Endpoints.create")(function* (given) {
        const {
          customer,
          description = "",
          secret = Endpoint.makeSecret(),
          types,
          url
        } = yield* Endpoint.checked(given, "url")
        const createdAt = yield* Clock.currentTimeMillis
        const row = Endpoint.enabled({
          id: ids.plain(createdAt),
          createdAt,
          url,
          customer,
          description,
          // Programs in JavaScript may pass null, as in a change.
          types: types ?? undefined,
          secrets: [{ secret, until: null }],
          disabledAt: undefined,
          disabledBecause: undefined,
          firstFailedAt: undefined,
          failures: 0,
          lastError: undefined
        })
        yield* store.insert(row)
        return { ...Endpoint.viewOf(row), secret }
      }),
      get: (id) => Effect.map(found(id, store.find), Endpoint.viewOf),
      list: Effect.fn("Endpoints.list")(function* (request) {
        const { cursor } = request
        if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
        const limit = Math.min(request.limit, maxEndpointPage)
        const rows = yield* store.page({ ...request, limit: limit + 1 })
        const endpoints = rows.slice(0, limit).map(Endpoint.viewOf)
        return { endpoints, next: rows.length > limit ? endpoints.at(-1)?.id : undefined }
      }),
      change: Effect.fn("Endpoints.change")(function* (id, patch) {
        const { description, types, url } = yield* Endpoint.checked(patch)
        return yield* edit(id, (row) => ({
          ...Endpoint.moved(row, url ?? row.url),
          description: description ?? row.description,
          types: types === undefined ? row.types : (types ?? undefined)
        }))
      }),
      rotate: Effect.fn("Endpoints.rotate")(function* (id, keep, given) {
        const { secret = Endpoint.makeSecret() } = yield* Endpoint.checked({ secret: given })
        const { after } = yield* edit(id, (row, now) =>
          Endpoint.rotated(row, secret, now + Duration.toMillis(keep), now)
        )
        return { ...after, secret }
      }),
      enable: (id, isEnabled) =>
        edit(id, (row, now) => (isEnabled ? Endpoint.enabled(row) : Endpoint.disabled(row, "operator", now))),
      remove: (id) => Effect.map(found(id, store.remove), Endpoint.viewOf),
      targets: store.targets,
      open: (id) =>
        Effect.gen(function* () {
          const row = yield* found(id, store.find)
          const secrets = Endpoint.secretsAt(row, yield* Clock.currentTimeMillis)
          return { endpoint: Endpoint.viewOf(row), secrets: secrets.map((secret) => Redacted.make(secret)) }
        }),
      failed: (id, failure) => edit(id, (row, now) => Endpoint.failed(row, failure, now)),
      succeeded: (id, url) => Effect.asVoid(store.edit(id, (row) => Endpoint.succeeded(row, url)))
    }
  })
