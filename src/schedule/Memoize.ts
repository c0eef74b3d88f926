import { Either } from "effect"

/** Reads an expression in its zone, and remembers up to so many that could be read: the same few are asked for again and again. */
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
