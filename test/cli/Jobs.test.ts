import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const missingId = "0198c0de-0000-7000-8000-00000000dead"
const missingJob = `nightshift: There is no job ${missingId}. It was deleted or its retention expired, the transaction that enqueued it was rolled back or is not committed yet, or the id is wrong.\n`

/** The command line on its own database. */
const workplace = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
  return { cwd, env, run: (...args: ReadonlyArray<string>) => Nightshift.call(args, { cwd, env }) }
})

const idOf = ({ stdout }: Nightshift.Finished) => stdout.trim().split(" ")[1] ?? ""

describe("nightshift enqueue", () => {
  it.scopedLive("stores a job with the given options, once per dedupe key, and reports which", () =>
    Effect.gen(function* () {
      const { cwd, run } = yield* workplace
      writeFileSync(join(cwd, "order.json"), '{"order": 7}\n')
      const options = ["--queue", "mail", "--priority=-3", "--dedupe", "daily", "--key", "ada", "--attempts", "2"]
      const meta = ["--meta", '{"order":"A-17"}']
      const first = yield* run(
        "enqueue",
        "greet",
        "--force",
        "--payload-file",
        "order.json",
        "--delay",
        "1h",
        ...meta,
        ...options
      )
      expect(first).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/^enqueued [0-9a-f-]{36}\n$/) })
      const again = yield* run("enqueue", "greet", "--force", "--json", "--dedupe", "daily")
      expect(JSON.parse(again.stdout)).toEqual({ id: idOf(first), outcome: "deduplicated" })
      const shown = yield* run("jobs", "show", idOf(first), "--json")
      expect(JSON.parse(shown.stdout)).toMatchObject({
        kind: "greet",
        queue: "mail",
        state: "scheduled",
        payload: { order: 7 },
        priority: -3,
        attempts: 2,
        dedupe: { key: "daily", scope: "active" },
        key: "ada",
        meta: { order: "A-17" }
      })
      const replace = ["--dedupe-replace", "--payload", '{"order": 8}']
      const replaced = yield* run(
        "enqueue",
        "greet",
        "--force",
        "--dedupe",
        "daily",
        "--dedupe-window",
        "1h",
        ...replace
      )
      expect(replaced.stdout).toBe(`deduplicated ${idOf(first)}\n`)
      const now = yield* run("jobs", "show", idOf(first), "--json")
      expect(JSON.parse(now.stdout)).toMatchObject({ payload: { order: 8 }, dedupe: { scope: "active" } })
      const lost = yield* run("enqueue", "greet", "--force", "--payload", '{"ids":[1,9007199254740993]}')
      expect(lost.code).not.toBe(0)
      expect(lost.stderr).toContain(
        '--payload has a number at ids[1] that is 9007199254740993, which a 64-bit float cannot hold (it would arrive as 9007199254740992): write the JSON string "9007199254740993".'
      )
    })
  )

  it.scopedLive("reads a payload from standard input", () =>
    Effect.gen(function* () {
      const { cwd, env, run } = yield* workplace
      const pipe = (input: string, ...args: ReadonlyArray<string>) => {
        const command = join(Nightshift.root, "dist", "nightshift.js")
        return spawnSync(process.execPath, [command, "enqueue", "greet", "--force", ...args], {
          cwd,
          env,
          input,
          encoding: "utf8"
        })
      }
      const { stdout } = pipe('{"name":"Ada"}\n', "--payload", "-", "--json")
      const shown = yield* run("jobs", "show", JSON.parse(stdout).id, "--json")
      expect(JSON.parse(shown.stdout).payload).toEqual({ name: "Ada" })
      const refused = pipe("", "--payload-file", "-")
      expect(refused).toMatchObject({ status: 2, stdout: "" })
      expect(refused.stderr).toMatch(/^nightshift: Standard input is not valid JSON: [^\n]+\n$/)
      // PowerShell writes a byte order mark, older programs of Windows write Latin-1.
      writeFileSync(join(cwd, "marked.json"), '\uFEFF{"name":"José"}')
      const marked = yield* run("enqueue", "greet", "--force", "--payload-file", "marked.json", "--json")
      const kept = yield* run("jobs", "show", JSON.parse(marked.stdout).id, "--json")
      expect(JSON.parse(kept.stdout).payload).toEqual({ name: "José" })
      writeFileSync(join(cwd, "latin1.json"), '{"name":"José"}', "latin1")
      const latin1 = yield* run("enqueue", "greet", "--force", "--payload-file", "latin1.json")
      const reason = "nightshift: Cannot read the payload from latin1.json: it is not valid UTF-8.\n"
      expect(latin1).toMatchObject({ code: 2, stdout: "", stderr: reason })
    })
  )

  it.scopedLive("refuses an unregistered kind and an invalid job with a one-line error", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      const refusals: ReadonlyArray<readonly [args: ReadonlyArray<string>, says: RegExp]> = [
        [["greet"], /^nightshift: No process has ever registered the kind "greet"\. [^\n]*--force\.\n$/],
        [["greet", "--force", "--priority", "40000"], /^nightshift: --priority must be a whole number[^\n]+\n$/],
        [["greet", "--force", "--attempts", "0"], /^nightshift: --attempts must be [^\n]+\n$/],
        [["greet", "--force", "--queue", "a b"], /^nightshift: --queue must be [^\n]+\n$/],
        [["greet", "--force", "--payload", '"\\u0000"'], /^nightshift: --payload must not contain NUL[^\n]+\n$/],
        [["", "--force"], /^nightshift: The kind must not be empty\.\n$/]
      ]
      for (const [args, says] of refusals) {
        const refused = yield* run("enqueue", ...args)
        expect(refused).toMatchObject({ code: 2, stdout: "" })
        expect(refused.stderr).toMatch(says)
      }
      expect((yield* run("jobs", "list")).stdout).toBe("No jobs yet. Enqueue one with `nightshift enqueue`.\n")
    })
  )
})

