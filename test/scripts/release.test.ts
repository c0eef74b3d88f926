import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterEach, describe, expect, it } from "@effect/vitest"
import { type Context, quickChecks, run } from "../../scripts/release/checks.mjs"
import { commit, git, planOf, releaseNotes } from "../../scripts/release/plan.mjs"

const folders: Array<string> = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

const manifest = { name: "shop", version: "0.2.0", dependencies: { zod: "4.0.0" } }
const lockOf = (root: object) => JSON.stringify({ lockfileVersion: 3, packages: { "": root }, version: "0.2.0" })
const changelog = "# Changelog\n\n## [Unreleased]\n\n- Queues: added.\n\n## [0.1.0] - 2026-01-31\n\n- Jobs: added.\n"

const write = (root: string, files: Readonly<Record<string, string>>) => {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
}

const committed = (root: string, files: Readonly<Record<string, string>>) => {
  write(root, files)
  git(root, "add", "--all")
  git(root, "commit", "--quiet", "--message", "Change files")
}

/** A repository that released 0.1.0 and is ready to release 0.2.0. */
const repository = () => {
  const root = mkdtempSync(join(tmpdir(), "nightshift-release-test-"))
  folders.push(root)
  git(root, "init", "--quiet", "--initial-branch=main")
  for (const [key, value] of Object.entries({ "user.name": "Ada", "user.email": "ada@example.org", "gc.auto": "0" }))
    git(root, "config", key, value)
  committed(root, {
    "package.json": JSON.stringify(manifest),
    "package-lock.json": lockOf(manifest),
    "CHANGELOG.md": changelog,
    "README.md": "# Shop\n",
    "SECURITY.md": "Write to https://github.com/shop/shop.\n",
    "migrations/0001_baseline.sql": "create table job ();\n"
  })
  git(root, "tag", "v0.1.0")
  return root
}

const problemsIn = async (root: string, more: Partial<Context> & { readonly version?: string } = {}) => {
  const version = more.version ?? "0.2.0"
  const plan = planOf(root, version, "2026-02-28")
  const found = await run(quickChecks, { root, version, plan, ...more })
  return found.map(({ name, problem }) => `${name}: ${problem}`)
}

describe("a release", () => {
  it("passes all checks, is committed and tagged, and passes the checks of its tag", async () => {
    const root = repository()
    expect(await problemsIn(root)).toEqual([])
    commit(root, "0.2.0", planOf(root, "0.2.0", "2026-02-28"))
    expect(git(root, "log", "--format=%s", "-1")).toBe("Release 0.2.0")
    expect(git(root, "cat-file", "-t", "v0.2.0")).toBe("tag")
    expect(readFileSync(join(root, "CHANGELOG.md"), "utf8")).toContain(
      "## [Unreleased]\n\n## [0.2.0] - 2026-02-28\n\n- Queues: added.\n\n## [0.1.0]"
    )
    expect(planOf(root, "0.2.0", "2026-03-31").notes).toEqual({
      name: "0.2.0",
      date: "2026-02-28",
      text: "- Queues: added."
    })
    // The workflow checks out a commit without a branch.
    git(root, "checkout", "--quiet", "--detach")
    expect(await problemsIn(root, { isTagged: true })).toEqual([])
  })

  it("of another version writes it into the package, its lock file and the examples", async () => {
    const root = repository()
    const example = { name: "shop-example", version: "0.0.1", dependencies: { hono: "^4.0.0", shop: "^0.1.0" } }
    committed(root, { "examples/till/package.json": JSON.stringify(example) })
    commit(root, "1.0.0", planOf(root, "1.0.0", "2026-02-28"))
    const read = (file: string) => JSON.parse(readFileSync(join(root, file), "utf8"))
    expect(read("package.json")).toEqual({ ...manifest, version: "1.0.0" })
    expect(read("package-lock.json").packages[""].version).toBe("1.0.0")
    const dependencies = { hono: "^4.0.0", shop: "^1.0.0" }
    expect(read("examples/till/package.json")).toEqual({ ...example, dependencies })
    expect(await problemsIn(root, { version: "1.0.0", isTagged: true })).toEqual([])
  })

  it("has notes whose links lead to the files of its tag", () => {
    const root = repository()
    const repositoryUrl = { repository: { url: "git+https://github.com/shop/shop.git" } }
    committed(root, {
      "package.json": JSON.stringify({ ...manifest, ...repositoryUrl }),
      "CHANGELOG.md": changelog.replace("Queues", "[Queues](docs/queues.md#limits) of [Shop](https://example.org)")
    })
    expect(releaseNotes(root, "0.2.0", planOf(root, "0.2.0", "2026-02-28"))).toBe(
      "- [Queues](https://github.com/shop/shop/blob/v0.2.0/docs/queues.md#limits) of [Shop](https://example.org): added."
    )
  })

  it("gives a section that was written before the date of the release", () => {
    const root = repository()
    committed(root, { "CHANGELOG.md": changelog.replace("[Unreleased]", "[0.2.0]") })
    expect(planOf(root, "0.2.0", "2026-02-28").notes).toMatchObject({ date: "2026-02-28", text: "- Queues: added." })
  })
})

