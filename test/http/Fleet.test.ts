import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Redacted, Schedule, Scope } from "effect"
import * as CellTag from "../../src/core/CellTag.js"
import type { Cell } from "../../src/fleet/Fleet.js"
import type { Membership } from "../../src/fleet/FleetConfig.js"
import { ServedCell } from "../../src/http/access/ServedCell.js"
import { Patience } from "../../src/http/fleet/CellClients.js"
import { listen } from "./EventListener.js"
import { adminToken, type Configs, layer, TestServer } from "./TestServer.js"

const secret = "a-secret-of-all-cells-in-this-fleet"

const cellOf = (name: string, api: string | undefined): Cell => ({
  name,
  database: Redacted.make(""),
  schema: undefined,
  listen: undefined,
  read: undefined,
  api,
  tag: CellTag.ofName(name),
  divided: new Map()
})

interface Options {
  readonly mayAct?: boolean
  readonly secret?: string
  readonly config?: Configs
  readonly patience?: Duration.Duration
  /** Addresses of other cells. */
  readonly others?: Readonly<Record<string, string | undefined>>
}

const member = (name: string, { mayAct = true, others = {}, ...options }: Options): Membership => {
  const cell = cellOf(name, undefined)
  const all = [cell, ...Object.entries(others).map(([other, api]) => cellOf(other, api))]
  return {
    fleet: { cells: new Map(all.map((each) => [each.name, each])), queues: new Map(), main: cell },
    cell,
    token: { secret: Redacted.make(options.secret ?? secret), mayAct }
  }
}

/** The service of a cell, on a queue in memory. */
const service = (name: string, options: Options = {}) =>
  Effect.gen(function* () {
    const scope = yield* Scope.fork(yield* Effect.scope, { _tag: "Sequential" })
    const membership = Layer.succeed(ServedCell, member(name, options))
    const settings =
      options.patience === undefined ? membership : Layer.merge(membership, Layer.succeed(Patience, options.patience))
    const context = yield* Layer.buildWithScope(Layer.provide(layer(options.config), settings), scope)
    const server = Context.get(context, TestServer)
    /** Status of a path that is sent as it is. */
    const raw = (path: string) =>
      Effect.async<number | undefined>((resume) => {
        const headers = { authorization: `Bearer ${adminToken}` }
        const get = Http.get({ host: "127.0.0.1", port: server.port, path, headers }, ({ statusCode }) => {
          get.destroy()
          resume(Effect.succeed(statusCode))
        })
      })
    return { ...server, raw, api: `http://127.0.0.1:${server.port}`, stop: Scope.close(scope, Exit.void) }
  })

