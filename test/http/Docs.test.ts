import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as DocsPage from "../../src/http/server/DocsPage.js"
import { layer, TestServer } from "./TestServer.js"

describe("GET /docs", () => {
  it.scopedLive("shows the contract without a token, scripts or external resources", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const page = yield* ask("GET", "/docs")
      expect(page.status).toBe(200)
      expect(page.headers["content-type"]).toBe("text/html; charset=utf-8")
      const policy = page.headers["content-security-policy"] ?? ""
      expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; .*frame-ancestors 'none'$/)
      expect(page.text.match(/<script|https?:\/\/|src=|@import/g)).toBeNull()
      const { paths } = JSON.parse((yield* admin("GET", "/api/v1/openapi.json")).text)
      expect(Object.keys(paths).filter((path) => !page.text.includes(`<code>${path}</code>`))).toEqual([])
      const links = [...page.text.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
      expect(links.filter((id) => !page.text.includes(`id="${id}"`))).toEqual([])
      expect(links).toContain("schema-Problem")
    }).pipe(Effect.provide(layer()))
  )

  it("escapes all text", () => {
    const evil = `"><script>alert('x')</script>`
    const page = DocsPage.render({
      info: { title: evil, description: evil },
      tags: [{ name: evil }],
      paths: { [evil]: { get: { tags: [evil], operationId: evil, description: evil, parameters: [{ name: evil }] } } },
      components: { schemas: { [evil]: { description: evil } } }
    })
    expect(page).not.toContain("<script")
  })
})

describe("every answer", () => {
  it.scopedLive("carries headers against sniffing, framing, caching and referrer leaks", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const answers = [
        yield* ask("GET", "/healthz"),
        yield* ask("GET", "/docs"),
        yield* ask("GET", "/nowhere"),
        yield* ask("GET", "/api/v1/jobs"),
        yield* admin("GET", "/api/v1/jobs")
      ]
      for (const { headers } of answers) {
        expect(headers).toMatchObject({
          "x-content-type-options": "nosniff",
          "x-frame-options": "DENY",
          "referrer-policy": "no-referrer",
          "cross-origin-resource-policy": "same-origin",
          "content-security-policy": expect.stringContaining("default-src 'none'")
        })
        expect(headers["content-security-policy"]).toContain("frame-ancestors 'none'")
      }
    }).pipe(Effect.provide(layer()))
  )
})
