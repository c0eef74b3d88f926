import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Console, Effect, Redacted } from "effect"
import pg from "pg"
import * as Cli from "../../src/cli/Cli.js"
import { TelegramEmulator } from "../../src/testing/effect.js"
import * as Nightshift from "../support/Nightshift.js"
import { isLong } from "../support/Scale.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** These run until stopped and print no JSON. */
const services = ["serve", "demo", "mcp"]

/** Output of a command that runs in this process: a hundred processes would take minutes. */
const printed = (...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const inner = yield* Console.consoleWith(Effect.succeed)
    const keep = (...words: ReadonlyArray<unknown>) => Effect.sync(() => void lines.push(words.join(" ")))
    yield* Effect.withConsole(Cli.run(["node", "nightshift", ...args]), { ...inner, log: keep })
    return lines.join("\n")
  })

/** Sets environment variables until the Scope closes. Other tests share this process. */
const environment = (set: Record<string, string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = Object.keys(set).map((name) => [name, process.env[name]] as const)
      Object.assign(process.env, set)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      })
  )

/** Every command's words, as the help lists them. */
const commands = Effect.map(printed("--help"), (help) =>
  [...help.replace(/^[\s\S]*\nCOMMANDS\n|\nEXAMPLES\n[\s\S]*$/g, "").matchAll(/^ {2}(\S+(?: \S+)*) {3,}\S/gm)].map(
    ([, path = ""]) => path
  )
)

/** Command groups: `jobs` of `jobs list`, and every other prefix of several commands. */
const groupsOf = (paths: ReadonlyArray<string>) =>
  new Set(
    paths.flatMap((path) =>
      path
        .split(" ")
        .slice(0, -1)
        .map((_, index, words) => words.slice(0, index + 1).join(" "))
    )
  )

/** Commands in the first column of a table: "`jobs list\\|show <id>`" are two. */
const namedIn = (page: string) =>
  [...page.matchAll(/^\| (`[^|\\]*(?:\\\|[^|\\]*)*`) +\|/gm)].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].flatMap(([, text = ""]) => {
      const words = text.split(/ (?=[<[-])/)[0]?.split(" ") ?? []
      return (words.pop() ?? "").split("\\|").map((last) => [...words, last].join(" "))
    })
  )

