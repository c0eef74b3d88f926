import { Clock, Duration, Effect } from "effect"
import { timesCost } from "./RefreshedValue.js"

// Many tabs ask the same. Those who ask while somebody looks are all told what the next look finds: it began after they asked,
// so nobody misses what happened before. And what was dear to find is kept for a while: looking takes no more than a twentieth
// of the time, however many ask and however often. What everybody asks alike, and may always be a little old, is `Shared`.

/** What cost less than this is not kept: finding it again is no harm, and nobody is told what is no longer so. */
const cheap = Duration.toMillis("50 millis")

export interface CoalescingCache<A> {
  /** What is found, alone or with others who ask the same, or was found a while ago. */
  readonly to: <E, R>(question: string, look: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Somebody changed what is asked about: whoever asks from now on is told how it is then. */
  readonly forget: Effect.Effect<void>
}

interface Question<A> {
  readonly turn: Effect.Semaphore
  asking: number
  /** How many looks were begun for it. */
  begun: number
  /** What the last look found, and until when that is good for everybody. */
  last: { readonly look: number; readonly answer: A; readonly until: number } | undefined
}

const begin = <A>(): Question<A> => ({
  turn: Effect.unsafeMakeSemaphore(1),
  asking: 0,
  begun: 0,
  last: undefined
})

/** How many answers are kept, and how old they may become. */
export interface Kept {
  readonly most: number
  readonly longest: Duration.DurationInput
}

/** For what people must see as it is: nothing is kept. */
export const nothing: Kept = { most: 0, longest: 0 }

export const make = <A>({ longest, most }: Kept): CoalescingCache<A> => {
  const longestMillis = Duration.toMillis(longest)
  let questions = new Map<string, Question<A>>()

  /** Lets go of what is no longer worth anything, and then of the oldest. */
  const tidy = (now: number) => {
    const idle = [...questions].filter(([, { asking }]) => asking === 0)
    const surplus = questions.size - most
    idle.forEach(([text, { last }], index) => {
      if (index < surplus || last === undefined || last.until <= now) questions.delete(text)
    })
  }

  const find = <E, R>(question: Question<A>, look: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      question.begun += 1
      const number = question.begun
      const begun = yield* Clock.currentTimeMillis
      const answer = yield* look
      const ended = yield* Clock.currentTimeMillis
      const cost = ended - begun
      const until = cost < cheap ? ended : ended + Math.min(longestMillis, cost * timesCost)
      question.last = { look: number, answer, until }
      return answer
    })

  const ask = <E, R>(question: Question<A>, look: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      const before = question.begun
      question.asking += 1
      const inTurn = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { last } = question
        const isGood = last !== undefined && (last.look > before || now < last.until)
        return isGood ? Effect.succeed(last.answer) : find(question, look)
      })
      return Effect.ensuring(
        question.turn.withPermits(1)(inTurn),
        Effect.sync(() => {
          question.asking -= 1
        })
      )
    })

  return {
    to: (text, look) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { last } = questions.get(text) ?? {}
        if (last !== undefined && now < last.until) return Effect.succeed(last.answer)
        tidy(now)
        const question = questions.get(text) ?? begin<A>()
        questions.set(text, question)
        return ask(question, look)
      }),
    // Those who are asking still share what they find, and nobody else comes to know of it.
    forget: Effect.sync(() => {
      questions = new Map()
    })
  }
}
