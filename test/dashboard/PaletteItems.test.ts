import { beforeAll, describe, expect, it } from "vitest"

interface Item {
  readonly group: string
  readonly name: string
  readonly note?: string
  readonly run: () => void
}
type Items = ReadonlyArray<Item>

/** The modules under test. The pages are compiled with other settings, so their own types cannot be imported. */
let pick: (text: string, items: Items, found: Items, last: Items) => Items
let enqueueTexts: (url: string, example: object) => Readonly<Record<string, string>>

beforeAll(async () => {
  const load = (file: string) => import(new URL(`../../src/dashboard/app/${file}`, import.meta.url).href)
  pick = (await load("PaletteItems.ts")).pick
  enqueueTexts = (await load("FirstCommands.ts")).enqueueTexts
})

const item = (group: string, name: string, note?: string): Item => ({
  group,
  name,
  run: () => {},
  ...(note === undefined ? {} : { note })
})
const names = (items: Items) => items.map(({ group, name }) => `${group}: ${name}`)

describe("the command palette", () => {
  const items = [
    item("Pages", "Dead"),
    item("Queues", "mail.dead-letters"),
    item("Queues", "undeadly"),
    item("Kinds", "dead_letter", "queue mail"),
    item("Actions", "Pause queue mail")
  ]

  it("lists the group with the best match first, and the best matches first in a group", () => {
    const queues = [item("Queues", "undeadly"), item("Queues", "old-dead"), item("Queues", "deadline")]
    expect(names(pick("dead", [item("Actions", "Undead"), ...queues], [], []))).toEqual([
      "Queues: deadline",
      "Queues: old-dead",
      "Queues: undeadly",
      "Actions: Undead"
    ])
  })

  it("finds all words in any order, in any case, in names and notes", () => {
    expect(names(pick("MAIL pause", items, [], []))).toEqual(["Actions: Pause queue mail"])
    expect(names(pick("queue mail", items, [], []))).toEqual(["Kinds: dead_letter", "Actions: Pause queue mail"])
    expect(pick("nonsense", items, [], [])).toEqual([])
  })

  it("shows what the service found, and the search of all jobs last", () => {
    const found = [item("Jobs", "0198c0de")]
    const last = [item("Search", "Search all jobs for 0198")]
    expect(names(pick("0198", items, found, last))).toEqual(["Jobs: 0198c0de", "Search: Search all jobs for 0198"])
  })

  it("shows everything without a text, and five of a group with one", () => {
    const many = Array.from({ length: 8 }, (_, index) => item("Queues", `q${index}`))
    expect(pick("", many, [], [])).toHaveLength(8)
    expect(pick("q", many, [], [])).toHaveLength(5)
  })
})

describe("the commands of the first steps", () => {
  it("are quoted for the shell, and force a kind that is not registered", () => {
    const texts = enqueueTexts("http://127.0.0.1:1/api/v1/jobs", { kind: "it's", payload: { a: "b'c" }, force: true })
    expect(texts["Command line"]).toBe(`npx nightshift enqueue 'it'\\''s' --payload '{"a":"b'\\''c"}' --force`)
    expect(texts.curl).toContain(`-d '{"kind":"it'\\''s","payload":{"a":"b'\\''c"},"force":true}'`)
  })
})
