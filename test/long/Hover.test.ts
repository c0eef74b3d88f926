import { spawn } from "node:child_process"
import { writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as ExampleProject from "../examples/ExampleProject.js"
import * as Nightshift from "../support/Nightshift.js"

// Names after /*?*/ are hovered. The types are named: TypeScript writes out anonymous ones, one line per field.
const program = `
import { /*?*/connect, /*?*/job, /*?*/worker } from "nightshift/client"
import { z } from "zod"
interface Receipt { orderId: string; email: string; lines: Array<{ sku: string; count: number }> }
interface Sent { messageId: string }
declare const receipt: z.ZodType<Receipt, Receipt>
declare const sent: z.ZodType<Sent, Sent>
const /*?*/mail = /*?*/job("mail", { payload: receipt, result: sent })
const /*?*/shift = await /*?*/connect()
const /*?*/enqueued = await shift./*?*/enqueue(mail, { orderId: "A", email: "a@b.c", lines: [] }, { delay: "5m" })
const /*?*/many = await shift./*?*/enqueueMany(mail, [])
const /*?*/handler = mail./*?*/handle(async (/*?*/payload, /*?*/context) => ({ messageId: payload.orderId + context.id }))
mail./*?*/handleInTransaction(async (_, { tx }) => ({ messageId: String(tx) }))
const /*?*/result = await shift./*?*/result(enqueued.id)
const /*?*/running = await /*?*/worker(shift, { handlers: [handler] })
`

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: { readonly items?: ReadonlyArray<unknown> }
  readonly result?: unknown
}

/** A language server of TypeScript, as editors start it. */
const languageServer = (cwd: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc")
      const child = spawn(process.execPath, [tsc, "--lsp", "--stdio"], { cwd, stdio: ["pipe", "pipe", "ignore"] })
      const waiting = new Map<number, (result: unknown) => void>()
      const send = (message: object) => {
        const text = JSON.stringify({ jsonrpc: "2.0", ...message })
        child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
      }
      const take = ({ id, method, params, result }: Message) => {
        if (id === undefined) return
        // The server asks for the editor's settings.
        if (method !== undefined) return send({ id, result: params?.items?.map(() => null) ?? null })
        waiting.get(id)?.(result)
      }
      let received = Buffer.alloc(0)
      child.stdout.on("data", (chunk: Buffer) => {
        received = Buffer.concat([received, chunk])
        for (;;) {
          const start = received.indexOf("\r\n\r\n") + 4
          if (start < 4) return
          const end = start + Number(/Content-Length: (\d+)/i.exec(received.subarray(0, start).toString())?.[1])
          if (received.length < end) return
          take(JSON.parse(received.subarray(start, end).toString()))
          received = received.subarray(end)
        }
      })
      let asked = 0
      return {
        child,
        tell: (method: string, params: object) => send({ method, params }),
        ask: (method: string, params: object) =>
          Effect.promise(
            () =>
              new Promise<unknown>((answer) => {
                asked += 1
                waiting.set(asked, answer)
                send({ id: asked, method, params })
              })
          )
      }
    }),
    ({ child }) => Effect.sync(() => child.kill())
  )

/** The type in a hover. The doc comment follows it: test/docs/DocComments.test.ts checks those of all names. */
const typeIn = (hover: string) => /^```typescript\n([\s\S]*?)\n```/.exec(hover)?.[1] ?? ""

/** The lines of a type in an editor that is 100 characters wide. */
const linesOf = (type: string) => type.split("\n").reduce((sum, line) => sum + Math.ceil(line.length / 100), 0)

describe("the types of nightshift/client in an editor", () => {
  it.scopedLive(
    "fit on three lines, for instantiated values too",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        ExampleProject.link(cwd, ["nightshift", "effect", "zod", "@types/node"])
        const compilerOptions = {
          target: "ES2022",
          module: "NodeNext",
          types: ["node"],
          strict: true,
          skipLibCheck: true
        }
        writeFileSync(join(cwd, "package.json"), '{ "type": "module" }')
        writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify({ compilerOptions }))
        writeFileSync(join(cwd, "app.ts"), program)
        const { ask, tell } = yield* languageServer(cwd)
        const uri = pathToFileURL(join(cwd, "app.ts")).href
        const hover = { contentFormat: ["markdown"] }
        yield* ask("initialize", {
          processId: process.pid,
          rootUri: pathToFileURL(cwd).href,
          capabilities: { textDocument: { hover } }
        })
        tell("initialized", {})
        tell("textDocument/didOpen", { textDocument: { uri, languageId: "typescript", version: 1, text: program } })
        const tooLong: Array<string> = []
        const shown = new Map<string, string>()
        for (const { 1: name = "", index } of program.matchAll(/\/\*\?\*\/(\w+)/g)) {
          const before = program.slice(0, index + 5).split("\n")
          const position = { line: before.length - 1, character: before.at(-1)?.length ?? 0 }
          const answer = (yield* ask("textDocument/hover", { textDocument: { uri }, position })) as {
            readonly contents: { readonly value: string }
          }
          const text = answer.contents.value
          shown.set(name, text)
          if (typeIn(text) === "" || linesOf(typeIn(text)) > 3) tooLong.push(text)
        }
        expect(tooLong).toEqual([])
        // The program was understood.
        expect(shown.get("result")).toContain("Shift.result<Sent>")
        expect(typeIn(shown.get("mail") ?? "")).toBe("const mail: Job<Receipt, Receipt, Sent, Sent>")
        expect(shown.get("connect")).toContain("Connects to PostgreSQL")
      }),
    60_000
  )
})
