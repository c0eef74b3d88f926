import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createContext, runInContext } from "node:vm"
import { build } from "esbuild"
import { describe, expect, it } from "vitest"
import { keyOf, signed } from "../../src/gateway/SignedSources.js"
import { secretOf } from "../gateway/PushEndpoint.js"
import { root } from "../support/Nightshift.js"

const program = `
  import { handle, job } from "nightshift/serverless"
  const payload = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) } }
  globalThis.made = handle({
    secret: (env) => env.SECRET,
    jobs: [job("shout", { payload }).handle(async ({ text }) => text.toUpperCase())]
  })
`

describe("nightshift/serverless in a bundle for browsers", () => {
  it("is small, imports nothing, and runs a job with what every runtime has", async () => {
    const { metafile, outputFiles } = await build({
      stdin: { contents: program, resolveDir: root },
      bundle: true,
      write: false,
      metafile: true,
      minify: true,
      format: "iife",
      platform: "browser",
      target: "es2022",
      alias: { "nightshift/serverless": join(root, "dist/serverless.js") },
      logLevel: "error"
    })
    const inputs = Object.keys(metafile.inputs)
    expect(inputs.filter((file) => file !== "<stdin>")).toEqual(["dist/serverless.js"])
    const text = outputFiles[0]?.text ?? ""
    expect(text.length).toBeLessThan(10_000)

    const secret = secretOf("b")
    const about = { id: "1", queue: "q", key: null, attempt: 1, attempts: 5, meta: null, version: 1, timeoutSeconds: 5 }
    const body = JSON.stringify({ type: "shout", data: { text: "hello" }, job: about })
    const headers = signed([keyOf("standard", secret) ?? Buffer.alloc(0)], "1", body, Date.now())
    const { AbortController, Request, Response, TextDecoder, TextEncoder, atob, clearTimeout, crypto, setTimeout } =
      globalThis
    const web = { AbortController, Request, Response, TextDecoder, TextEncoder, atob, clearTimeout, crypto, setTimeout }
    const realm = createContext({ ...web, console, Uint8Array })
    runInContext(text, realm)
    const request = new Request("https://f.example.org/", { method: "POST", body, headers })
    const response: Response = await realm.made.fetch(request, { SECRET: secret })
    expect([response.status, await response.json()]).toEqual([200, "HELLO"])
  })

  it("is declared without packages, Node's modules and Effect", () => {
    const text = readFileSync(join(root, "dist/serverless.js"), "utf8")
    expect(text).not.toMatch(/from\s*"|require\(|node:/)
  })
})
