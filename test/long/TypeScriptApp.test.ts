import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** A user's project without "type": "module" and without a build step. */
const project = (files: Readonly<Record<string, string>>) =>
  Effect.tap(Nightshift.folder, (cwd) => {
    mkdirSync(join(cwd, "node_modules"))
    symlinkSync(Nightshift.root, join(cwd, "node_modules", "nightshift"))
    symlinkSync(join(Nightshift.root, "node_modules", "effect"), join(cwd, "node_modules", "effect"))
    writeFileSync(join(cwd, "package.json"), '{ "name": "shop" }')
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(join(cwd, name, ".."), { recursive: true })
      writeFileSync(join(cwd, name), text)
    }
  })

const jobs = `
import { Effect } from "effect"
import { Handler } from "nightshift"
import { Greet, Greeting } from "./kinds/greet.js"
import { Tone } from "@words/tone"
import * as main from "effect/Effect"

class Speaker {
  constructor(private readonly tone: Tone) {}
  say(greeting: Greeting): string {
    return \`hello \${greeting.name}\${this.tone}\`
  }
}

export const handlers = [
  Handler.make(Greet, (greeting) => {
    using _closed = { [Symbol.dispose]() {} }
    return Effect.sync(() => console.log(new Speaker(Tone.loud).say(greeting satisfies Greeting), Effect.gen === main.gen))
  })
]
`

const greet = `
import { Schema } from "effect"
import { Job } from "nightshift"
const payload = Schema.Struct({ name: Schema.String })
export interface Greeting extends Schema.Schema.Type<typeof payload> {}
export const Greet = Job.make("greet", { payload })
`

describe("nightshift serve --app with TypeScript", () => {
  it.scopedLive(
    "runs handlers from several files, with path aliases and syntax that needs compiling, without configuration",
    () =>
      Effect.gen(function* () {
        const cwd = yield* project({
          "jobs.ts": jobs,
          "kinds/greet.ts": greet,
          "words/tone.ts": 'export enum Tone { loud = "!" }',
          "tsconfig.json": '{ "compilerOptions": { "paths": { "@words/*": ["./words/*"] } } }'
        })
        const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
        const service = yield* Nightshift.start(["serve", "--app", "./jobs.ts", "--port", "0"], { cwd, env })
        yield* service.said(/is up/)
        const args = ["enqueue", "greet", "--payload", '{"name": "Ada"}']
        expect(yield* Nightshift.run(args, { cwd, env })).toMatchObject({ code: 0 })
        expect((yield* service.said(/hello .*/))[0]).toBe("hello Ada! true")
      })
  )

  it.scopedLive("shows the file, line, column and source line of a syntax error, and no stack trace", () =>
    Effect.gen(function* () {
      const cwd = yield* project({
        "jobs.ts": 'import "./broken.js"\nexport const handlers = []\n',
        "broken.ts": "// Grüße 😀\nexport const answer: number =\n  const other = 3\n"
      })
      const { code, stderr } = yield* Nightshift.run(["serve", "--app=./jobs.ts"], { cwd })
      expect(code).toBe(1)
      expect(stderr).toBe(
        [
          "nightshift: Cannot load the app ./jobs.ts: it does not compile.",
          `${join(cwd, "broken.ts")}:3:3: Unexpected token`,
          "  3 |   const other = 3",
          "    |   ^^^^^",
          ""
        ].join("\n")
      )
    })
  )
})
