import { describe, expect, it } from "@effect/vitest"
import { Cron, Either } from "effect"
import * as Expression from "../../src/schedule/Expression.js"
import { isLong } from "../support/Scale.js"

const read = (cron: string, timezone = "UTC") => Either.getOrThrow(Expression.parse(cron, timezone))
const iso = (millis: number) => new Date(millis).toISOString().replace(":00.000Z", "Z").replace(".000Z", "Z")
const ticks = (cron: string, timezone: string, after: string, count: number) =>
  read(cron, timezone).preview(Date.parse(after), count).map(iso)

// Clock changes in 2026, in UTC:
//   Europe/Paris         29 March 01:00, 02:00 -> 03:00      25 October 01:00, 03:00 -> 02:00
//   America/New_York      8 March 07:00, 02:00 -> 03:00      1 November 06:00, 02:00 -> 01:00
//   Australia/Lord_Howe   3 October 15:30, 02:00 -> 02:30    4 April 15:00, 02:00 -> 01:30
//   America/Santiago      6 September 04:00, 00:00 -> 01:00  5 April 03:00, 24:00 -> 23:00

type Row = readonly [zone: string, cron: string, after: string, expected: ReadonlyArray<string>]

/** Written by hand from the clock changes above. */
const tables: Readonly<Record<string, ReadonlyArray<Row>>> = {
  "a time of day that does not exist fires once, as much later as the clocks were set": [
    [
      "Europe/Paris",
      "30 2 * * *",
      "2026-03-27T12:00Z",
      ["2026-03-28T01:30Z", "2026-03-29T01:30Z", "2026-03-30T00:30Z"]
    ],
    ["Europe/Paris", "0 2 * * *", "2026-03-28T12:00Z", ["2026-03-29T01:00Z", "2026-03-30T00:00Z"]],
    ["Europe/Paris", "15 30 2 * * *", "2026-03-28T12:00Z", ["2026-03-29T01:30:15Z", "2026-03-30T00:30:15Z"]],
    ["America/New_York", "30 2 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:30Z", "2026-03-09T06:30Z"]],
    [
      "Australia/Lord_Howe",
      "15 2 * * *",
      "2026-10-02T12:00Z",
      ["2026-10-02T15:45Z", "2026-10-03T15:45Z", "2026-10-04T15:15Z"]
    ],
    ["Australia/Lord_Howe", "0 2 * * *", "2026-10-02T18:00Z", ["2026-10-03T15:30Z", "2026-10-04T15:00Z"]],
    [
      "America/Santiago",
      "0 0 * * *",
      "2026-09-04T12:00Z",
      ["2026-09-05T04:00Z", "2026-09-06T04:00Z", "2026-09-07T03:00Z"]
    ]
  ],
  "a time of day that exists twice fires once, at its first coming": [
    [
      "Europe/Paris",
      "30 2 * * *",
      "2026-10-23T12:00Z",
      ["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"]
    ],
    ["Europe/Paris", "15 30 2 * * *", "2026-10-24T12:00Z", ["2026-10-25T00:30:15Z", "2026-10-26T01:30:15Z"]],
    ["America/New_York", "30 1 * * *", "2026-10-31T12:00Z", ["2026-11-01T05:30Z", "2026-11-02T06:30Z"]],
    ["Australia/Lord_Howe", "45 1 * * *", "2026-04-03T18:00Z", ["2026-04-04T14:45Z", "2026-04-05T15:15Z"]],
    [
      "America/Santiago",
      "30 23 * * *",
      "2026-04-03T12:00Z",
      ["2026-04-04T02:30Z", "2026-04-05T02:30Z", "2026-04-06T03:30Z"]
    ]
  ],
  "the same, asked in the midst of the repeated time": [
    ["Europe/Paris", "30 2 * * *", "2026-10-25T01:10Z", ["2026-10-26T01:30Z"]],
    ["America/New_York", "30 1 * * *", "2026-11-01T06:10Z", ["2026-11-02T06:30Z"]],
    ["Australia/Lord_Howe", "45 1 * * *", "2026-04-04T15:05Z", ["2026-04-05T15:15Z"]]
  ],
  "the same, asked in the midst of what is made up for": [
    ["Europe/Paris", "0,30 2 * * *", "2026-03-29T01:10Z", ["2026-03-29T01:30Z", "2026-03-30T00:00Z"]],
    ["Australia/Lord_Howe", "0,15 2 * * *", "2026-10-03T15:40Z", ["2026-10-03T15:45Z", "2026-10-04T15:00Z"]]
  ],
  "named times fire once each, and none twice": [
    [
      "Europe/Paris",
      "0,30 1-3 * * *",
      "2026-03-28T12:00Z",
      ["2026-03-29T00:00Z", "2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z", "2026-03-29T23:00Z"]
    ],
    [
      "Europe/Paris",
      "0,30 1-3 * * *",
      "2026-10-24T12:00Z",
      [
        "2026-10-24T23:00Z",
        "2026-10-24T23:30Z",
        "2026-10-25T00:00Z",
        "2026-10-25T00:30Z",
        "2026-10-25T02:00Z",
        "2026-10-25T02:30Z",
        "2026-10-26T00:00Z"
      ]
    ]
  ],
  "a step fires whenever the clocks show a matching time": [
    [
      "Europe/Paris",
      "*/30 1-3 * * *",
      "2026-03-28T12:00Z",
      ["2026-03-29T00:00Z", "2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z", "2026-03-29T23:00Z"]
    ],
    [
      "Europe/Paris",
      "*/30 2 * * *",
      "2026-10-24T12:00Z",
      ["2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-26T01:00Z"]
    ],
    // 02:00 and 02:30 do not exist.
    ["Europe/Paris", "*/30 2 * * *", "2026-03-28T12:00Z", ["2026-03-30T00:00Z", "2026-03-30T00:30Z"]],
    // 00:00, 02:00, 02:00 again, 04:00: no wait is longer than two hours.
    [
      "Europe/Paris",
      "0 */2 * * *",
      "2026-10-24T21:00Z",
      ["2026-10-24T22:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T03:00Z"]
    ],
    // 00:00, no 02:00, 04:00.
    ["Europe/Paris", "0 */2 * * *", "2026-03-28T22:00Z", ["2026-03-28T23:00Z", "2026-03-29T02:00Z"]],
    // 01:40, 02:40, 03:00: 02:00 and 02:20 do not exist.
    [
      "Australia/Lord_Howe",
      "*/20 * * * *",
      "2026-10-03T15:00Z",
      ["2026-10-03T15:10Z", "2026-10-03T15:40Z", "2026-10-03T16:00Z", "2026-10-03T16:20Z"]
    ],
    // 01:20, 01:40, 01:40 again, 02:00.
    [
      "Australia/Lord_Howe",
      "*/20 * * * *",
      "2026-04-04T14:15Z",
      ["2026-04-04T14:20Z", "2026-04-04T14:40Z", "2026-04-04T15:10Z", "2026-04-04T15:30Z"]
    ]
  ],
  "every hour fires in every real hour": [
    ["Europe/Paris", "0 * * * *", "2026-03-28T23:30Z", ["2026-03-29T00:00Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z"]],
    [
      "Europe/Paris",
      "0 * * * *",
      "2026-10-24T23:30Z",
      ["2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z", "2026-10-25T03:00Z"]
    ],
    [
      "Europe/Paris",
      "30 0 * * * *",
      "2026-10-25T00:00Z",
      ["2026-10-25T00:00:30Z", "2026-10-25T01:00:30Z", "2026-10-25T02:00:30Z"]
    ],
    [
      "America/New_York",
      "0 * * * *",
      "2026-03-08T05:30Z",
      ["2026-03-08T06:00Z", "2026-03-08T07:00Z", "2026-03-08T08:00Z"]
    ],
    [
      "America/New_York",
      "@hourly",
      "2026-11-01T04:30Z",
      ["2026-11-01T05:00Z", "2026-11-01T06:00Z", "2026-11-01T07:00Z"]
    ],
    // 01:00, no 02:00, 03:00.
    [
      "Australia/Lord_Howe",
      "0 * * * *",
      "2026-10-03T14:00Z",
      ["2026-10-03T14:30Z", "2026-10-03T16:00Z", "2026-10-03T17:00Z"]
    ],
    // 01:00, half an hour again, 02:00.
    [
      "Australia/Lord_Howe",
      "0 * * * *",
      "2026-04-04T13:30Z",
      ["2026-04-04T14:00Z", "2026-04-04T15:30Z", "2026-04-04T16:30Z"]
    ]
  ],
  "every half hour fires in every real half hour": [
    [
      "Europe/Paris",
      "*/30 * * * *",
      "2026-03-29T00:10Z",
      ["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z", "2026-03-29T02:00Z"]
    ],
    [
      "Europe/Paris",
      "*/30 * * * *",
      "2026-10-24T23:45Z",
      ["2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z"]
    ],
    [
      "America/New_York",
      "0 */30 * * * *",
      "2026-11-01T05:10Z",
      ["2026-11-01T05:30Z", "2026-11-01T06:00Z", "2026-11-01T06:30Z", "2026-11-01T07:00Z"]
    ],
    [
      "America/New_York",
      "*/30 * * * *",
      "2026-03-08T06:10Z",
      ["2026-03-08T06:30Z", "2026-03-08T07:00Z", "2026-03-08T07:30Z", "2026-03-08T08:00Z"]
    ],
    [
      "Australia/Lord_Howe",
      "*/30 * * * *",
      "2026-10-03T14:45Z",
      ["2026-10-03T15:00Z", "2026-10-03T15:30Z", "2026-10-03T16:00Z", "2026-10-03T16:30Z"]
    ],
    [
      "Australia/Lord_Howe",
      "*/30 * * * *",
      "2026-04-04T14:10Z",
      ["2026-04-04T14:30Z", "2026-04-04T15:00Z", "2026-04-04T15:30Z", "2026-04-04T16:00Z"]
    ]
  ],
  "the calendar": [
    ["UTC", "0 0 29 2 *", "2026-01-01T00:00Z", ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]],
    ["UTC", "0 0 29 2 *", "2096-03-01T00:00Z", ["2104-02-29T00:00Z"]],
    [
      "Europe/Paris",
      "0 12 L * *",
      "2027-12-31T12:00Z",
      ["2028-01-31T11:00Z", "2028-02-29T11:00Z", "2028-03-31T10:00Z"]
    ],
    ["UTC", "0 9 * * MON-FRI", "2026-05-01T09:00Z", ["2026-05-04T09:00Z", "2026-05-05T09:00Z"]],
    ["UTC", "0 9 * * 7", "2026-05-01T09:00Z", ["2026-05-03T09:00Z", "2026-05-10T09:00Z"]],
    // With both day fields set, either one matches.
    ["UTC", "0 0 13 * FRI", "2026-02-01T00:00Z", ["2026-02-06T00:00Z", "2026-02-13T00:00Z", "2026-02-20T00:00Z"]],
    ["UTC", "0 0 31 * *", "2026-01-31T00:00Z", ["2026-03-31T00:00Z", "2026-05-31T00:00Z"]],
    ["UTC", "0 0 1 jan,JUL *", "2026-01-01T00:00Z", ["2026-07-01T00:00Z", "2027-01-01T00:00Z"]],
    ["Asia/Kolkata", "@daily", "2026-01-01T00:00Z", ["2026-01-01T18:30Z", "2026-01-02T18:30Z"]],
    ["UTC", "5/20 * * * *", "2026-01-01T00:00Z", ["2026-01-01T00:05Z", "2026-01-01T00:25Z", "2026-01-01T00:45Z"]],
    ["UTC", "43,40-48 * * * *", "2026-01-01T00:46Z", ["2026-01-01T00:47Z", "2026-01-01T00:48Z", "2026-01-01T01:40Z"]],
    ["UTC", "0,*/15 * * * *", "2026-01-01T00:40Z", ["2026-01-01T00:45Z", "2026-01-01T01:00Z", "2026-01-01T01:15Z"]],
    [
      "UTC",
      "0 0 1-7,5,5 * SUN,0,7",
      "2026-01-05T00:00Z",
      ["2026-01-06T00:00Z", "2026-01-07T00:00Z", "2026-01-11T00:00Z"]
    ],
    ["UTC", "*/15 * * * * *", "2026-01-01T00:00:00Z", ["2026-01-01T00:00:15Z", "2026-01-01T00:00:30Z"]]
  ]
}