describe("nightshift jobs", () => {
  it.scopedLive("lists pages as text and as JSON", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      const ids: Array<string> = []
      for (const kind of ["one", "two\u001b[31m", "three"]) ids.unshift(idOf(yield* run("enqueue", kind, "--force")))
      const table = yield* run("jobs", "list", "--limit", "2")
      expect(table.code).toBe(0)
      const [heading, , ...rows] = table.stdout.split("\n")
      expect(heading).toMatch(/^ID +STATE +KIND +QUEUE +ATTEMPT +CREATED +DUE$/)
      expect(rows[0]).toMatch(new RegExp(`^${ids[0]}  pending  three +default  0/5 +(now|\\d+ s ago) `))
      expect(rows[1]).toContain("two\\u{1b}[31m")
      const cursor = /^More: add --cursor (\S+)$/m.exec(table.stdout)?.[1] ?? ""
      expect((yield* run("jobs", "list", "--cursor", "elsewhere")).code).toBe(2)
      const rest = yield* run("jobs", "list", "--cursor", cursor, "--json")
      expect(JSON.parse(rest.stdout)).toMatchObject({ jobs: [{ id: ids[2], kind: "one" }], next: null })
      const none = yield* run("jobs", "list", "--state", "dead", "--queue", "default", "--kind", "one", "--json")
      expect(JSON.parse(none.stdout)).toEqual({ jobs: [], next: null })
    })
  )

  it.scopedLive(
    "cancels and requeues several jobs; a failure prints one line, sets the exit code and does not stop the rest",
    () =>
      Effect.gen(function* () {
        const { run } = yield* workplace
        const [first, second] = [
          idOf(yield* run("enqueue", "a", "--force")),
          idOf(yield* run("enqueue", "b", "--force"))
        ]
        const cancelled = yield* run("jobs", "cancel", first, missingId, second)
        expect(cancelled).toMatchObject({
          code: 1,
          stdout: `cancelled ${first}\ncancelled ${second}\n`,
          stderr: missingJob
        })
        const shown = yield* run("jobs", "show", first)
        expect(shown.stdout).toMatch(/^state +cancelled$/m)
        expect(yield* run("jobs", "requeue", first, second)).toMatchObject({ code: 0, stderr: "" })
        const refused = yield* run("jobs", "requeue", "--json", first)
        expect(refused.code).toBe(1)
        expect(JSON.parse(refused.stdout)).toMatchObject([{ id: first, job: null, error: { tag: "JobNotInState" } }])
        const missing = yield* run("jobs", "show", missingId)
        expect(missing).toMatchObject({ code: 1, stdout: "", stderr: missingJob })
      })
  )

  it.scopedLive("prints a multi-line error as lines and escapes terminal control sequences in it", () =>
    Effect.gen(function* () {
      const { env, run } = yield* workplace
      const id = idOf(yield* run("enqueue", "greet", "--force", "--payload", '{"note":"one\\ntwo"}'))
      const error = "Error: no reply\n\tat send (mail.ts:7)\r\nstate          done\n\u001b[31mred"
      const history = [{ pod: id, attempt: 1, startedAt: 0, endedAt: 0, outcome: "retry", message: error }]
      yield* Effect.promise(async () => {
        const client = new pg.Client({ connectionString: env.DATABASE_URL })
        await client.connect()
        await client.query("update nightshift.job set last_error = $1, history = $2", [error, JSON.stringify(history)])
        await client.end()
      })
      const shown = yield* run("jobs", "show", id)
      expect(shown).toMatchObject({ code: 0, stderr: "" })
      const lines = shown.stdout.split("\n")
      // A payload is JSON on one line, with its line breaks escaped.
      expect(lines).toContain('payload        {"note":"one\\ntwo"}')
      const at = lines.indexOf("last error     Error: no reply")
      expect(lines.slice(at, at + 4)).toEqual([
        "last error     Error: no reply",
        "                 at send (mail.ts:7)",
        "               state          done",
        "               \\u{1b}[31mred"
      ])
      const past = lines.findIndex((line) => line.startsWith("  attempt 1: retry"))
      expect(lines.slice(past + 1, past + 4)).toEqual([
        "      at send (mail.ts:7)",
        "    state          done",
        "    \\u{1b}[31mred"
      ])
      expect(shown.stdout).not.toMatch(/\\u\{[ad]\}/)
      const parsed = JSON.parse((yield* run("jobs", "show", id, "--json")).stdout)
      expect(parsed.lastError).toBe(error)
    })
  )

  it.scopedLive("prints the stack trace of the last error once, and those of earlier attempts", () =>
    Effect.gen(function* () {
      const { env, run } = yield* workplace
      const id = idOf(yield* run("enqueue", "greet", "--force"))
      const [earlier, last] = ["refused\n    at connect (/app/net.ts:3)", "no reply\n    at send (/app/mail.ts:7)"]
      const entryOf = (message: string | undefined, index: number) => ({
        pod: id,
        attempt: index + 1,
        startedAt: 0,
        endedAt: 0,
        outcome: "failed",
        message
      })
      yield* Effect.promise(async () => {
        const client = new pg.Client({ connectionString: env.DATABASE_URL })
        await client.connect()
        const history = JSON.stringify([earlier, last].map(entryOf))
        await client.query("update nightshift.job set last_error = $1, history = $2", [last, history])
        await client.end()
      })
      const { stdout } = yield* run("jobs", "show", id)
      expect(stdout).toMatch(/^last error {5}no reply\n {19}at send \(\/app\/mail\.ts:7\)$/m)
      expect(stdout).toMatch(
        /attempt 1: failed after \d.* on .*: refused\n {8}at connect \(\/app\/net\.ts:3\)\n {2}attempt 2/
      )
      expect(stdout.match(/at send/g)).toHaveLength(1)
    })
  )

  it.scopedLive("explains why a job is not running, as text and as JSON", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      const later = idOf(yield* run("enqueue", "two\u001b[31m", "--force", "--delay", "1h"))
      const said = yield* run("jobs", "why", later)
      expect(said).toMatchObject({ code: 0, stderr: "" })
      expect(said.stdout).toMatch(
        /^not_due, until \S+Z \(in (59 min( \d+ s)?|1 h)\)\nIt is scheduled for later\. [^\n]+\n$/
      )
      const now = idOf(yield* run("enqueue", "two\u001b[31m", "--force"))
      const why = JSON.parse((yield* run("jobs", "why", now.toUpperCase(), "--json")).stdout)
      expect(why).toEqual({
        reason: "no_pod",
        detail: expect.stringContaining('No live process serves queue "default"')
      })
      expect(yield* run("jobs", "why", missingId)).toMatchObject({
        code: 1,
        stderr: missingJob
      })
    })
  )

  it.scopedLive("acts on every job of a filter after showing the matches, and writes an audit entry", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      for (const kind of ["a", "a", "b"]) yield* run("enqueue", kind, "--force", "--delay", "1h")
      const shown = yield* run("jobs", "cancel", "--kind", "a", "--dry-run")
      expect(shown).toMatchObject({ code: 0, stderr: "" })
      expect(shown.stdout).toMatch(
        /^cancel matches 2 jobs\.\n\nID +STATE[^\n]+\n[- ]+\n(\S+ +scheduled +a [^\n]+\n){2}$/
      )
      const cancelled = yield* run("jobs", "cancel", "--kind", "a", "--kind", "c", "--reason", "a mistake")
      expect(cancelled).toMatchObject({ code: 0, stdout: "cancelled 2 jobs\n", stderr: "" })
      const preview = yield* run("jobs", "requeue", "--state", "cancelled", "--dry-run", "--json")
      expect(JSON.parse(preview.stdout)).toMatchObject({ matched: { count: 2, exact: true }, sample: [{}, {}] })
      const requeued = yield* run("jobs", "requeue", "--dead-reason", "cancelled", "--json")
      expect(JSON.parse(requeued.stdout)).toMatchObject({ action: "requeue", status: "done", done: 2, skipped: {} })
      expect(yield* run("jobs", "delete", "--queue", "default")).toMatchObject({ code: 0, stdout: "deleted 3 jobs\n" })
      const refused = yield* run("jobs", "requeue", "--state", "running")
      expect(refused).toMatchObject({ code: 2, stdout: "" })
      expect(refused.stderr).toMatch(
        /^nightshift: --state must be one of done, dead, cancelled, got "running"\. See `nightshift jobs requeue --help`\.\n$/
      )
    })
  )

  it.scopedLive("reports the skipped jobs, their reasons and a non-zero exit code", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      const first = idOf(yield* run("enqueue", "a", "--force", "--dedupe", "k"))
      yield* run("jobs", "cancel", first)
      yield* run("enqueue", "a", "--force", "--dedupe", "k")
      const refused = yield* run("jobs", "requeue", "--state", "cancelled")
      expect(refused).toMatchObject({
        code: 1,
        stdout: "requeued 0 jobs\n",
        stderr: "nightshift: 1 skipped: dedupe key held.\n"
      })
      expect(yield* run("jobs", "delete", first)).toMatchObject({ code: 0, stdout: `deleted ${first}\n` })
    })
  )

  it.scopedLive("says that the schema does not exist yet, and which command creates it", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.empty) }
      const refused = yield* Nightshift.call(["jobs", "list"], { cwd, env })
      expect(refused).toMatchObject({ code: 1, stdout: "" })
      expect(refused.stderr).toMatch(/^nightshift: [^\n]+ not applied\. Run `nightshift migrate`\.\n$/)
    })
  )
})