/** The address of a server that is no cell. */
const server = (respond: (response: Http.ServerResponse, url: string) => void) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<Http.Server>((resume) => {
        const server = Http.createServer(({ url = "" }, response) => respond(response, url))
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.sync(() => {
          server.closeAllConnections()
          server.close()
        })
    ),
    (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  )

type Service = Effect.Effect.Success<ReturnType<typeof service>>

const enqueue = ({ admin }: Service, more: Record<string, unknown> = {}) =>
  Effect.map(
    admin("POST", "/api/v1/jobs", {
      json: { jobs: [{ kind: "greet", payload: { name: "Ada" }, runAt: "2126-01-31T09:00:00Z", ...more }] }
    }),
    ({ text }): string => JSON.parse(text).jobs[0].id
  )

interface Card {
  readonly name: string
  readonly at: string | null
  readonly failure: string | null
  readonly figures: { readonly counts: { readonly scheduled: { readonly value: number } } } | null
}

/** The cards of the overview, by cell. */
const overview = ({ viewer }: Service) =>
  Effect.map(viewer("GET", "/api/v1/fleet"), ({ status, text }) => {
    expect(status).toBe(200)
    const { cells } = JSON.parse(text) as { readonly cells: ReadonlyArray<Card> }
    return Object.fromEntries(cells.map((card) => [card.name, card]))
  })

const until = <A>(look: Effect.Effect<A>, isSo: (seen: A) => boolean) =>
  Effect.repeat(look, { until: isSo, schedule: Schedule.spaced("50 millis") }).pipe(Effect.zipRight(look))

const failureOf = ({ text }: { readonly text: string }) => JSON.parse(text).error as { tag: string; message: string }

describe("a service of a fleet", () => {
  it.scopedLive("shows all cells, and the last figures of one that has stopped", () =>
    Effect.gen(function* () {
      const mail = yield* service("mail")
      const main = yield* service("main", { others: { mail: mail.api, idle: undefined } })
      yield* enqueue(mail)
      yield* enqueue(mail)
      yield* enqueue(main)
      const first = yield* overview(main)
      expect(first.main?.figures?.counts.scheduled.value).toBe(1)
      expect(first.mail).toMatchObject({ failure: null, figures: { counts: { scheduled: { value: 2 } } } })
      expect(first.idle).toMatchObject({ figures: null, failure: expect.stringContaining("no `api`") })

      yield* mail.stop
      const after = yield* until(overview(main), ({ mail }) => mail?.failure !== null)
      expect(after.mail).toMatchObject({ at: first.mail?.at, figures: { counts: { scheduled: { value: 2 } } } })
      expect(after.mail?.failure).toMatch(/^Cell mail cannot be reached from here: .*ECONNREFUSED/)
      expect(after.main?.failure).toBeNull()
      expect(yield* main.viewer("GET", "/api/v1/cells/mail/jobs")).toMatchObject({ status: 502 })
    })
  )

  it.scopedLive("lets an admin see and act on jobs of another cell, which audits the caller's name", () =>
    Effect.gen(function* () {
      const mail = yield* service("mail")
      const main = yield* service("main", { others: { mail: mail.api } })
      const id = yield* enqueue(mail)
      const there = `/api/v1/cells/mail/jobs/${id}`
      expect(yield* main.viewer("GET", there)).toMatchObject({ status: 200, json: { id, state: "scheduled" } })
      expect(yield* main.viewer("GET", `/api/v1/jobs/${id}`)).toMatchObject({ status: 404 })
      expect(yield* main.viewer("POST", `${there}/cancel`)).toMatchObject({ status: 403 })
      const headers = { "x-reason": "asked%20by%20Ada" }
      expect(yield* main.admin("POST", `${there}/cancel`, { headers })).toMatchObject({ status: 200 })
      const { json } = yield* mail.admin("GET", `/api/v1/audit?target=${id}`)
      expect(json).toMatchObject({ entries: [{ act: "job.cancel", who: "api:admin@main", reason: "asked by Ada" }] })
      // The other cell's answers, good or bad, arrive unchanged.
      expect(yield* main.admin("PATCH", there, { json: { priority: "high" } })).toMatchObject({ status: 400 })
      expect(yield* main.admin("GET", `${there}0`)).toMatchObject({ status: 404 })
    })
  )

  it.scopedLive("never gives a caller more than its own role, nor more than the token's", () =>
    Effect.gen(function* () {
      const mail = yield* service("mail", { config: { mask: ["name"] } })
      const main = yield* service("main", { others: { mail: mail.api } })
      const reader = yield* service("reader", { mayAct: false, others: { mail: mail.api } })
      const closed = yield* service("closed", { mayAct: false })
      const other = yield* service("other", { others: { closed: closed.api } })
      const id = yield* enqueue(mail)
      const there = `/api/v1/cells/mail/jobs/${id}`
      const payload = (of: Service, as: "admin" | "viewer") =>
        Effect.map(of[as]("GET", there), ({ text }) => JSON.parse(text).payload)
      expect(yield* payload(main, "admin")).toEqual({ name: "Ada" })
      expect(yield* payload(main, "viewer")).not.toEqual({ name: "Ada" })
      const agent = yield* main.admin("GET", there, { headers: { "x-agent": "night-agent" } })
      expect([agent.status, agent.text]).toEqual([200, expect.not.stringContaining("Ada")])
      expect(yield* payload(reader, "admin")).not.toEqual({ name: "Ada" })
      expect(failureOf(yield* reader.admin("POST", `${there}/cancel`)).message).toContain("can only be viewed")
      const closedId = yield* enqueue(closed)
      const refused = yield* other.admin("POST", `/api/v1/cells/closed/jobs/${closedId}/cancel`)
      expect([refused.status, failureOf(refused).message]).toEqual([403, expect.stringContaining("`<token>:admin`")])
      expect(yield* main.viewer("GET", "/api/v1/session")).toMatchObject({
        json: { fleet: { mayAct: false, cell: "main" } }
      })
      expect(yield* main.admin("GET", "/api/v1/session")).toMatchObject({ json: { fleet: { mayAct: true } } })
      expect(yield* reader.admin("GET", "/api/v1/session")).toMatchObject({ json: { fleet: { mayAct: false } } })
    })
  )

  it.scopedLive("believes the headers of a forwarded request only with the fleet token, and forwards none twice", () =>
    Effect.gen(function* () {
      const mail = yield* service("mail")
      const main = yield* service("main", { others: { mail: mail.api, wrong: mail.api } })
      const stranger = yield* service("stranger", { secret: `${secret}-of-others`, others: { mail: mail.api } })
      const forged = {
        "x-nightshift-cell": "main",
        "x-nightshift-caller": "ui:admin@mail",
        "x-nightshift-role": "admin"
      }
      expect(yield* main.admin("GET", "/api/v1/jobs", { headers: forged })).toMatchObject({ status: 401 })
      const asCell = { token: secret, headers: forged }
      expect(yield* main.ask("GET", "/api/v1/jobs", { token: secret })).toMatchObject({ status: 401 })
      expect(yield* main.ask("GET", "/api/v1/jobs", asCell)).toMatchObject({ status: 200 })
      for (const path of ["fleet", "cells/mail/jobs"])
        expect(yield* main.ask("GET", `/api/v1/${path}`, asCell)).toMatchObject({ status: 421 })
      // A 401 would look like an expired login of this service.
      const wrongToken = yield* stranger.admin("GET", "/api/v1/cells/mail/jobs")
      expect([wrongToken.status, failureOf(wrongToken).message]).toEqual([
        502,
        expect.stringContaining("rejects the token")
      ])
      const wrongCell = yield* main.admin("POST", "/api/v1/cells/wrong/jobs", { json: { jobs: [] } })
      expect([wrongCell.status, failureOf(wrongCell).message]).toEqual([502, expect.stringContaining("another cell")])
    })
  )

  it.scopedLive("forwards only the API of other cells", () =>
    Effect.gen(function* () {
      const mail = yield* service("mail")
      const main = yield* service("main", { others: { mail: mail.api } })
      const statusOf = (path: string) => Effect.map(main.admin("GET", `/api/v1/cells/${path}`), ({ status }) => status)
      expect(yield* statusOf("mail/session")).toBe(404)
      expect(yield* statusOf("mail/fleet")).toBe(404)
      expect(yield* statusOf("mail/cells/main/jobs")).toBe(404)
      expect(yield* statusOf("mial/jobs")).toBe(400)
      for (const path of ["./session", "%73ession", "/session", "x/../session?y", "./cells/main/jobs"])
        expect([path, yield* main.raw(`/api/v1/cells/mail/${path}`)]).toEqual([path, 404])
      expect(yield* main.raw("/api/v1/cells/mail/%2e%2e/%2e%2e/healthz")).toBe(502)
      expect(yield* main.raw("/api/v1/cells/mail/../../../healthz")).toBe(502)
      expect(yield* main.ask("GET", "/api/v1/cells/mail/jobs")).toMatchObject({ status: 401 })
      const { headers, status } = yield* main.admin("GET", "/api/v1/cells/main/jobs/groups?state=dead")
      const target = new URL(headers.location ?? "", `${main.api}/api/v1/cells/main/jobs/groups?state=dead`)
      expect([status, target.pathname, target.search]).toEqual([308, "/api/v1/jobs/groups", "?state=dead"])
      const alone = yield* Layer.build(layer())
      const { viewer } = Context.get(alone, TestServer)
      expect(yield* viewer("GET", "/api/v1/fleet")).toMatchObject({ json: { cell: null, cells: [] } })
      expect(yield* viewer("GET", "/api/v1/cells/mail/jobs")).toMatchObject({ status: 404 })
      expect(yield* viewer("GET", "/api/v1/session")).toMatchObject({ json: { fleet: null } })
    })
  )

  it.scopedLive("lets a request wait as long as the cell responds to others, and does not take the cell for down", () =>
    Effect.gen(function* () {
      const mail = yield* service("mail")
      const patience = Duration.millis(200)
      const main = yield* service("main", { patience, others: { mail: mail.api } })
      const json = { worker: { id: "w" }, queues: ["default"], waitSeconds: 2 }
      const claiming = yield* Effect.fork(main.admin("POST", "/api/v1/cells/mail/work/claim", { json }))
      const statuses: Array<number> = []
      while ((yield* Fiber.poll(claiming))._tag === "None")
        statuses.push((yield* main.admin("GET", "/api/v1/cells/mail/jobs")).status)
      expect(yield* claiming).toMatchObject({ status: 200, json: { jobs: [] } })
      expect([...new Set(statuses)]).toEqual([200])
    })
  )

  it.scopedLive("takes a cell for down that does not respond to others either", () =>
    Effect.gen(function* () {
      const silent = yield* server(() => {})
      const main = yield* service("main", { patience: Duration.millis(100), others: { mail: silent } })
      const refused = yield* main.admin("GET", "/api/v1/cells/mail/jobs")
      expect([refused.status, failureOf(refused).message]).toEqual([
        502,
        "Cell mail cannot be reached from here: no response within 0.2 s."
      ])
    })
  )

  it.scopedLive("reads no endless response of what is not a cell", () =>
    Effect.gen(function* () {
      const piece = Buffer.alloc(1024 * 1024)
      const arrived = yield* Deferred.make<void>()
      const endless = yield* server((response, url) => {
        if (url.endsWith("/pods")) return response.end()
        if (url.endsWith("/slow")) return Deferred.unsafeDone(arrived, Exit.void)
        const send = () => {
          while (!response.destroyed && response.write(piece)) {}
        }
        response.on("drain", send)
        send()
      })
      const main = yield* service("main", { others: { mail: endless } })
      const refused = yield* main.admin("GET", "/api/v1/cells/mail/jobs")
      expect([refused.status, failureOf(refused).message]).toEqual([502, expect.stringContaining("larger than 64 MiB")])
      // Requests of others are not refused because of it, as they would be while a cell is down.
      yield* Effect.fork(main.admin("GET", "/api/v1/cells/mail/slow"))
      yield* Deferred.await(arrived)
      expect(yield* main.admin("GET", "/api/v1/cells/mail/pods")).toMatchObject({ status: 200 })
    })
  )

  it.scopedLive("passes live events of another cell on", () =>
    Effect.gen(function* () {
      const mail = yield* service("mail")
      const main = yield* service("main", { others: { mail: mail.api } })
      const credentials = { authorization: "Bearer viewer-sesame" }
      const listener = yield* Effect.provideService(listen("/api/v1/cells/mail/events", credentials), TestServer, main)
      yield* listener.heard("snapshot")
      yield* listener.heard("heartbeat")
      yield* enqueue(mail, { kind: "plain" })
      yield* listener.heard("jobs", ({ jobs }) => JSON.stringify(jobs).includes("plain"))
      yield* mail.stop
      yield* listener.ended
    })
  )
})
