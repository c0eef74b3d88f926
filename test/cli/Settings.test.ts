import { chmodSync, existsSync, mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Settings from "../../src/cli/Settings.js"
import * as Nightshift from "../support/Nightshift.js"

const cell = (text: string) => text.replaceAll("|", "\\|")

const row = ({ about, fallback, key }: (typeof Settings.all)[number]) =>
  `| \`${key}\` | ${fallback === "" ? "" : `\`${fallback}\``} | ${cell(about)} |`

const intro = `# Settings

Set these as environment variables. A command-line flag with the same meaning takes precedence. An empty value counts as unset.
Write durations as \`90s\`, \`30m\`, \`168h\` or \`1h30m\`, sizes as \`25MiB\` or \`1GB\`.
\`nightshift config\` shows the value of every setting and where it comes from.

<!-- Generated from the code by \`npm run docs\`. -->
`

const page = [
  intro,
  ...Settings.sections.map(
    ({ settings, title }) =>
      `## ${title}\n\n| key | default | description |\n| --- | --- | --- |\n${settings.map(row).join("\n")}\n`
  )
].join("\n")

describe("settings", () => {
  it("are all listed in docs/operate/settings.md", async () => {
    await expect(page).toMatchFileSnapshot(join(Nightshift.root, "docs/operate/settings.md"))
  })

  it("have the same descriptions in the README", () => {
    const readme = readFileSync(join(Nightshift.root, "README.md"), "utf8")
    const rows = readme.split("\n").filter((line) => /^\| `[A-Z_]+` \|/.test(line))
    expect(rows).toHaveLength(10)
    expect(rows.filter((line) => !page.includes(line))).toEqual([])
  })

  it("have unique names", () => {
    const keys = Settings.all.map(({ key }) => key)
    expect(new Set(keys).size).toBe(keys.length)
  })
})

describe("nightshift config", () => {
  it.scopedLive("shows each value and its source, and hides secrets", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: "postgres://u:hunter2@h/db", PORT: "9000", NIGHTSHIFT_ADMIN_TOKEN: "sesame" }
      const table = yield* Nightshift.call(["config"], { cwd, env })
      expect(table.code).toBe(0)
      expect(table.stdout).toMatch(/^PORT +9000 +env /m)
      expect(table.stdout).toMatch(/^LOG_LEVEL +info +default /m)
      expect(table.stdout).toMatch(/^DATABASE_URL +\(hidden\) +env /m)
      const json = yield* Nightshift.call(["config", "--json"], { cwd, env })
      expect(JSON.parse(json.stdout)).toContainEqual(
        expect.objectContaining({ key: "PORT", value: "9000", source: "env" })
      )
      expect(table.stdout + json.stdout).not.toMatch(/hunter2|sesame/)
    })
  )

  it.scopedLive("shows what the cell of NIGHTSHIFT_CELL replaces", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = {
        NIGHTSHIFT_FLEET: '{ cells: { main: { database: "postgres://h/db", schema: eu } } }',
        NIGHTSHIFT_CELL: "main",
        DATABASE_URL: "postgres://other/db",
        DATABASE_READ_URL: "postgres://replica/db"
      }
      const settings = JSON.parse((yield* Nightshift.call(["config", "--json"], { cwd, env })).stdout)
      for (const [key, value] of [
        ["DATABASE_URL", "(hidden)"],
        ["DATABASE_SCHEMA", "eu"],
        ["DATABASE_READ_URL", ""]
      ])
        expect(settings).toContainEqual(expect.objectContaining({ key, value, source: "cell" }))
    })
  )

  it.scopedLive("lists every bad key in one error, without showing a secret", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: "mysql://u:hunter2@h/db", PORT: "many", DATABASE_BOOT_TIMEOUT: "soon" }
      const refused = yield* Nightshift.call(["serve"], { cwd, env })
      expect(refused).toMatchObject({ code: 2, stdout: "" })
      expect(refused.stderr).toMatch(
        /^nightshift: 3 settings are invalid: [^\n]*DATABASE_URL[^\n]*BOOT_TIMEOUT[^\n]*PORT[^\n]*\n$/
      )
      expect(refused.stderr).not.toContain("hunter2")
    })
  )

  it.scopedLive("refuses tokens that clients cannot send, without showing them", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      for (const key of ["NIGHTSHIFT_ADMIN_TOKEN", "NIGHTSHIFT_VIEWER_TOKEN", "NIGHTSHIFT_METRICS_TOKEN"]) {
        for (const token of ["correct horse battery", "s\u00e9same", "open\nsesame"]) {
          const refused = yield* Nightshift.call(["serve", "--port", "0"], { cwd, env: { [key]: token } })
          expect(refused).toMatchObject({
            code: 2,
            stderr: `nightshift: 1 setting is invalid: ${key}: expected ASCII characters without spaces, such as the output of openssl rand -hex 24\n`
          })
        }
      }
    })
  )

  it.scopedLive("refuses timeouts that do not fit together and bad names of queues before it starts a database", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const texts: ReadonlyArray<readonly [Record<string, string>, string]> = [
        [{ QUEUE_STALE_AFTER: "5s" }, "QUEUE_STALE_AFTER: expected at least 3 times QUEUE_HEARTBEAT (10s), got 5s"],
        [
          { NIGHTSHIFT_QUEUES: "mail,big files" },
          'NIGHTSHIFT_QUEUES: expected names of 1 to 64 letters, digits, _, . or -, but not "." or "..", got "mail,big files"'
        ]
      ]
      for (const [env, text] of texts) {
        for (const args of [["config"], ["serve", "--embedded", "--port", "0"]]) {
          const refused = yield* Nightshift.call(args, { cwd, env })
          expect(refused).toMatchObject({ code: 2, stderr: `nightshift: 1 setting is invalid: ${text}\n` })
        }
      }
      expect(existsSync(join(cwd, ".nightshift"))).toBe(false)
    })
  )
})

