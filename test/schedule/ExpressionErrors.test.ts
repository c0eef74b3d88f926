import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"
import * as Expression from "../../src/schedule/Expression.js"

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
