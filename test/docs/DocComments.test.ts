import { describe, expect, it } from "@effect/vitest"
import { type PublicName, publicNames } from "../support/PublicNames.js"

// Editors show the doc comment of a name while a program is written. For most users it is the only documentation of an
// option that they read.

/** Words that say nothing about a name. */
const fillers = new Set("a an and are as by for in is it its of on or that the this to was which with".split(" "))

/** The comment without a default at its end: `[5]`. */
const sentenceOf = (comment: string) => comment.replace(/\s*\[[^\]]*\]$/, "")

const wordsOf = (text: string) => text.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g)?.map((word) => word.toLowerCase()) ?? []

const singular = (word: string) => word.replace(/s$/, "")

/** What to write instead, or nothing if the comment is good. */
const advice = ({ comment, name }: PublicName): string | undefined => {
  if (comment === "") return "Write what it does or what its value means, its unit, and its default in brackets."
  const sentence = sentenceOf(comment)
  if (!/[.:`)]$/.test(sentence)) return "Write a sentence, with its full stop, in front of the default."
  const known = new Set(wordsOf(name).map(singular))
  return wordsOf(sentence).every((word) => fillers.has(word) || known.has(singular(word)))
    ? "The comment repeats the name. Write what the name does not say."
    : undefined
}

describe("the names that programs import", () => {
  const names = publicNames()

  it("are found in all entries, with members that are inherited, inline, static and in a namespace", () => {
    const found = new Set(names.map(({ name }) => name))
    const expected = [
      ...["connect", "ConnectOptions.pool", "JobView.lastErrorStack", "Worker.[asyncDispose]"],
      ...["Nightshift", "Nightshift.layer", "Job.make", "Backoff.exponential.jitter", "Queues.change", "StoredJob.key"],
      ...["TestShift.layer", "testShift", "SimulationOptions.seed"],
      ...["NightshiftWorkflow", "NightshiftWorkflow.retry"]
    ]
    expect(expected.filter((name) => !found.has(name))).toEqual([])
    expect(names.length).toBeGreaterThan(1400)
  })

  it("have a doc comment that says more than the name", () => {
    const faults = names.flatMap((name) => {
      const found = advice(name)
      return found === undefined ? [] : [`${name.place} ${name.name}: ${found}`]
    })
    expect(faults).toEqual([])
  })

  it("have an example where programs begin", () => {
    const central = ["connect", "job", "worker", "workflow", "testShift", "Shift.enqueue"]
    const withEffect = [
      "Job.make",
      "Handler.make",
      "Nightshift.layer",
      "TestShift.layer",
      "Schedule.make",
      "RateLimit.make"
    ]
    const having = new Set(names.filter(({ examples }) => examples.length > 0).map(({ name }) => name))
    expect([...central, ...withEffect].filter((name) => !having.has(name))).toEqual([])
  })
})
