import { Config, ConfigError, Either } from "effect"
import * as Setting from "../../core/Setting.js"
import { type DeclaredRoutes, faultOf } from "./Routes.js"

const words = Setting.list({
  key: "NIGHTSHIFT_ROUTES",
  about:
    "Queues for kinds without a queue, by prefix: `gh.=github,slack.=slack`. The longest matching prefix wins; `gh.=` removes a route."
})

const expected = "prefix=queue pairs, like gh.=github,slack.=slack"

const read = (pairs: ReadonlyArray<string>): Either.Either<DeclaredRoutes, ConfigError.ConfigError> => {
  const refuse = (why: string) => Either.left(ConfigError.InvalidData([words.key], `expected ${expected}, ${why}`))
  const routes: Record<string, string | null> = {}
  for (const pair of pairs) {
    // The last `=`: a kind's name may contain it, a queue's name may not.
    const sign = pair.lastIndexOf("=")
    if (sign === -1) return refuse(`got ${JSON.stringify(pair)}`)
    const prefix = pair.slice(0, sign).trim()
    if (Object.hasOwn(routes, prefix)) return refuse(`got ${JSON.stringify(prefix)} twice`)
    routes[prefix] = pair.slice(sign + 1).trim() || null
  }
  const fault = faultOf(routes)
  return fault === undefined ? Either.right(routes) : refuse(`but: ${fault.message}`)
}

export const settings: { readonly routes: Setting.Setting<DeclaredRoutes> } = {
  routes: { ...words, config: Config.mapOrFail(words.config, read) }
}

/** Routes from the environment. They take precedence over routes in code, so that operators have the final say. */
export const declared: Config.Config<DeclaredRoutes> = settings.routes.config
