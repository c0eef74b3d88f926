import { Either, Option } from "effect"
import { jsonText } from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"

/** Why the code cannot set this value, and which argument is wrong. `names`: those that it has set before. */
export const faultOf = (
  name: string,
  value: unknown,
  names: ReadonlySet<string>
): { readonly argument: "name" | "value"; readonly message: string } | undefined => {
  const fault = Either.getLeft(jsonText(value === undefined ? null : value, limits.setBytes))
  if (Option.isSome(fault))
    return { argument: "value", message: `The value of "${name}" ${fault.value}. Set a small summary, or a key.` }
  if (names.has(name) || names.size < limits.setNames) return undefined
  const message = `"${name}" is one name too many: an execution sets at most ${limits.setNames} names. Set one of them to an object.`
  return { argument: "name", message }
}
