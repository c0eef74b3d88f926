// The commands and programs of the first steps. Tests run them as they are shown.

interface Example {
  readonly kind: string
  readonly payload: unknown
  /** Whether the kind is not registered, so that the API would refuse it. */
  readonly force: boolean
}

/** Text as one word of a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

export const commands = { demo: "npx nightshift demo" }

const program = (lines: ReadonlyArray<string>) => lines.join("\n")

/** Ways to start a worker. */
export const workerTexts: Readonly<Record<string, string>> = {
  "jobs.ts": program([
    'import { job } from "nightshift/client"',
    'import { z } from "zod"',
    "",
    'export const greet = job("greet", { payload: z.object({ name: z.string() }) })',
    "",
    'export const handlers = [greet.handle(async ({ name }) => ({ said: "hello " + name }))]'
  ]),
  "In this service": "npx nightshift serve --app ./jobs.ts",
  "In your program": program([
    'import { connect, worker } from "nightshift/client"',
    'import { handlers } from "./jobs.js"',
    "",
    "const shift = await connect()   // reads DATABASE_URL",
    "await worker(shift, { handlers })"
  ]),
  "New project": program([
    "npx nightshift init my-jobs",
    "cd my-jobs && npm install",
    "npm run dev   # a service with its own database; npm start uses DATABASE_URL"
  ])
}

/** Ways to enqueue a job, at the address of this service. */
export const enqueueTexts = (url: string, { force, kind, payload }: Example): Readonly<Record<string, string>> => {
  const json = JSON.stringify(payload)
  const body = JSON.stringify({ kind, payload, ...(force ? { force } : {}) })
  return {
    curl: program([
      `curl -X POST ${quoted(url)} \\`,
      `  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\`,
      `  -d ${quoted(body)}`
    ]),
    "Command line": `npx nightshift enqueue ${quoted(kind)} --payload ${quoted(json)}${force ? " --force" : ""}`,
    TypeScript: program([
      'import { connect, job } from "nightshift/client"',
      'import { z } from "zod"',
      "",
      `const task = job(${JSON.stringify(kind)}, { payload: z.any() })`,
      "const shift = await connect()   // reads DATABASE_URL",
      `await shift.enqueue(task, ${json})`,
      "await shift.close()"
    ])
  }
}
