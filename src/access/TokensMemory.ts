import { Clock, Effect, Layer } from "effect"
import { makeGenerator } from "../core/Ids.js"
import * as TokenSecret from "./TokenSecret.js"
import { mostLabelCharacters, type Token, TokenNotFound, Tokens } from "./Tokens.js"

const make = Effect.gen(function* () {
  const ids = yield* makeGenerator
  const known = new Map<string, { readonly token: Token; readonly kept: TokenSecret.Kept }>()

  return Tokens.of({
    create: (workspace, label = "") =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const { secret, ...kept } = TokenSecret.make()
        const token: Token = {
          id: ids.token(now),
          workspace,
          prefix: kept.prefix,
          label: label.slice(0, mostLabelCharacters),
          createdAt: now
        }
        known.set(token.id, { token, kept })
        return { ...token, secret }
      }),
    list: (workspace) =>
      Effect.sync(() => [...known.values()].map(({ token }) => token).filter((token) => token.workspace === workspace)),
    revoke: (workspace, id) =>
      Effect.suspend(() => {
        const token = known.get(id)?.token
        if (token?.workspace !== workspace) return new TokenNotFound({ id })
        known.delete(id)
        return Effect.succeed(token)
      }),
    verify: (workspace, given) =>
      Effect.sync(() => {
        const prefix = TokenSecret.prefixOf(given)
        const candidates = [...known.values()].filter(
          ({ kept, token }) => token.workspace === workspace && kept.prefix === prefix
        )
        return TokenSecret.isOneOf(
          given,
          candidates.map(({ kept }) => kept.hash)
        )
      })
  })
})

/** In memory, for tests. */
export const layer: Layer.Layer<Tokens> = Layer.effect(Tokens, make)
