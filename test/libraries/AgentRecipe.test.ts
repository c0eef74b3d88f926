import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { customProvider, simulateReadableStream } from "ai"
import { MockLanguageModelV3 } from "ai/test"
import { Effect } from "effect"
import { connect, type Workflow, worker } from "nightshift/client"
import { afterAll, afterEach, describe, expect, it, vi } from "vitest"
import { useDatabase } from "../client/ClientDatabase.js"
import { compiled, link } from "../examples/ExampleProject.js"
import { root } from "../support/Nightshift.js"

// Runs the code of docs/recipes/agent.md as it is written there. What it declares is global here.

const database = useDatabase()
const folder = mkdtempSync(join(tmpdir(), "nightshift-agent-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
afterEach(() => void vi.unstubAllGlobals())

interface Recipe {
  readonly agent: Workflow<{ readonly id: string; readonly task: string }, string>
  readonly follow: (id: string) => Promise<string>
  readonly decide: (id: string, signal: string, ok: boolean, by: string) => Promise<unknown>
}

const loaded = (async (): Promise<Recipe> => {
  const page = readFileSync(join(root, "docs/recipes/agent.md"), "utf8")
  const [agent = "", show = ""] = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code)
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }')
  writeFileSync(join(folder, "agent.ts"), agent)
  writeFileSync(join(folder, "show.ts"), show)
  link(folder, ["nightshift", "ai", "zod"])
  await Effect.runPromise(compiled(folder))
  const load = (file: string) => import(/* @vite-ignore */ pathToFileURL(join(folder, file)).href)
  return { ...(await load("agent.js")), ...(await load("show.js")) }
})()

type Part = Awaited<ReturnType<MockLanguageModelV3["doStream"]>>["stream"] extends ReadableStream<infer A> ? A : never

/** One answer of the model: words, and at most one call of a tool. */
const answer = (words: ReadonlyArray<string>, tokens: number, call?: readonly [id: string, tool: string]) => {
  const chunks: Array<Part> = [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "1" },
    ...words.map((delta) => ({ type: "text-delta" as const, id: "1", delta })),
    { type: "text-end", id: "1" },
    ...(call === undefined
      ? []
      : [{ type: "tool-call" as const, toolCallId: call[0], toolName: call[1], input: '{"id":"A-17"}' }]),
    {
      type: "finish",
      finishReason: { unified: call === undefined ? "stop" : "tool-calls", raw: undefined },
      usage: {
        inputTokens: { total: tokens - words.length, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
        outputTokens: { total: words.length, text: undefined, reasoning: undefined }
      }
    }
  ]
  return { stream: simulateReadableStream({ chunks, chunkDelayInMs: null, initialDelayInMs: null }) }
}

/** A model that gives these answers in turn, and remembers what it was asked. */
const scripted = (...answers: ReadonlyArray<() => ReturnType<typeof answer>>) => {
  const model = new MockLanguageModelV3({
    doStream: async () => {
      const next = answers[model.doStreamCalls.length - 1]
      if (next === undefined) throw new Error("the script has no further answer")
      return next()
    }
  })
  vi.stubGlobal("AI_SDK_DEFAULT_PROVIDER", customProvider({ languageModels: { "openai/gpt-5": model } }))
  return model
}

const overloaded = (): never => {
  throw new Error("the model is overloaded")
}

describe("the agent of the recipe", () => {
  it("retries the model, calls tools as steps, waits for a person, and counts what it spends", async () => {
    const { agent, decide, follow } = await loaded
    const refunds: Array<readonly [key: string, order: string]> = []
    vi.stubGlobal("shop", {
      order: async () => ({ cents: 500 }),
      refund: async (key: string, order: string) => {
        refunds.push([key, order])
        return { refunded: 500 }
      }
    })
    const model = scripted(
      overloaded,
      () => answer(["I look ", "it up."], 100, ["c1", "order"]),
      () => answer(["Refunding."], 150, ["c2", "refund"]),
      () => answer(["Refunded ", "500 cents."], 200)
    )
    await using shift = await connect(database.url(), { pool: 4 })
    const running = await worker(shift, { handlers: [agent] })
    const shown = new Map<number, string>()
    const asked: Array<string> = []
    vi.stubGlobal("shift", shift)
    vi.stubGlobal("agent", agent)
    vi.stubGlobal("page", {
      show: (turn: number, text: string) => void shown.set(turn, text),
      ask: (signal: string) => {
        asked.push(signal)
        void decide("1", signal, true, "Ada")
      }
    })
    const run = await shift.start(agent, { id: "1", task: "Refund order A-17" })
    expect(await follow("1")).toBe("Refunded 500 cents.")
    expect([...shown]).toEqual([
      [1, "I look it up."],
      [2, "Refunding."],
      [3, "Refunded 500 cents."]
    ])
    expect(asked).toEqual(["approve c2"])
    expect(refunds).toEqual([[expect.any(String), "A-17"]])
    expect(model.doStreamCalls).toHaveLength(4)
    expect(JSON.stringify(model.doStreamCalls.at(-1)?.prompt)).toContain('"refunded":500')
    const { values } = await run.status()
    expect(values).toMatchObject({ spent: { tokens: 450, turns: 3 } })
    await running.stop()
  }, 60_000)

  it("learns that a person refused, and stops when its budget is spent", async () => {
    const { agent, decide } = await loaded
    vi.stubGlobal("shop", { refund: () => expect.unreachable() })
    scripted(
      () => answer(["Refunding."], 1_000, ["c1", "refund"]),
      () => answer(["Again."], 199_500, ["c2", "refund"])
    )
    await using shift = await connect(database.url(), { pool: 4 })
    vi.stubGlobal("shift", shift)
    vi.stubGlobal("agent", agent)
    const running = await worker(shift, { handlers: [agent] })
    const run = await shift.start(agent, { id: "2", task: "Refund order A-17" })
    await decide("2", "approve c1", false, "Ada")
    await expect(run.result()).rejects.toThrow("the agent has spent 200500 tokens of 200000")
    await running.stop()
  }, 60_000)
})
