import { Clock, Duration, Effect, Layer, Option, Redacted } from "effect"
import { Audit, type AuditEntry, type AuditFilter, kept } from "../../src/access/Audit.js"
import { digestOf } from "../../src/access/ConstantTime.js"
import { Idempotency, IdempotencyKeyReused } from "../../src/access/Idempotency.js"
import {
  limits,
  type SavedView,
  SavedViews,
  TooManyViews,
  ViewExists,
  ViewNotFound
} from "../../src/access/SavedViews.js"
import * as Secrets from "../../src/access/Secrets.js"
import { type Role, Sessions } from "../../src/access/Sessions.js"
import { maxLabelCharacters, type Token, TokenNotFound, Tokens } from "../../src/access/Tokens.js"
import { BadCursor } from "../../src/core/BadCursor.js"
import { isId, makeGenerator } from "../../src/core/Ids.js"
import * as Rollback from "../../src/core/Rollback.js"

const parsed = (text: string | null): unknown => (text === null ? undefined : JSON.parse(text))

const matches = (entry: AuditEntry, { act, since, target, until, who }: AuditFilter): boolean =>
  (who === undefined || entry.who === who) &&
  (act === undefined || entry.act === act || entry.act.startsWith(`${act}.`)) &&
  (target === undefined || entry.target === target) &&
  (since === undefined || entry.at >= since) &&
  (until === undefined || entry.at < until)

const makeAudit = Effect.gen(function* () {
  const ids = yield* makeGenerator
  let all: ReadonlyArray<AuditEntry> = []

  return Audit.of({
    record: (change) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        const { after, before, reason, ...named } = kept(change)
        const states = { before: parsed(before), after: parsed(after) }
        const entry = { id: change.id ?? ids.plain(at), at, ...named, reason: reason ?? undefined, ...states }
        all = [entry, ...all]
        return Rollback.remember(() => {
          all = all.filter((other) => other !== entry)
        })
      }),
    list: (filter, { cursor, limit }) =>
      Effect.suspend(() => {
        if (cursor !== undefined && !isId(cursor)) return new BadCursor({ cursor })
        const found = all.filter((entry) => matches(entry, filter) && (cursor === undefined || entry.id < cursor))
        const entries = found.slice(0, limit)
        return Effect.succeed({ entries, next: found.length > limit ? entries.at(-1)?.id : undefined })
      }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const left = all.filter(({ at }) => at >= now - Duration.toMillis(olderThan))
        const gone = all.length - left.length
        all = left
        return gone
      })
  })
})

const audit: Layer.Layer<Audit> = Layer.effect(Audit, makeAudit)

interface Known {
  readonly content: string
  readonly at: number
  /** JSON text. */
  readonly answer: string
}

const makeIdempotency = Effect.gen(function* () {
  const known = new Map<string, Known>()
  // Serializes requests, so that a concurrent duplicate finds the first result.
  const turn = yield* Effect.makeSemaphore(1)
  const text = (value: string) => digestOf(value).toString("hex")

  return Idempotency.of({
    once: (request, act) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const [key, content] = [text(request.key), text(request.content)]
        const before = known.get(key)
        if (before !== undefined && before.at > now - Duration.toMillis(request.remembered)) {
          return before.content === content ? JSON.parse(before.answer) : yield* new IdempotencyKeyReused()
        }
        const answer = yield* act(now)
        known.set(key, { content, at: now, answer: JSON.stringify(answer) })
        return answer
      }).pipe(turn.withPermits(1)),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const old = [...known].filter(([, { at }]) => at < now - Duration.toMillis(olderThan))
        for (const [key] of old) known.delete(key)
        return old.length
      })
  })
})

const idempotency: Layer.Layer<Idempotency> = Layer.effect(Idempotency, makeIdempotency)