describe("the command line", () => {
  it.scopedLive("prints its help, and exits with code 2 on misuse", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const help = yield* Nightshift.call(["--help"], { cwd })
      expect(help.code).toBe(0)
      for (const command of ["serve", "enqueue", "jobs", "bots", "migrate", "config"])
        expect(help.stdout).toContain(`\n  ${command} `)
      expect(help.stdout).not.toContain("\u001b[")
      expect(yield* Nightshift.call(["sevre"], { cwd })).toMatchObject({ code: 2 })
      for (const more of [["--cell", "main"], ["--embedded"]])
        expect(yield* Nightshift.call(["doctor", "--url", "http://127.0.0.1:1", ...more], { cwd })).toMatchObject({
          code: 2,
          stderr: `nightshift: Use --url or ${more[0]}, not both.\n`
        })
      expect(yield* Nightshift.call(["serve", "--prot", "1"], { cwd })).toMatchObject({ code: 2 })
    })
  )

  it.scopedLive("explains how to specify a database when a command needs one", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const refused = yield* Nightshift.call(["migrate"], { cwd })
      expect(refused.code).toBe(1)
      expect(refused.stderr).toMatch(/^nightshift: No database is configured: [^\n]+\n$/)
    })
  )

  it.scopedLive("does not deny a database in a directory that this user may not read", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const directory = join(cwd, "closed")
      mkdirSync(directory)
      chmodSync(directory, 0o000)
      const refused = yield* Nightshift.call(["queues", "list"], { cwd, env: { NIGHTSHIFT_DIRECTORY: directory } })
      expect(refused.code).toBe(1)
      // Root may read every directory.
      if (process.getuid?.() === 0) expect(refused.stderr).toContain(`no embedded PostgreSQL runs in ${directory}`)
      else {
        expect(refused.stderr).toBe(
          `nightshift: No database is configured: DATABASE_URL is not set, and this user may not read ${directory}, where an embedded PostgreSQL may run. Run the command as the user of the service, or set DATABASE_URL.\n`
        )
      }
    })
  )

  it.scopedLive("starts where NODE_PG_FORCE_NATIVE is set for other programs", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const shown = yield* Nightshift.call(["config"], { cwd, env: { NODE_PG_FORCE_NATIVE: "1" } })
      expect(shown).toMatchObject({ code: 0, stderr: "" })
    })
  )
})
