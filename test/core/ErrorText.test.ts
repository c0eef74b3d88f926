import { describe, expect, it } from "@effect/vitest"
import { Cause, Data } from "effect"
import * as v from "valibot"
import { z } from "zod"
import * as ErrorText from "../../src/core/ErrorText.js"
import { limits } from "../../src/core/StoredJob.js"

/** An error with these frames. */
const thrown = (message: string, frames: ReadonlyArray<string>, cause?: unknown): Error => {
  const error = new Error(message, cause === undefined ? undefined : { cause })
  error.stack = [`Error: ${message}`, ...frames.map((frame) => `    at ${frame}`)].join("\n")
  return error
}

class NoStock extends Data.TaggedError("NoStock")<{ readonly message: string; readonly cause?: unknown }> {}

describe("the text of a failure", () => {
  it("is the message, then the frames of the program", () => {
    const frames = [
      "charge (/app/src/charge.ts:3:9)",
      "async /app/src/jobs.ts:12:3",
      "process.processTicksAndRejections (node:internal/process/task_queues:105:5)",
      "async file:///app/node_modules/nightshift/dist/chunks/x.js:1:2",
      "run (/app/node_modules/.pnpm/effect@3/node_modules/effect/dist/esm/internal/fiberRuntime.js:1:2)",
      "file:///nightshift/dist/main.js:3:1",
      "Client.query (/app/node_modules/pg/lib/client.js:5:1)"
    ]
    expect(ErrorText.ofFailure(thrown("card declined", frames))).toBe(
      [
        "card declined",
        "    at charge (/app/src/charge.ts:3:9)",
        "    at async /app/src/jobs.ts:12:3",
        "    at Client.query (/app/node_modules/pg/lib/client.js:5:1)"
      ].join("\n")
    )
  })

  it("of a validator is one line with the paths, not the JSON of its message", () => {
    const failureOf = (run: () => unknown) => {
      try {
        run()
      } catch (error) {
        return ErrorText.split(ErrorText.ofFailure(error)).message
      }
      return "nothing was thrown"
    }
    const order = { id: "7", items: [{ price: "much" }] }
    const zod = z.object({ id: z.number(), items: z.array(z.object({ price: z.number() })) })
    expect(failureOf(() => zod.parse(order))).toMatch(/^ZodError: id: .*number.*; items\[0\]\.price: .*number/)
    expect(failureOf(() => z.string().parse(7))).toMatch(/^ZodError: Invalid input: expected string/)
    const valibot = v.object({ id: v.number(), items: v.array(v.object({ price: v.number() })) })
    expect(failureOf(() => v.parse(valibot, order))).toMatch(/^ValiError: id: Invalid type/)
    const odd = Object.assign(new Error("three issues are open"), { issues: [1, 2, 3] })
    expect(ErrorText.messageOf(odd)).toBe("three issues are open")
  })

  it("has the causes, each once, and the errors of an AggregateError", () => {
    const root = thrown("refused", ["connect (/app/net.ts:1:1)"])
    const all = new AggregateError([root, "text"], "all failed")
    all.stack = "AggregateError: all failed\n    at Array.map (<anonymous>)"
    const outer = thrown("no database", ["open (/app/db.ts:2:2)"], all)
    root.cause = outer
    expect(ErrorText.ofFailure(outer).split("\n")).toEqual([
      "no database",
      "    at open (/app/db.ts:2:2)",
      "Caused by: AggregateError: all failed",
      "Caused by: Error: refused",
      "    at connect (/app/net.ts:1:1)",
      "Caused by: text"
    ])
  })

  it("has no frames for a tagged error, but its causes", () => {
    expect(ErrorText.ofFailure(new NoStock({ message: "none left" }))).toBe("NoStock: none left")
    const cause = thrown("timeout", ["get (/app/stock.ts:1:1)"])
    expect(ErrorText.ofFailure(new NoStock({ message: "unknown", cause }))).toBe(
      "NoStock: unknown\nCaused by: Error: timeout\n    at get (/app/stock.ts:1:1)"
    )
  })

  it("is only the message of values that are no errors, and of errors that cannot be read", () => {
    expect(ErrorText.ofFailure("text")).toBe("text")
    expect(ErrorText.ofFailure({ code: 7 })).toBe('{"code":7}')
    const hostile = Object.defineProperty(new Error("hostile"), "stack", {
      get: () => {
        throw new Error("no stack")
      }
    })
    expect(ErrorText.ofFailure(hostile)).toBe("hostile")
  })

  it("takes frames only from below the message, which may contain lines like them", () => {
    const remote = "remote failed\n    at remote (/srv/other.js:1:1)"
    const text = ErrorText.ofFailure(thrown(remote, ["local (/app/a.ts:1:1)"]))
    expect(text).toBe(`${remote}\n    at local (/app/a.ts:1:1)`)
  })

  it("has whole lines, up to the limit", () => {
    const secret = "s".repeat(limits.traceCharacters)
    const frames = Array.from({ length: 30 }, (_, index) => `f${index} (/app/${"x".repeat(800)}.ts:1:1)`)
    const text = ErrorText.ofFailure(thrown("deep", frames, new Error(secret)))
    expect(text.length).toBeLessThanOrEqual(limits.traceCharacters + "deep\n".length)
    expect(text).not.toContain("sss")
    expect(
      text
        .split("\n")
        .slice(1)
        .every((line) => line.endsWith(".ts:1:1)"))
    ).toBe(true)
  })
})

describe("the text of defects", () => {
  it("names each error and its causes", () => {
    const cause = thrown("root", ["b (/app/b.ts:1:1)"])
    const text = ErrorText.ofDefects(Cause.die(thrown("a bug", ["a (/app/a.ts:1:1)"], cause)))
    expect(text).toBe("Error: a bug\n    at a (/app/a.ts:1:1)\nCaused by: Error: root\n    at b (/app/b.ts:1:1)")
    expect(ErrorText.ofDefects(Cause.parallel(Cause.die("one"), Cause.die("two")))).toBe(
      "Error: one\nCaused by: Error: two"
    )
  })
})

describe("a stored text", () => {
  it("is divided into message and trace", () => {
    expect(ErrorText.split("two\nlines")).toEqual({ message: "two\nlines", trace: undefined })
    expect(ErrorText.split("two\nlines\n    at a\nCaused by: b")).toEqual({
      message: "two\nlines",
      trace: "    at a\nCaused by: b"
    })
    expect(ErrorText.withLine("no\n    at a", "more")).toBe("no\nmore\n    at a")
  })

  it("keeps its trace if the message is too long", () => {
    const text = ErrorText.shortened(`${"m".repeat(10_000)}\n    at a (/app/a.ts:1:1)`)
    expect(text).toBe(`${"m".repeat(limits.errorCharacters)}\n    at a (/app/a.ts:1:1)`)
  })
})
