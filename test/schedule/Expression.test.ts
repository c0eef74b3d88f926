import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"
import * as Expression from "../../src/schedule/Expression.js"

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
  "the same, from an instant within the repeated time": [
    ["Europe/Paris", "30 2 * * *", "2026-10-25T01:10Z", ["2026-10-26T01:30Z"]],
    ["America/New_York", "30 1 * * *", "2026-11-01T06:10Z", ["2026-11-02T06:30Z"]],
    ["Australia/Lord_Howe", "45 1 * * *", "2026-04-04T15:05Z", ["2026-04-05T15:15Z"]]
  ],
  "the same, from an instant within the skipped time": [
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

describe("an expression", () => {
  it("gives the same next time from any instant, and excludes the instant itself", () => {
    const daily = read("0 3 * * *", "Europe/Paris")
    const tick = Date.parse("2026-06-01T01:00:00Z")
    expect(daily.next(tick - 1)).toBe(tick)
    expect(daily.next(tick)).toBe(tick + 86_400_000)
  })

  it("lists the last times in a span, however long ago the previous one was", () => {
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