describe("a bulk command that is interrupted", () => {
  it.scopedLive("says that its operation is completed anyway", () =>
    Effect.gen(function* () {
      const { cwd, env, run } = yield* workplace
      yield* run("enqueue", "greet", "--force")
      const client = new pg.Client({ connectionString: env.DATABASE_URL })
      const query = (sql: string) => Effect.promise(() => client.query(sql))
      yield* Effect.promise(() => client.connect())
      yield* Effect.addFinalizer(() => Effect.promise(() => client.end()))
      yield* query("begin; lock table nightshift.job in exclusive mode")
      const cancelling = yield* Nightshift.start(["jobs", "cancel", "--kind", "greet"], { cwd, env })
      const waiting = "select 1 from pg_locks where not granted and relation = 'nightshift.job'::regclass"
      yield* Effect.repeat(query(waiting), { until: ({ rowCount }) => rowCount !== 0 })
      yield* cancelling.signal("SIGINT")
      const [, id] = yield* cancelling.said(
        /^nightshift: Interrupted\. A running process completes operation (\S+)\.$/m
      )
      yield* query("rollback")
      expect(yield* cancelling.finished).toMatchObject({ code: 0, stdout: "" })
      expect((yield* query("select id, status from nightshift.operation")).rows).toEqual([{ id, status: "running" }])
    })
  )
})