for (const [title, rows] of Object.entries(tables)) {
  describe(title, () => {
    it.each(rows)("%s %s after %s", (zone, cron, after, expected) => {
      expect(ticks(cron, zone, after, expected.length)).toEqual(expected)
    })
  })
}

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
  it("fire in UTC exactly as an independent parser says", () => {
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

  it("fire around clock changes exactly as a minute-by-minute scan says", () => {
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
      // Asks anew from a random instant before each answer: the answer must not depend on it.
      for (let after = from; ; ) {
        const next = read(cron, zone).next(after)
        if (next > to) break
        const between = after + Math.floor(((next - after) * chance(100)) / 100)
        expect(read(cron, zone).next(between)).toBe(next)
        found.push(next)
        after = next
      }
      expect([cron, zone, ...found.map(iso)]).toEqual([cron, zone, ...lookAtEveryMinute(cron, zone, from, to).map(iso)])
    }
  })
})

/** Reference implementation: compares the zone's local time with the expression minute by minute. Slow and simple. */
const lookAtEveryMinute = (cron: string, zone: string, from: number, to: number): ReadonlyArray<number> => {
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

describe("an expression", () => {
  it("gives the same next time from any instant, and excludes the instant itself", () => {
    const daily = read("0 3 * * *", "Europe/Paris")
    const tick = Date.parse("2026-06-01T01:00:00Z")
    expect(daily.next(tick - 1)).toBe(tick)
    expect(daily.next(tick)).toBe(tick + 86_400_000)
  })

  it("lists the last times in a span, however long ago the one before was", () => {
    const burst = read("* 0 3 * * *")
    const at = (text: string) => Date.parse(text)
    expect(burst.last(at("2026-01-01T00:00Z"), at("2026-03-01T02:00Z"), 3).map(iso)).toEqual([
      "2026-02-28T03:00:57Z",
      "2026-02-28T03:00:58Z",
      "2026-02-28T03:00:59Z"
    ])
    const leap = read("0 0 29 2 *")
    expect(leap.last(at("2020-02-29T00:00Z"), at("2028-02-29T00:00Z"), 10).map(iso)).toEqual([
      "2020-02-29T00:00Z",
      "2024-02-29T00:00Z",
      "2028-02-29T00:00Z"
    ])
    expect(leap.last(at("2025-01-01T00:00Z"), at("2026-01-01T00:00Z"), 10)).toEqual([])
    const half = read("*/30 * * * *", "Europe/Paris")
    const [from, to] = [at("2026-10-24T12:00Z"), at("2026-10-25T12:00Z")]
    expect(half.last(from, to, 1_000)).toEqual(half.preview(from - 1, 49))
  })
})

describe("an expression that is refused", () => {
  const long = "0,".repeat(5_000)
  it.each([
    ["", "UTC", "expression", /five fields .* got 0$/],
    ["   ", "UTC", "expression", /got 0$/],
    ["* * * *", "UTC", "expression", /got 4$/],
    ["* * * * * * *", "UTC", "expression", /six with seconds first, got 7$/],
    ["60 * * * *", "UTC", "minute", /0 to 59, .* got "60"$/],
    ["-1 * * * *", "UTC", "minute", /got "-1"$/],
    ["60 0 * * * *", "UTC", "second", /0 to 59/],
    ["0 24 * * *", "UTC", "hour", /0 to 23/],
    ["0 0 0 * *", "UTC", "day of month", /1 to 31/],
    ["0 0 32 * *", "UTC", "day of month", /1 to 31/],
    ["0 0 * 13 *", "UTC", "month", /1 to 12 or JAN to DEC/],
    ["0 0 * JANFEB *", "UTC", "month", /JAN to DEC/],
    ["0 0 * * 8", "UTC", "day of week", /0 to 7 or SUN to SAT/],
    ["0 0 * * FRI-MON", "UTC", "day of week", /SUN to SAT/],
    ["0 0 * * MON#2", "UTC", "day of week", /SUN to SAT/],
    ["0 0 ? * *", "UTC", "day of month", /1 to 31/],
    ["H * * * *", "UTC", "minute", /0 to 59/],
    ["*/0 * * * *", "UTC", "minute", /0 to 59/],
    ["*/60 * * * *", "UTC", "minute", /0 to 59/],
    ["0 */24 * * *", "UTC", "hour", /0 to 23/],
    ["5-1 * * * *", "UTC", "minute", /0 to 59/],
    ["1,,2 * * * *", "UTC", "minute", /0 to 59/],
    ["0 0 * * *\u0000", "UTC", "day of week", /SUN to SAT/],
    ["0\u00a00 * * *", "UTC", "expression", /got 4$/],
    ["<b>0</b> 0 * * *", "UTC", "minute", /0 to 59/],
    ["0 0 30 2 *", "UTC", "day of month", /never fire/],
    ["0 0 31 2,4,6,9,11 *", "UTC", "day of month", /never fire/],
    ["@noon", "UTC", "expression", /@daily/],
    ["@constructor", "UTC", "expression", /@daily/],
    [long, "UTC", "expression", /at most 256 characters/],
    ["0 0 * * *", "Mars/Olympus", "timezone", /IANA time zone name/],
    ["0 0 * * *", "", "timezone", /IANA time zone name/],
    ["0 0 * * *", "+02:00", "timezone", /IANA time zone name/],
    ["0 0 * * *", "Europe/Paris\u0000", "timezone", /IANA time zone name/],
    ["0 0 * * *", "x".repeat(10_000), "timezone", /IANA time zone name/]
  ] as const)("names the part and what is expected there: %#", (cron, zone, part, says) => {
    const refused = Either.flip(Expression.parse(cron, zone)).pipe(Either.getOrThrow)
    expect(refused).toMatchObject({ _tag: "InvalidExpression", part, reason: expect.stringMatching(says) })
    expect(refused.message.length).toBeLessThan(300)
  })

  it.each(["30 2 29 2 *", "0 0 30 2 FRI", "@Daily", "0 0 * * SUN", "  5  4\t* * *  "])("is not %j", (cron) => {
    expect(Either.isRight(Expression.parse(cron, "Europe/Paris"))).toBe(true)
  })
})
