import { Either } from "effect"

/** Memoizes a function of an expression and its zone. Keeps up to `most` successful results. */
export const make = <A, E>(
  most: number,
  read: (cron: string, timezone: string) => Either.Either<A, E>
): ((cron: string, timezone: string) => Either.Either<A, E>) => {
  const known = new Map<string, Either.Either<A, E>>()
  return (cron, timezone) => {
    const key = `${timezone} ${cron}`
    const found = known.get(key)
    if (found !== undefined) return found
    const answer = read(cron, timezone)
    if (Either.isRight(answer)) {
      if (known.size >= most) known.clear()
      known.set(key, answer)
    }
    return answer
  }
}