describe("every command", () => {
  it.effect("is on the page of commands, which names no other", () =>
    Effect.gen(function* () {
      const page = readFileSync(join(Nightshift.root, "docs/operate/commands.md"), "utf8").split("\n## ")[0] ?? ""
      expect(namedIn(page).toSorted()).toEqual([...(yield* commands)].toSorted())
    })
  )

  it.effect("prints its usage, its purpose and examples in its help, and accepts --json", () =>
    Effect.gen(function* () {
      const paths = yield* commands
      expect(paths.length).toBeGreaterThan(20)
      for (const path of [...paths, ...groupsOf(paths)]) {
        const help = yield* printed(...path.split(" "), "--help")
        expect(help).toContain(`\n$ nightshift ${path}`)
        expect(help, path).toMatch(/\nDESCRIPTION\n\n\S.{10,}\n/)
        const examples = help.split("\nEXAMPLES\n")[1] ?? ""
        expect(examples, path).toContain(`nightshift ${path}`)
        if (!paths.includes(path)) continue
        if (!services.includes(path)) expect(help, path).toContain("\n--json\n")
        for (const [, option] of examples.matchAll(/ (--[a-z-]+)/g)) {
          expect(help, path).toMatch(new RegExp(`\n${option}[ \n]`))
        }
      }
    })
  )

  it.effect("is listed in lines that fit a terminal", () =>
    Effect.gen(function* () {
      for (const help of [yield* printed("--help"), yield* printed("jobs", "--help"), yield* printed()]) {
        expect(help.split("\n").filter((line) => line.length > 120)).toEqual([])
      }
    })
  )

  if (isLong) {
    it.scopedLive(
      "prints JSON that a program can parse against a running service",
      () =>
        Effect.gen(function* () {
          const cwd = yield* Nightshift.folder
          const telegram = yield* TelegramEmulator
          const bots = join(cwd, "bots.yaml")
          writeFileSync(bots, "bots: { helper: { handler: echo, requireAuth: false } }")
          const env = {
            DATABASE_URL: Redacted.value(yield* TestDatabase.migrated),
            NIGHTSHIFT_ADMIN_TOKEN: "sesame",
            NIGHTSHIFT_BOTS: bots,
            BOT_HELPER_TOKEN: "1:helper",
            BOT_HELPER_SECRET: "a-secret-of-the-helper",
            TELEGRAM_API_URL: telegram.url,
            LOG_LEVEL: "error"
          }
          yield* telegram.addBot(env.BOT_HELPER_TOKEN)
          const service = yield* Nightshift.start(["serve", "--port", "0"], { cwd, env })
          const url = (yield* service.said(/"url":"(http:[^"]+)"/))[1] ?? ""
          yield* environment(env)
          yield* Effect.promise(() =>
            fetch(`${url}/api/v1/schedules`, {
              method: "POST",
              headers: { authorization: "Bearer sesame", "content-type": "application/json" },
              body: JSON.stringify({ name: "nightly", kind: "noop_echo", payload: {}, cron: "@daily" })
            })
          )

          const walked: Array<string> = []
          const json = (path: string, ...args: ReadonlyArray<string>) =>
            Effect.gen(function* () {
              walked.push(path)
              const text = yield* printed(...path.split(" "), ...args, "--json")
              return JSON.parse(text)
            })

          const later = yield* json("enqueue", "noop_echo", "--delay", "1h")
          expect(yield* json("jobs list")).toMatchObject({ jobs: [{ id: later.id }] })
          expect(yield* json("jobs show", later.id)).toMatchObject({ id: later.id, state: "scheduled" })
          expect(yield* json("jobs why", later.id)).toMatchObject({ until: expect.any(String) })
          const soon = yield* json("enqueue", "noop_echo", "--delay", "1h", "--queue", "unserved")
          const run = yield* json("jobs run", soon.id)
          expect(run).toMatchObject([{ id: soon.id, job: { state: "pending" }, error: null }])
          expect(yield* json("jobs cancel", later.id)).toMatchObject([{ job: { state: "cancelled" } }])
          expect(yield* json("jobs requeue", "--state", "cancelled")).toMatchObject({ status: "done", done: 1 })
          yield* json("jobs delete", "--state", "dead", "--dry-run")
          const batch = yield* Effect.promise(async () => {
            const request = { jobs: [{ kind: "noop_echo", payload: {}, delay: "1h" }] }
            const headers = { authorization: "Bearer sesame", "content-type": "application/json" }
            const body = JSON.stringify(request)
            const stored = await fetch(`${url}/api/v1/batches`, { method: "POST", headers, body })
            return ((await stored.json()) as { batch: { id: string } }).batch.id
          })
          expect(yield* json("batches list")).toMatchObject({ batches: [{ id: batch, total: 1 }] })
          expect(yield* json("batches show", batch)).toMatchObject({ id: batch, counts: { unfinished: 1 } })
          const execution = "noop_echo/A-17"
          const tagged = ["--tag", "customer=42", "--queue", "unserved", "--force"]
          const started = yield* json("workflows start", "noop_echo", "A-17", ...tagged)
          expect(started).toMatchObject({ execution, outcome: "started" })
          const tags = yield* json("workflows tag", execution, "--set", "vip=yes", "--remove", "none")
          expect(tags).toEqual({ execution, tags: { customer: "42", vip: "yes" } })
          const filter = ["--tag", "customer=42", "--tag", "vip=yes", "--since", "2000-01-01T00:00:00Z", "--roots"]
          expect(yield* json("workflows list", ...filter)).toMatchObject({
            executions: [{ execution, state: "pending" }]
          })
          expect(yield* json("workflows signal", execution, "go")).toMatchObject({ outcome: "completed" })
          yield* Effect.promise(async () => {
            const client = new pg.Client({ connectionString: env.DATABASE_URL })
            await client.connect()
            await client.query(`insert into nightshift.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit,
              started_at, ended_at) values ('${started.id}', 'pay', 1, 1, 'stream', 'done', '{}', now(), now())`)
            await client.query(`insert into nightshift.workflow_stream (job_id, name, generation, attempt, started_at)
              values ('${started.id}', 'pay', 1, 1, now())`)
            await client.query(`insert into nightshift.workflow_chunk (job_id, name, generation, number, count, bytes, chunks)
              values ('${started.id}', 'pay', 1, 0, 1, 3, '["a"]')`)
            await client.query(`insert into nightshift.workflow_deferred (execution, kind, name, created_at, completed_at, exit)
              values ('${execution}', 'ask', 'total/1', now(), now(), '{"name": "total", "value": null, "answer": {"value": 3}}')`)
            await client.end()
          })
          expect(yield* json("workflows show", execution)).toMatchObject({ id: started.id, steps: [{ name: "pay" }] })
          expect(yield* json("workflows stream", execution, "pay")).toMatchObject({ id: "1-0", value: "a" })
          expect(yield* json("workflows ask", execution, "total", "--id", "1")).toEqual({ execution, answer: 3 })
          expect(yield* json("workflows unpin", execution)).toEqual({ unpinned: 0 })
          expect(yield* json("workflows fork", execution, "pay", "--as", "B")).toMatchObject({ execution: "B" })
          expect(yield* json("workflows cancel", execution, "--now")).toEqual({ execution, cancelled: 1 })
          expect(yield* json("workflows retry", execution)).toMatchObject({ state: "pending" })
          yield* Effect.promise(async () => {
            const client = new pg.Client({ connectionString: env.DATABASE_URL })
            await client.connect()
            await client.query(`insert into nightshift.subscription (event, kind, created_at, updated_at)
              values ('order.paid', 'noop_echo', now(), now())`)
            await client.end()
          })
          const subscriber = "noop_echo"
          const published = yield* json("publish", "order.paid", "--data", '{"order":17}')
          expect(published).toMatchObject({ outcome: "published", jobs: 1 })
          expect(yield* json("events list")).toMatchObject({ events: [{ id: published.id }] })
          expect(yield* json("events show", published.id)).toMatchObject({ jobs: [{ subscriber }] })
          yield* json("events replay", published.id, subscriber)
          expect(yield* json("events subscribers")).toMatchObject({
            subscriptions: [{ event: "order.paid", subscriber }]
          })
          yield* json("events unsubscribe", "order.paid", subscriber)
          const address = "https://customer.example.org/hooks"
          const { id: endpoint } = yield* json("endpoints create", address, "--customer", "acme")
          expect(yield* json("endpoints list")).toMatchObject({ endpoints: [{ id: endpoint, standing: "healthy" }] })
          expect(yield* json("endpoints show", endpoint)).toMatchObject({ customer: "acme", url: address })
          expect(yield* json("endpoints change", endpoint, "--type", "order.paid")).toMatchObject({
            types: ["order.paid"]
          })
          const bothTypes = ["--type", "order.paid", "--all-types"]
          expect(yield* Effect.flip(printed("endpoints", "change", endpoint, ...bothTypes))).toMatchObject({
            message: "Use --type or --all-types, not both."
          })
          expect(yield* json("endpoints rotate", endpoint)).toMatchObject({ secret: expect.stringMatching(/^whsec_/) })
          expect(yield* json("endpoints disable", endpoint)).toMatchObject({ disabledBecause: "operator" })
          expect(yield* json("endpoints send", "order.paid", "--customer", "acme")).toMatchObject({
            sent: [{ endpoint, outcome: "enqueued" }]
          })
          yield* json("endpoints resend", endpoint, "--dry-run")
          const since = ["--since", "2026-01-31T09:00:00Z"]
          expect(yield* Effect.flip(printed("endpoints", "enable", endpoint, ...since))).toMatchObject({
            message: "Use --since with --resend."
          })
          expect(yield* json("endpoints enable", endpoint)).toMatchObject({ standing: "healthy" })
          yield* json("endpoints delete", endpoint)
          expect(yield* json("queues pause", "default")).toMatchObject({ paused: true })
          expect(yield* json("queues resume", "default")).toMatchObject({ paused: false })
          expect(yield* json("queues scale", "default", "7")).toMatchObject({ maxWorkers: 7 })
          expect(yield* json("queues list")).toMatchObject({
            queues: [{ name: "default" }, { name: "unserved" }, { name: "webhooks" }]
          })
          expect(yield* json("keys")).toEqual({ keys: [] })
          expect(yield* json("erase", "--subject", "customer:42")).toMatchObject({})
          expect(yield* json("schedules list")).toMatchObject({ schedules: [{ name: "nightly" }] })
          yield* json("schedules next", "nightly")
          for (const act of ["trigger", "pause", "resume"]) {
            expect(yield* json(`schedules ${act}`, "nightly")).toMatchObject([{ name: "nightly", error: null }])
          }
          expect(yield* json("schedules history", "nightly")).toMatchObject({ runs: [{ outcome: "triggered" }] })
          const { id, token } = yield* json("uploads tokens create", "--workspace", "acme")
          const form = new FormData()
          form.append("files", new Blob(["hello"]), "hello.txt")
          const headers = { authorization: `Bearer ${token}` }
          yield* Effect.promise(() => fetch(`${url}/uploads/acme`, { method: "POST", headers, body: form }))
          yield* environment({ UPLOADS_TOKEN: token })
          const inbox = ["--into", join(cwd, "inbox"), "--url", url, "--once"]
          expect(yield* json("uploads pull", "--workspace", "acme", ...inbox)).toMatchObject({ name: "hello.txt" })
          expect(yield* json("uploads tokens list", "--workspace", "acme")).toMatchObject({ tokens: [{ id }] })
          yield* json("uploads tokens revoke", id, "--workspace", "acme")
          yield* json("bots set-webhook", "helper", "--url", "https://bots.example.org")
          expect(yield* json("bots info")).toMatchObject([{ bot: "helper", error: null }])
          expect(yield* json("migrate")).toEqual({ applied: [] })
          expect(yield* json("migrate", "--dry-run")).toMatchObject({ pending: [] })
          expect(yield* json("doctor")).toMatchObject({ ok: true })
          yield* json("simulate", "--runs", "1")
          const brief = ["--url", url, "--allow", "cancel", "--each", "200ms", "--yes"]
          expect(yield* json("chaos", ...brief)).toMatchObject({ ok: true, faults: [{ fault: "cancel" }] })
          const wrong = environment({ NIGHTSHIFT_ADMIN_TOKEN: "wrong" })
          const refused = yield* Effect.flip(Effect.scoped(Effect.zipRight(wrong, printed("chaos", ...brief))))
          expect(refused).toMatchObject({
            message: expect.stringMatching(/session: 401 The token is not valid\. [^{}]+\w\.$/)
          })
          expect(yield* json("init", join(cwd, "my-jobs"))).toMatchObject({ folder: join(cwd, "my-jobs") })
          expect(yield* json("config")).toContainEqual(expect.objectContaining({ key: "PORT" }))
          yield* environment({ NIGHTSHIFT_FLEET: JSON.stringify({ cells: { main: { database: env.DATABASE_URL } } }) })
          expect(yield* json("fleet list")).toMatchObject([{ name: "main", queues: ["all others"] }])
          expect(yield* json("fleet doctor")).toMatchObject({ ok: true })
          yield* json("fleet move", "default", "--dry-run")

          expect(new Set(walked)).toEqual(new Set((yield* commands).filter((path) => !services.includes(path))))
        }).pipe(Effect.provide(TelegramEmulator.layer())),
      120_000
    )
  }
})
