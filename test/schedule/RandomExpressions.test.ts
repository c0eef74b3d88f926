import { describe, expect, it } from "@effect/vitest"
import { Cron, Either } from "effect"
import * as Expression from "../../src/schedule/Expression.js"
import { isLong } from "../support/Scale.js"

const read = (cron: string, timezone = "UTC") => Either.getOrThrow(Expression.parse(cron, timezone))
const iso = (millis: number) => new Date(millis).toISOString().replace(":00.000Z", "Z").replace(".000Z", "Z")

/** Seeded pseudo-random numbers. */
const chances = (seed: number) => {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** A random field: `*`, a value, a range, a step or a list. */
const randomField = (chance: (below: number) => number, min: number, max: number) => {
  const value = () => min + chance(max - min + 1)
  switch (chance(6)) {
    case 0:
    case 1:
      return "*"
    case 2:
      return `*/${1 + chance(max - min)}`
    case 3: {
      const [low = min, high = max] = [value(), value()].sort((a, b) => a - b)
      return `${low}-${high}`
    }
    case 4:
      return [...new Set([value(), value(), value()])].join(",")
    default:
      return String(value())
  }
}

const randomCron = (chance: (below: number) => number) =>
  [
    chance(3) === 0 ? randomField(chance, 0, 59) : "0",
    randomField(chance, 0, 59),
    randomField(chance, 0, 23),
    randomField(chance, 1, 28),
    randomField(chance, 1, 12),
    randomField(chance, 0, 6)
  ].join(" ")

describe("random expressions", () => {
  it("fire in UTC exactly like those of an independent parser", () => {
    const chance = chances(20_260_329)
    for (let compared = 0; compared < (isLong ? 120 : 40); ) {
      const cron = randomCron(chance)
      // With a day step and a weekday, the reference parser requires both; ours requires either.
      const [, , , days, , weekdays] = cron.split(" ")
      if (days !== "*" && weekdays !== "*" && `${days} ${weekdays}`.includes("*/")) continue
      compared += 1
      const after = Date.UTC(2024 + chance(8), chance(12), 1 + chance(28), chance(24), chance(60), chance(60))
      const others = Cron.sequence(Either.getOrThrow(Cron.parse(cron, "UTC")), new Date(after))
      const expected = Array.from({ length: 3 }, () => iso(others.next().value.getTime()))
      expect([cron, ...read(cron).preview(after, 3).map(iso)]).toEqual([cron, ...expected])
    }
  })

  it("fire around clock changes exactly as found by a minute-by-minute scan", () => {
    const chance = chances(7)
    const changes = [
      ["Europe/Paris", "2026-03-29T01:00Z"],
      ["Europe/Paris", "2026-10-25T01:00Z"],
      ["Australia/Lord_Howe", "2026-10-03T15:30Z"],
      ["Australia/Lord_Howe", "2026-04-04T15:00Z"],
      ["America/Santiago", "2026-09-06T04:00Z"]
    ] as const
    for (let round = 0; round < (isLong ? 30 : 10); round += 1) {
      const [zone, at] = changes[round % changes.length] ?? changes[0]
      const cron = `0 ${randomField(chance, 0, 59)} ${randomField(chance, 0, 23)} * * ${randomField(chance, 0, 6)}`
      const from = Date.parse(at) - 6 * 3_600_000
      const to = Date.parse(at) + 6 * 3_600_000
      const found: Array<number> = []
      // Starts from a random instant before each result, which must not affect it.
      for (let after = from; ; ) {
        const next = read(cron, zone).next(after)
        if (next > to) break
        const between = after + Math.floor(((next - after) * chance(100)) / 100)
        expect(read(cron, zone).next(between)).toBe(next)
        found.push(next)
        after = next
      }
      expect([cron, zone, ...found.map(iso)]).toEqual([cron, zone, ...scanMinutes(cron, zone, from, to).map(iso)])
    }
  })
})

/** Reference implementation: compares the zone's local time with the expression minute by minute. Slow and simple. */
const scanMinutes = (cron: string, zone: string, from: number, to: number): ReadonlyArray<number> => {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" })
  const shown = (instant: number) => Date.parse(`${format.format(instant).replace(" ", "T")}Z`)
  const { hours, minutes, weekdays } = Either.getOrThrow(Cron.parse(cron))
  // Effect represents `*` as an empty set.
  const has = (values: ReadonlySet<number>, value: number) => values.size === 0 || values.has(value)
  const matches = (local: number) => {
    const date = new Date(local)
    return has(minutes, date.getUTCMinutes()) && has(hours, date.getUTCHours()) && has(weekdays, date.getUTCDay())
  }
  const [, minute = "", hour = ""] = cron.split(" ")
  const isInterval = /[*/]/.test(minute + hour)
  const seen = new Set<number>()
  let previous = shown(from - 10_860_000)
  const fires = new Set<number>()
  for (let instant = from - 10_800_000; instant <= to; instant += 60_000) {
    const local = shown(instant)
    const before = previous
    previous = local
    if (matches(local) && (isInterval || !seen.has(local))) fires.add(instant)
    // Skipped local times fire one after the other.
    for (let skipped = before + 60_000; skipped < local && !isInterval; skipped += 60_000) {
      if (matches(skipped)) fires.add(instant + (skipped - before - 60_000))
    }
    seen.add(local)
  }
  return [...fires].filter((instant) => instant > from && instant <= to).sort((a, b) => a - b)
}
