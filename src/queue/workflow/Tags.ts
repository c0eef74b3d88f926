import { Either, Predicate } from "effect"
import { faultOfText, shown } from "../../core/Storable.js"
import type { TagChanges, Tags } from "./Execution.js"
import { InvalidTags } from "./WorkflowErrors.js"

// Tags of executions: `customer` with the value `42`. They are written `customer=42` in a query and on the command line.

export const tagLimits = { tags: 16, nameCharacters: 64, valueCharacters: 256 }

/** The sign that separates name and value. */
const sign = "="

const faultOfName = (name: string): string | undefined =>
  name.includes(sign) ? `must not contain "${sign}"` : faultOfText(name, tagLimits.nameCharacters)

/** Returns what is wrong with tags, or undefined. */
export const faultOf = (tags: unknown, canRemove: boolean): string | undefined => {
  if (!Predicate.isRecord(tags)) return `Tags must be an object like { customer: "42" }, got ${shown(tags)}`
  for (const [name, value] of Object.entries(tags)) {
    const ofName = faultOfName(name)
    if (ofName !== undefined) return `The name of the tag ${shown(name)} ${ofName}`
    if (canRemove && value === null) continue
    const ofValue = faultOfText(value as string, tagLimits.valueCharacters)
    if (ofValue !== undefined) return `The tag "${name}" ${ofValue}`
  }
  const most = Object.values(tags).filter((value) => value !== null).length
  return most > tagLimits.tags ? tooMany(most) : undefined
}

const tooMany = (count: number) => `An execution has at most ${tagLimits.tags} tags, got ${count}`

/** Checks tags to set. */
export const admitted = <T extends TagChanges>(tags: T, canRemove: boolean): Either.Either<T, InvalidTags> => {
  const reason = faultOf(tags, canRemove)
  return reason === undefined ? Either.right(tags) : Either.left(new InvalidTags({ reason }))
}

/** The tags after a change, or why there would be too many. */
export const changed = (before: Tags, changes: TagChanges): Either.Either<Tags, InvalidTags> => {
  const merged = Object.entries({ ...before, ...changes }).filter((tag): tag is [string, string] => tag[1] !== null)
  return merged.length > tagLimits.tags
    ? Either.left(new InvalidTags({ reason: tooMany(merged.length) }))
    : Either.right(Object.fromEntries(merged))
}

/** Whether an execution has all these tags. */
export const matches = (tags: Tags, wanted: Tags | undefined): boolean =>
  wanted === undefined ||
  Object.entries(wanted).every(([name, value]) => Object.hasOwn(tags, name) && tags[name] === value)

/** What `read` expects, as the end of a sentence. */
export const expected = "must be a tag like customer=42"

/** Reads `customer=42`. */
export const read = (text: string): Either.Either<readonly [name: string, value: string], string> => {
  const at = text.indexOf(sign)
  if (at < 1 || at === text.length - 1) return Either.left(`${expected}, got ${shown(text)}`)
  return Either.right([text.slice(0, at), text.slice(at + 1)])
}
