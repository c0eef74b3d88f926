import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Option, Redacted } from "effect"
import * as Setting from "../../src/core/Setting.js"

const settings = {
  wait: Setting.duration({ key: "WAIT", about: "How long." }, "30m"),
  size: Setting.integer({ key: "SIZE", about: "How many." }, 10, { min: 1, max: 100 }),
  mood: Setting.choice({ key: "MOOD", about: "How." }, "calm", ["calm", "brisk"]),
  loud: Setting.boolean({ key: "LOUD", about: "Whether." }, false),
  word: Setting.secret({ key: "WORD", about: "Hush." }),
  door: Setting.optionalInteger({ key: "DOOR", about: "Which.", absent: /^tcp:/ }, { min: 1, max: 9 })
}

const read = (texts: Record<string, string>) =>
  Setting.group(settings).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(texts)))))

describe("Setting", () => {
  it.effect("uses its default when absent or blank", () =>
    Effect.gen(function* () {
      for (const values of [
        yield* read({}),
        yield* read({ WAIT: "", SIZE: "  ", MOOD: "", LOUD: "", WORD: " ", DOOR: "tcp:3" })
      ]) {
        expect(Duration.toMillis(values.wait)).toBe(1_800_000)
        expect(values).toMatchObject({ size: 10, mood: "calm", loud: false, word: Option.none(), door: Option.none() })
      }
    })
  )

  it.effect("parses the given value", () =>
    Effect.gen(function* () {
      const values = yield* read({ WAIT: "90s", SIZE: "7", MOOD: "Brisk", LOUD: "yes", WORD: "sesame" })
      expect(Duration.toMillis(values.wait)).toBe(90_000)
      expect(values).toMatchObject({ size: 7, mood: "brisk", loud: true })
      expect(Option.map(values.word, Redacted.value)).toEqual(Option.some("sesame"))
    })
  )

  it.effect("reports every invalid key at once, with the expected format", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        read({ WAIT: "soon", SIZE: "500", MOOD: "wild", LOUD: "perhaps", DOOR: "udp:3" })
      )
      expect(Setting.problems(error)).toEqual([
        'WAIT: expected a duration like 90s, 30m, 1h30m or 7d, got "soon"',
        'SIZE: expected a whole number from 1 to 100, got "500"',
        'MOOD: expected one of calm, brisk, got "wild"',
        'LOUD: expected true or false, got "perhaps"',
        'DOOR: expected a whole number from 1 to 9, got "udp:3"'
      ])
      expect(Setting.problems(yield* Effect.flip(read({ MOOD: "http://me:hush@example.org" })))).toEqual([
        'MOOD: expected one of calm, brisk, got "http://…@example.org"'
      ])
    })
  )
})