const makeSavedViews = Effect.gen(function* () {
  const ids = yield* makeGenerator
  const known = new Map<string, SavedView>()
  const isTaken = (name: string, by?: string) =>
    [...known.values()].some((view) => view.name === name && view.id !== by)

  return SavedViews.of({
    list: Effect.sync(() => [...known.values()]),
    create: (view) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        if (isTaken(view.name)) return yield* new ViewExists({ name: view.name })
        if (known.size >= limits.views) return yield* new TooManyViews({ most: limits.views })
        const made: SavedView = { ...view, id: ids.view(now), createdAt: now }
        known.set(made.id, made)
        return made
      }),
    change: (id, patch) =>
      Effect.gen(function* () {
        const before = known.get(id)
        if (before === undefined) return yield* new ViewNotFound({ id })
        const after: SavedView = { ...before, ...patch }
        if (isTaken(after.name, id)) return yield* new ViewExists({ name: after.name })
        known.set(id, after)
        return { before, after }
      }),
    remove: (id) =>
      Effect.suspend(() => {
        const view = known.get(id)
        if (view === undefined) return new ViewNotFound({ id })
        known.delete(id)
        return Effect.succeed(view)
      })
  })
})

/** In memory, for tests. */
const savedViews: Layer.Layer<SavedViews> = Layer.effect(SavedViews, makeSavedViews)

interface SessionRow {
  readonly role: Role
  readonly bond: Buffer
  readonly until: number
}

const makeSessions = Effect.sync(() => {
  const rows = new Map<string, SessionRow>()
  const idOf = (secret: string) => Secrets.hash(secret).toString("hex")

  return Sessions.of({
    begin: (role, token, lasting) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const secret = Secrets.makeSession()
        const until = now + Duration.toMillis(lasting)
        rows.set(idOf(secret), { role, bond: Secrets.bond(secret, token), until })
        return { secret: Redacted.make(secret), until }
      }),
    find: (secret, tokens, lasting) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const row = rows.get(idOf(secret))
        if (row === undefined || row.until <= now) return Option.none()
        if (!Secrets.holds(secret, row.role, row.bond, tokens)) return Option.none()
        const extended = Secrets.isWorthExtending(row.until, lasting, now)
        const until = extended ? now + Duration.toMillis(lasting) : row.until
        rows.set(idOf(secret), { ...row, until })
        return Option.some({ role: row.role, until })
      }),
    lasts: (secret, tokens) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const row = rows.get(idOf(secret))
        return row !== undefined && row.until > now && Secrets.holds(secret, row.role, row.bond, tokens)
      }),
    end: (secret) => Effect.sync(() => void rows.delete(idOf(secret))),
    purge: Effect.map(Clock.currentTimeMillis, (now) => {
      const over = [...rows].filter(([, { until }]) => until <= now)
      for (const [id] of over) rows.delete(id)
      return over.length
    })
  })
})

const sessions: Layer.Layer<Sessions> = Layer.effect(Sessions, makeSessions)

/** Audit log, sessions, idempotency keys and saved views in memory, for tests. */
export const layer: Layer.Layer<Audit | Sessions | Idempotency | SavedViews> = Layer.mergeAll(
  audit,
  sessions,
  idempotency,
  savedViews
)

const makeTokens = Effect.gen(function* () {
  const ids = yield* makeGenerator
  const known = new Map<string, { readonly token: Token; readonly kept: Secrets.StoredToken }>()

  return Tokens.of({
    create: (workspace, label = "") =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const { secret, ...kept } = Secrets.makeToken()
        const token: Token = {
          id: ids.token(now),
          workspace,
          prefix: kept.prefix,
          label: label.slice(0, maxLabelCharacters),
          createdAt: now
        }
        known.set(token.id, { token, kept })
        return { ...token, secret }
      }),
    list: (workspace) =>
      Effect.sync(() => [...known.values()].map(({ token }) => token).filter((token) => token.workspace === workspace)),
    revoke: (workspace, id) =>
      Effect.suspend(() => {
        const token = known.get(id)?.token
        if (token?.workspace !== workspace) return new TokenNotFound({ id })
        known.delete(id)
        return Effect.succeed(token)
      }),
    verify: (workspace, given) =>
      Effect.sync(() => {
        const prefix = Secrets.prefixOf(given)
        const candidates = [...known.values()].filter(
          ({ kept, token }) => token.workspace === workspace && kept.prefix === prefix
        )
        return Secrets.isOneOf(
          given,
          candidates.map(({ kept }) => kept.hash)
        )
      })
  })
})

/** In memory, for tests. */
export const tokens: Layer.Layer<Tokens> = Layer.effect(Tokens, makeTokens)
