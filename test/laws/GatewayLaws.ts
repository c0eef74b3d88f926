import { describe, expect, layer as withLayer } from "@effect/vitest"
import { Clock, Duration, Effect, type Layer, Option } from "effect"
import { type JobId, makeGenerator } from "../../src/core/Ids.js"
import { AuthSessions, Guess } from "../../src/gateway/auth/AuthSessions.js"
import { DeadLetters } from "../../src/gateway/dead/DeadLetters.js"
import type { Advance } from "./Line.js"

type Ports = AuthSessions | DeadLetters

let users = 10_000
/** A user id that no other law uses; beyond 32 bits, like Telegram's ids. */
const somebody = () => 7_000_000_000 + users++

const letter = (job: JobId) => ({ job, bot: "helper", chat: -1_001_234_567_890 })

/** Laws of the gateway's ports. */
export const gatewayLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    const { advance } = options
    const newJob = Effect.gen(function* () {
      return (yield* makeGenerator).job(yield* Clock.currentTimeMillis)
    })

    describe("sign-ins", () => {
      it.effect("last exactly as long as they were opened for", () =>
        Effect.gen(function* () {
          const sessions = yield* AuthSessions
          const user = somebody()
          expect(yield* sessions.find(user)).toEqual(Option.none())
          yield* sessions.open(user, Duration.hours(1))
          const until = (yield* Clock.currentTimeMillis) + 3_600_000
          expect(yield* sessions.find(user)).toEqual(Option.some(until))
          yield* advance("59 minutes")
          expect(yield* sessions.find(user)).toEqual(Option.some(until))
          yield* advance("1 minute")
          expect(yield* sessions.find(user)).toEqual(Option.none())
          expect(yield* sessions.close(user)).toBe(false)
        })
      )

      it.effect("can be closed and extended", () =>
        Effect.gen(function* () {
          const sessions = yield* AuthSessions
          const user = somebody()
          const other = somebody()
          yield* sessions.open(user, Duration.hours(1))
          yield* sessions.open(other, Duration.hours(1))
          yield* advance("30 minutes")
          yield* sessions.open(user, Duration.hours(1))
          yield* advance("45 minutes")
          expect(Option.isSome(yield* sessions.find(user))).toBe(true)
          expect(yield* sessions.close(user)).toBe(true)
          expect(yield* sessions.close(user)).toBe(false)
          expect(yield* sessions.find(user)).toEqual(Option.none())
        })
      )

      it.effect("are swept only after they have expired", () =>
        Effect.gen(function* () {
          const sessions = yield* AuthSessions
          yield* advance("48 hours")
          yield* sessions.sweep
          const [short, long] = [somebody(), somebody()]
          yield* sessions.open(short, Duration.minutes(1))
          yield* sessions.open(long, Duration.hours(1))
          yield* sessions.guess(somebody())
          expect(yield* sessions.sweep).toEqual({ sessions: 0, guesses: 0 })
          yield* advance("20 minutes")
          expect(yield* sessions.sweep).toEqual({ sessions: 1, guesses: 1 })
          expect(Option.isSome(yield* sessions.find(long))).toBe(true)
        })
      )
    })

    describe("guesses", () => {
      it.effect("are limited to five, even concurrently, then the user must wait", () =>
        Effect.gen(function* () {
          const sessions = yield* AuthSessions
          const user = somebody()
          const guesses = yield* Effect.all(
            Array.from({ length: 40 }, () => sessions.guess(user)),
            { concurrency: "unbounded" }
          )
          expect(guesses.filter(({ _tag }) => _tag === "Allowed")).toHaveLength(5)
          const until = (yield* Clock.currentTimeMillis) + 15 * 60_000
          expect(guesses.filter(({ _tag }) => _tag === "Locked")).toEqual(Array(35).fill(Guess.Locked({ until })))
          expect(yield* sessions.guess(somebody())).toEqual(Guess.Allowed({ left: 4 }))
        })
      )

      it.effect("count down, and are available again fifteen minutes after the lock", () =>
        Effect.gen(function* () {
          const sessions = yield* AuthSessions
          const user = somebody()
          for (const left of [4, 3, 2, 1, 0]) {
            expect(yield* sessions.guess(user)).toEqual(Guess.Allowed({ left }))
            yield* advance("1 minute")
          }
          yield* advance("13 minutes")
          expect(yield* sessions.guess(user)).toMatchObject({ _tag: "Locked" })
          yield* advance("1 minute")
          expect(yield* sessions.guess(user)).toEqual(Guess.Allowed({ left: 4 }))
        })
      )

      it.effect("are reset fifteen minutes after the first, and after a right one", () =>
        Effect.gen(function* () {
          const sessions = yield* AuthSessions
          const [slow, lucky] = [somebody(), somebody()]
          for (const _ of [1, 2, 3, 4]) {
            yield* sessions.guess(slow)
            yield* sessions.guess(lucky)
          }
          yield* sessions.open(lucky, Duration.hours(1))
          expect(yield* sessions.guess(lucky)).toEqual(Guess.Allowed({ left: 4 }))
          yield* advance("15 minutes")
          expect(yield* sessions.guess(slow)).toEqual(Guess.Allowed({ left: 4 }))
        })
      )
    })

    describe("dead letters", () => {
      it.effect("have one sender, even under concurrency", () =>
        Effect.gen(function* () {
          const letters = yield* DeadLetters
          const job = yield* newJob
          const intents = yield* Effect.all(
            Array.from({ length: 20 }, () => letters.intend(letter(job))),
            { concurrency: "unbounded" }
          )
          expect(intents.filter((known) => known === undefined)).toHaveLength(1)
          expect(intents.filter((known) => known === "intended")).toHaveLength(19)
        })
      )

      it.effect("record their outcome, which does not change", () =>
        Effect.gen(function* () {
          const letters = yield* DeadLetters
          for (const settlement of ["sent", "refused", "unknown"] as const) {
            const job = yield* newJob
            yield* letters.intend(letter(job))
            yield* letters.record(job, settlement)
            expect(yield* letters.intend(letter(job))).toBe(settlement)
            yield* letters.record(job, "withdrawn")
            expect(yield* letters.intend(letter(job))).toBe(settlement)
          }
        })
      )

      it.effect("may be sent again after they were withdrawn", () =>
        Effect.gen(function* () {
          const letters = yield* DeadLetters
          const job = yield* newJob
          yield* letters.intend(letter(job))
          yield* letters.record(job, "withdrawn")
          expect(yield* letters.intend(letter(job))).toBeUndefined()
          expect(yield* letters.intend(letter(job))).toBe("intended")
        })
      )

      it.effect("are purged in time", () =>
        Effect.gen(function* () {
          const letters = yield* DeadLetters
          yield* advance("100 days")
          yield* letters.purge(Duration.days(30))
          yield* letters.intend(letter(yield* newJob))
          yield* advance("29 days")
          yield* letters.intend(letter(yield* newJob))
          expect(yield* letters.purge(Duration.days(30))).toBe(0)
          yield* advance("2 days")
          expect(yield* letters.purge(Duration.days(30))).toBe(1)
        })
      )
    })
  })
