import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { layerPostgres, TestServer } from "./TestServer.js"

const path = "/api/v1/views"
const deadMail = {
  name: "dead mail",
  page: "dead",
  filter: { queue: "mail", payload: { a: [1, null] }, within: "24h" }
}

interface Shown {
  readonly id: string
}

layer(Layer.orDie(layerPostgres()), { excludeTestServices: true })("/api/v1/views", (it) => {
  it.effect("refuses an invalid view, names the field and stores nothing", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const bad: ReadonlyArray<readonly [change: Record<string, unknown>, field: string]> = [
        [{ name: undefined }, "name"],
        [{ name: 7 }, "name"],
        [{ name: " \t " }, "name"],
        [{ name: "x".repeat(61) }, "name"],
        [{ name: "two\nlines" }, "name"],
        [{ name: "\u202eturned" }, "name"],
        [{ name: "nul\u0000" }, "name"],
        [{ name: "half \ud800" }, "name"],
        [{ page: "overview" }, "page"],
        [{ filter: [] }, "filter"],
        [{ filter: { colour: "red" } }, "filter.colour"],
        [{ filter: { state: "asleep" } }, "filter.state"],
        [{ filter: { since: "yesterday" } }, "filter.since"],
        [{ filter: { within: 60 } }, "filter.within"],
        [{ filter: { within: "60" } }, "filter.within"],
        [{ filter: { within: "4000d" } }, "filter.within"],
        [{ filter: { within: "1h", until: "2026-01-01T00:00:00Z" } }, "filter.within"],
        [{ filter: { payload: "\u0000" } }, "filter"],
        [{ filter: { payload: "x".repeat(5_000) } }, "filter"],
        [{ colour: "red" }, "colour"]
      ]
      for (const [change, field] of bad) {
        const refused = yield* admin("POST", path, { json: { ...deadMail, ...change } })
        expect({ change, ...refused }).toMatchObject({ change, status: 400, json: { error: { field } } })
      }
      const messageOf = (name: unknown) =>
        Effect.map(admin("POST", path, { json: { ...deadMail, name } }), ({ text }) => JSON.parse(text).error.message)
      expect(yield* messageOf(" ")).toBe("name must not be empty.")
      expect(yield* messageOf("x".repeat(61))).toBe("name must be at most 60 characters long.")
      expect(yield* messageOf(7)).toBe("name must be text.")
      expect((yield* admin("GET", path)).json).toEqual({ views: [] })
      expect((yield* admin("GET", "/api/v1/audit?act=view")).json).toMatchObject({ entries: [] })

      const { id } = (yield* admin("POST", path, { json: deadMail })).json as Shown
      const other = (yield* admin("POST", path, { json: { ...deadMail, name: "other" } })).json as Shown
      const taken = { status: 409, json: { error: { tag: "ViewExists", field: "name" } } }
      expect(yield* admin("POST", path, { json: deadMail })).toMatchObject(taken)
      expect(yield* admin("PATCH", `${path}/${id}`, { json: { name: "other" } })).toMatchObject(taken)
      expect(yield* admin("PATCH", `${path}/${id}`, { json: { name: "" } })).toMatchObject({ status: 400 })
      for (const nobody of ["0198c0de-0000-7000-8000-000000000000", "mail", "%00"]) {
        const missing = { status: 404, json: { error: { tag: "ViewNotFound" } } }
        expect(yield* admin("PATCH", `${path}/${nobody}`, { json: { name: "x" } })).toMatchObject(missing)
        expect(yield* admin("DELETE", `${path}/${nobody}`)).toMatchObject(missing)
      }
      for (const made of [id, other.id]) yield* admin("DELETE", `${path}/${made}`)
    })
  )

  it.effect("stores named filters for everyone, and audits changes", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      expect((yield* viewer("GET", path)).json).toEqual({ views: [] })
      const made = yield* admin("POST", path, { json: { ...deadMail, name: "  dead mail " } })
      expect(made).toMatchObject({ status: 201, json: deadMail })
      const { id } = made.json as Shown
      expect((yield* viewer("GET", path)).json).toEqual({ views: [made.json] })

      const renamed = yield* admin("PATCH", `${path}/${id.toUpperCase()}`, { json: { name: "mail" } })
      expect(renamed).toMatchObject({ status: 200, json: { ...deadMail, id, name: "mail" } })
      const filter = { state: ["done", "dead"], since: "2026-01-01T00:00:00.000Z" }
      const turned = yield* admin("PATCH", `${path}/${id}`, { json: { page: "jobs", filter } })
      expect(turned.json).toEqual({ ...(made.json as Shown), name: "mail", page: "jobs", filter })

      expect(yield* admin("DELETE", `${path}/${id}`)).toMatchObject({ status: 200, json: { name: "mail" } })
      expect((yield* viewer("GET", path)).json).toEqual({ views: [] })
      expect((yield* viewer("GET", "/api/v1/audit?act=view&limit=4")).json).toMatchObject({
        entries: [
          { act: "view.delete", target: "mail", before: { name: "mail", filter } },
          { act: "view.change", target: "mail", before: { page: "dead" }, after: { page: "jobs", filter } },
          { act: "view.change", target: "dead mail", before: { name: "dead mail" }, after: { name: "mail" } },
          { act: "view.create", target: "dead mail", after: deadMail }
        ]
      })
    })
  )
})
