import { Effect } from "effect"
import type { Codec } from "../../codec/Codec.js"
import { Database } from "../../database/Database.js"
import * as KeysInUse from "../../seal/KeysInUse.js"
import { type Check, fail, ok } from "./Check.js"

/** Reports keys that unfinished jobs need and that this environment does not have. */
export const sealedValues = (codec: Codec | undefined): Check => ({
  name: "keys",
  run: Effect.gen(function* () {
    const needed = yield* KeysInUse.ofUnfinished(yield* Database)
    if (needed.length === 0) {
      return [
        ok(codec === undefined ? "No keys are configured, and no job is sealed." : "No unfinished job is sealed.")
      ]
    }
    const missing = needed.filter(({ key }) => codec?.opens?.(key) !== true)
    if (missing.length === 0) {
      return [ok(`The keys of all sealed jobs are configured: ${needed.map(({ key }) => key).join(", ")}.`)]
    }
    return missing.map(({ key, values }) =>
      fail(
        `${values} unfinished ${values === 1 ? "job is" : "jobs are"} sealed with the key "${key}", which is not in NIGHTSHIFT_SEAL_KEYS.`,
        `Add the key "${key}" behind the first one, here and in all processes that run these jobs.`
      )
    )
  })
})