describe("an invalid jobs command line", () => {
  it.scopedLive.each([
    [["enqueue"], /The argument <kind> is required\. See `nightshift enqueue --help`\./],
    [["enqueue", "greet", "--delay", "-5s"], /--delay must be a duration/],
    [["enqueue", "greet", "--delay", "soon"], /--delay must be a duration/],
    [["enqueue", "greet", "--run-at", "tomorrow"], /--run-at must be an RFC 3339/],
    [["enqueue", "greet", "--run-at", "2026-01-31T09:00:00Z", "--delay", "5m"], /not both/],
    [["enqueue", "greet", "--payload", "1", "--payload-file", "x"], /not both/],
    [["enqueue", "greet", "--payload", "{"], /--payload is not valid JSON/],
    [["enqueue", "greet", "--payload-file", "nowhere.json"], /nowhere\.json/],
    [["enqueue", "greet", "--meta", "[1]"], /--meta must be a JSON object like \{"order":"A-17"\}, got "\[1\]"/],
    [
      ["enqueue", "greet", "--meta", '{"n":9007199254740993}'],
      /--meta has a number at n that is 9007199254740993, which/
    ],
    [["workflows", "signal", "a/b", "go", "--value", '{"n":[-0]}'], /--value has a number at n\[0\] that is -0, which/],
    [["workflows", "start", "a", "b", "--payload", "["], /--payload is not valid JSON: /],
    [["workflows", "start", "a", "b", "--payload", "9007199254740993"], /--payload has a number that is 9007/],
    [["enqueue", "greet", "--id", "seven"], /--id must be a UUID/],
    [["enqueue", "greet", "--dedupe-scope", "ever"], /--dedupe-scope must be one of active, retained, got "ever"/],
    [["enqueue", "greet", "--dedupe", "a", "--dedupe-window", "ever"], /--dedupe-window must be a duration/],
    [["enqueue", "greet", "--dedupe-window", "1h"], /--dedupe-window and --dedupe-replace need --dedupe/],
    [["enqueue", "greet", "--prioritty", "1"], /There is no option --prioritty\. Did you mean --priority\?/],
    [["enqueue", "greet", "--priority", "high"], /--priority must be a whole number, got "high"/],
    [["enqueue", "greet", "--priority"], /The option --priority needs a value/],
    [["enqueue", "greet", "--queue", "--json"], /The option --queue needs a value/],
    [["enqueue", "greet", "--force=no"], /The option --force takes no value/],
    [["enqueue", "greet", "-json"], /There is no option -json\. Did you mean --json\?/],
    [["queues", "scale", "mail", "-3"], /<workers> must be between 0 and 10000, got -3/],
    [["jobs", "--json"], /There is no option --json\. See `nightshift jobs --help`\./],
    [["jobs", "lst"], /There is no command "jobs lst"\. Did you mean list\? See `nightshift jobs --help`\./],
    [["jobs", "lst", "--help"], /There is no command "jobs lst"\. Did you mean list\? See `nightshift jobs --help`\./],
    [["sreve", "--help"], /There is no command "sreve"\. Did you mean serve\? See `nightshift --help`\./],
    [["nosuch", "-h"], /There is no command "nosuch"\. Commands: serve, /],
    [["jobs", "list", "everything"], /Unexpected argument "everything"/],
    [["jobs", "list", "--limit", "1", "--limit", "2"], /The option --limit can be given only once/],
    [["jobs", "show"], /The argument <id> is required/],
    [["jobs", "show", "--all"], /There is no option --all/],
    [["jobs", "show", "seven"], /A job id must be a UUID, got "seven"/],
    [["jobs", "why", "seven"], /A job id must be a UUID, got "seven"/],
    [["jobs", "cancel"], /Select the jobs to cancel/],
    [["jobs", "delete", missingId, "--queue", "mail"], /not both/],
    [["jobs", "requeue", missingId, "--dry-run"], /--dry-run requires a filter/],
    [["jobs", "delete", "--search", ""], /--search must not be empty; give it a value or leave it out\./],
    [["jobs", "delete", "--queue", "mail", "--containing", "{}"], /: --containing must not be empty; give/],
    [["jobs", "requeue", "--since", "yesterday"], /--since must be an RFC 3339/],
    [["jobs", "list", "--containing", "{"], /--containing is not valid JSON: /],
    // A string would match other jobs.
    [
      ["jobs", "list", "--containing", '{"order":9007199254740993}'],
      /--containing contains 9007199254740993, which a 64-bit float cannot hold\. Use another field or a smaller number\./
    ],
    [["enqueue", "greet", "--payload", "[-0]"], /number at \[0\] that is -0, which would be stored as 0: write 0\./],
    [["jobs", "requeue", "--state", "dead", "--dead-reason", "boredom"], /--dead-reason must be one of exhausted, /],
    [
      ["jobs", "cancel", "--state", "dead", "--dead-reason", "boredom"],
      /--state must be one of scheduled, retrying, pending, running, got "dead"\. See/
    ],
    [["jobs", "list", "--limit", "0"], /--limit must be between 1 and 1000, got 0/],
    [["jobs", "list", "--state", "asleep"], /--state must be one of scheduled, [^\n]+, got "asleep"/]
  ] as const)("is refused with exit code 2 before any connection to a database: %j", ([args, says]) =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const refused = yield* Nightshift.call(args, { cwd })
      expect(refused).toMatchObject({ code: 2, stdout: "" })
      expect(refused.stderr).toMatch(/^nightshift: [^\n]+\n$/)
      expect(refused.stderr).toMatch(says)
    })
  )
})
