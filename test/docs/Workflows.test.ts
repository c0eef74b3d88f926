import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { parse } from "yaml"
import { checks } from "../../scripts/release/checks.mjs"
import { root } from "../support/Nightshift.js"

interface Step {
  readonly uses?: string
  readonly run?: string
}
interface Job {
  readonly needs?: string | ReadonlyArray<string>
  readonly "timeout-minutes"?: unknown
  readonly strategy?: { readonly matrix: { readonly include?: ReadonlyArray<{ readonly command?: string }> } }
  readonly steps: ReadonlyArray<Step>
}
interface Workflow {
  readonly on?: unknown
  readonly permissions?: object
  readonly jobs: Readonly<Record<string, Job>>
}

const read = (file: string) => readFileSync(join(root, file), "utf8")
const manifest = JSON.parse(read("package.json"))
const workflows = readdirSync(join(root, ".github/workflows")).map((file) => {
  const text = read(`.github/workflows/${file}`)
  return { file, text, ...(parse(text) as Workflow) }
})
const jobs = workflows.flatMap(({ file, jobs: all }) =>
  Object.entries(all).map(([name, job]) => ({ name: `${file} ${name}`, job, siblings: Object.keys(all) }))
)
const commands = jobs.flatMap(({ job }) => [
  ...job.steps.flatMap(({ run }) => (run === undefined ? [] : [run])),
  ...(job.strategy?.matrix.include ?? []).flatMap(({ command }) => (command === undefined ? [] : [command]))
])

// They cannot run here, so a test checks what a typing error would break.
describe("workflows", () => {
  it("run scripts that exist", () => {
    const scripts = commands.flatMap((line) => [...line.matchAll(/npm run ([\w:-]+)/g)].map(([, name = ""]) => name))
    expect(scripts).toContain("test:matrix")
    expect(scripts.filter((name) => !(name in manifest.scripts))).toEqual([])
    expect(commands.filter((line) => line.startsWith(".ci/") && !existsSync(join(root, line)))).toEqual([])
  })

  it("run every test of the product", () => {
    const byHand = ["test:long", "test:repeat"]
    const tests = Object.keys(manifest.scripts).filter((name) => name.startsWith("test:") && !byHand.includes(name))
    expect(tests.filter((name) => !commands.some((line) => line.includes(`npm run ${name}`)))).toEqual([])
    // Runs test:long.
    expect(commands).toContain(".ci/run")
  })

  it("name the version of each action, limit their time and may write nothing by default", () => {
    expect(jobs.length).toBeGreaterThan(6)
    const uses = jobs.flatMap(({ job }) => job.steps.flatMap((step) => step.uses ?? []))
    expect(uses.filter((name) => !/^actions\/[\w-]+@v\d+$/.test(name))).toEqual([])
    expect(jobs.filter(({ job }) => job["timeout-minutes"] === undefined).map(({ name }) => name)).toEqual([])
    for (const { permissions } of workflows) expect(permissions).toEqual({ contents: "read" })
    for (const { job, siblings } of jobs) expect(siblings).toEqual(expect.arrayContaining([job.needs ?? []].flat()))
  })

  it("put nothing that a stranger can choose into a shell", () => {
    const unsafe = commands.filter((line) => /\$\{\{ *(github\.(event|head_ref|ref_name)|inputs)/.test(line))
    expect(unsafe).toEqual([])
  })

  it("test the supported releases of Node and PostgreSQL", () => {
    const test = workflows.find(({ file }) => file === "test.yml")?.jobs
    const page = read("docs/operate/versions.md")
    const supported = [...page.matchAll(/^\| Node (\d+) \| yes \| yes \| [A-Z]\w+ \d{4} \|$/gm)].map(([, node]) =>
      Number(node)
    )
    expect(test?.test?.strategy?.matrix).toMatchObject({ node: supported.toSorted((a, b) => a - b) })
    expect(test?.postgres?.strategy?.matrix).toEqual({ postgres: [14, 15, 16, 17, 18] })
  })
})

describe("placeholders for the address of the repository", () => {
  const files = [
    "package.json",
    "SECURITY.md",
    "SUPPORT.md",
    "CODE_OF_CONDUCT.md",
    ".github/CODEOWNERS",
    ".github/ISSUE_TEMPLATE/config.yml",
    "clients/go/go.mod",
    "clients/go/README.md",
    "package-lock.json"
  ]

  it("are replaced everywhere or nowhere; the release workflow refuses them", async () => {
    const left = files.filter((file) => read(file).includes("OWNER"))
    expect([[], files]).toContainEqual(left)
    expect(commands).toContain("npm run release -- --tagged")
    const [refusal = ""] = await checks.placeholders({ root })
    for (const file of left) expect(refusal).toContain(`${file}:`)
  })

  it("are in the fields that a registry shows", () => {
    const { bugs, funding, homepage, repository } = manifest
    for (const url of [bugs.url, funding.url, homepage, repository.url]) expect(url).toMatch(/^(git\+)?https:\/\//)
  })
})