describe("a release is refused", () => {
  const cases: ReadonlyArray<
    readonly [problem: string, broken: (root: string) => void, expected: string, more?: Partial<Context>]
  > = [
    [
      "if the work tree has changes",
      (root) => write(root, { "README.md": "# New\n" }),
      "clean work tree: The work tree has changes: commit or remove them.\n M README.md"
    ],
    [
      "on another branch",
      (root) => git(root, "switch", "--quiet", "--create", "feature"),
      "branch: A release is made on main, and this is feature"
    ],
    ["if its tag exists", (root) => git(root, "tag", "v0.2.0"), "tag: The tag v0.2.0 exists"],
    ["if the tag is not the version", () => {}, "tag: The commit has no tag v0.2.0", { isTagged: true }],
    [
      "if nothing is written about it",
      (root) => committed(root, { "CHANGELOG.md": changelog.replace("- Queues: added.\n", "") }),
      "changelog: The section [0.2.0] of CHANGELOG.md is empty"
    ],
    [
      "without a place for its section",
      (root) => committed(root, { "CHANGELOG.md": "# Changelog\n" }),
      "changelog: CHANGELOG.md has neither a section [0.2.0] nor one [Unreleased]"
    ],
    [
      "if its section lacks entries that are under [Unreleased]",
      (root) =>
        committed(root, {
          "CHANGELOG.md": changelog.replace("## [0.1.0]", "## [0.2.0]\n\n- Jobs: fixed.\n\n## [0.1.0]")
        }),
      "changelog: The release contains the entries under [Unreleased] of CHANGELOG.md, and its section [0.2.0] lacks them: move them"
    ],
    [
      "if the date is no date",
      (root) => committed(root, { "CHANGELOG.md": changelog.replace("[Unreleased]", "[0.2.0] - soon") }),
      "changelog: The date of [0.2.0] in CHANGELOG.md is soon"
    ],
    [
      "if the tagged commit has no date",
      (root) => git(root, "tag", "v0.2.0"),
      "changelog: CHANGELOG.md lack",
      { isTagged: true }
    ],
    [
      "with placeholders, all of which are listed",
      (root) =>
        committed(root, {
          "SECURITY.md": "Line\nhttps://github.com/OWNER/shop\n",
          ".github/CODEOWNERS": "* @OWNER\n",
          "clients/go/go.mod": "module github.com/OWNER/shop/clients/go\n"
        }),
      "placeholders: Replace OWNER with the account that owns the repository, in all of these:\n  .github/CODEOWNERS:1: * @OWNER\n  SECURITY.md:2: https://github.com/OWNER/shop\n  clients/go/go.mod:1: "
    ],
    [
      "if the lock file is older than package.json",
      (root) => committed(root, { "package-lock.json": lockOf({ ...manifest, dependencies: { zod: "3.0.0" } }) }),
      "lock files: package-lock.json differs from package.json in dependencies"
    ],
    [
      "if a lock file of tools is older",
      (root) =>
        committed(root, {
          "tools/package.json": JSON.stringify(manifest),
          "tools/package-lock.json": lockOf({ name: "tools" })
        }),
      "lock files: tools/package-lock.json differs from package.json in version, dependencies"
    ],
    [
      "if a released migration was edited",
      (root) => committed(root, { "migrations/0001_baseline.sql": "create table jobs ();\n" }),
      "migrations: migrations/0001_baseline.sql differs from that of v0.1.0"
    ],
    [
      "if a released migration was deleted",
      (root) => {
        git(root, "mv", "migrations/0001_baseline.sql", "migrations/0001_start.sql")
        git(root, "commit", "--quiet", "--message", "Rename")
      },
      "migrations: migrations/0001_baseline.sql differs from that of v0.1.0"
    ],
    [
      "if README.md is too long",
      (root) => committed(root, { "README.md": "line\n".repeat(151) }),
      "README: README.md has 151 lines"
    ],
    [
      "if a check cannot run",
      (root) => committed(root, { "package-lock.json": "{" }),
      "lock files: The check could not run: "
    ]
  ]

  for (const [problem, broken, expected, more = {}] of cases) {
    it(problem, async () => {
      const root = repository()
      const version = "0.2.0"
      const before = planOf(root, version, "2026-02-28")
      broken(root)
      // A lock file that cannot be read has no plan either.
      const plan = expected.startsWith("lock files: The check") ? before : planOf(root, version, "2026-02-28")
      const found = await run(quickChecks, { root, version, plan, ...more })
      expect(found.map(({ name, problem: text }) => `${name}: ${text}`)).toEqual(
        expect.arrayContaining([expect.stringContaining(expected)])
      )
    })
  }
})
