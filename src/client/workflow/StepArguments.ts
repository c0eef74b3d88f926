import { Duration, Either, Predicate } from "effect"
import type { DurationInput } from "../../core/DurationText.js"
import { prefixes } from "../../core/StepName.js"
import { faultOfInstant, faultOfText, faultOfWait, faultOfWhole, shown } from "../../core/Storable.js"
import type * as MatchOf from "../../queue/events/Events.js"
import * as Match from "../../queue/events/Match.js"
import { prefix as undoPrefix } from "../../queue/workflow/Undo.js"
import * as SetValue from "../../workflow/SetValue.js"
import { checkBackoff } from "../JobDefinition.js"
import { checkKnown, durationOf, type InstantInput, instantOf, namesOf } from "../Options.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import type { ChildCall, ChildrenOptions, EventWaitOptions, RaceOptions, StepOptions, WaitOptions } from "./Step.js"

// Checks of the arguments of steps, before a step is requested: what they throw rejects the call, where code can catch it.

/** Requests a step whose arguments are valid. Rejects like any other error of the code if they are not. */
export const checked = <A>(request: () => Promise<A>): Promise<A> => {
  try {
    return request()
  } catch (error) {
    const refused = Promise.reject(error)
    // Without this, a call that the code does not await would end the process.
    refused.catch(() => {})
    return refused
  }
}

const most = { nameCharacters: 256, attempts: 10_000, concurrency: 10_000 }

/** Names that start like this are those of undos, patches, values that are set, asks, and calls of `step.next`. */
const reserved = [undoPrefix, ...Object.values(prefixes)]

export const checkName = (name: unknown): void => {
  const prefix = typeof name === "string" ? reserved.find((each) => name.startsWith(each)) : undefined
  const fault =
    prefix === undefined ? faultOfText(name as string, most.nameCharacters) : `must not start with "${prefix}"`
  if (fault === undefined) return
  const which = typeof name === "string" ? `: "${name.slice(0, 100)}"` : ""
  throw new InvalidOptionError("name", `The name of a step ${fault}${which}.`)
}

const checkObject = (name: string, options: unknown): void => {
  if (Predicate.isRecord(options)) return
  throw new InvalidOptionError("options", `The options of "${name}" must be an object, got ${shown(options)}.`)
}

const ofRun = namesOf<StepOptions<unknown>>({
  attempts: 0,
  backoff: 0,
  timeout: 0,
  heartbeatTimeout: 0,
  limit: 0,
  concurrency: 0,
  undo: 0
})

/** The arguments of `step.run` and `step.runInTransaction`. */
export const checkRun = (name: string, code: unknown, options: StepOptions<never>): void => {
  checkName(name)
  checkFunction("The code", name, code)
  checkObject(name, options)
  checkKnown(options, ofRun, "an option of a step")
  const { attempts, backoff, concurrency, heartbeatTimeout, limit, timeout, undo } = options
  checkWhole("attempts", name, attempts, most.attempts)
  checkWhole("concurrency", name, concurrency, most.concurrency)
  if (timeout !== undefined) checkTime("timeout", name, timeout)
  if (heartbeatTimeout !== undefined) checkTime("heartbeatTimeout", name, heartbeatTimeout)
  if (limit !== undefined && !(Predicate.hasProperty(limit, "scope") && Predicate.hasProperty(limit, "rate")))
    throw new InvalidOptionError(
      "limit",
      `limit of "${name}" must be a limit that RateLimit.make(…) returned, got ${shown(limit)}.`
    )
  if (backoff !== undefined) checkBackoff("backoff", backoff, ` of "${name}"`)
  if (undo !== undefined) checkFunction("undo", name, undo)
}

const checkWhole = (option: string, name: string, value: number | undefined, max: number): void => {
  const fault = value === undefined ? undefined : faultOfWhole(value, 1, max)
  if (fault !== undefined) throw new InvalidOptionError(option, `${option} of "${name}" ${fault}.`)
}

const checkTime = (option: string, name: string, duration: DurationInput): void => {
  if (waitMillis(option, name, duration) > 0) return
  throw new InvalidOptionError(option, `${option} of "${name}" must be longer than 0, got ${shown(duration)}.`)
}

/** The instant at which `step.sleepUntil` ends, in epoch milliseconds. */
export const checkedInstant = (name: string, instant: InstantInput): number => {
  const millis = instantOf("instant", instant)
  const fault = faultOfInstant(millis)
  if (fault !== undefined) throw new InvalidOptionError("instant", `The end of the sleep "${name}" ${fault}.`)
  return millis
}

const checkFunction = (what: string, name: string, value: unknown): void => {
  if (typeof value === "function") return
  throw new InvalidOptionError(what, `${what} of "${name}" must be a function, got ${shown(value)}.`)
}

/** The duration of a wait in milliseconds. */
export const waitMillis = (option: string, name: string, duration: DurationInput): number => {
  const wait = durationOf(option, duration, ` of "${name}"`)
  const fault = faultOfWait(wait)
  if (fault !== undefined) throw new InvalidOptionError(option, `${option} of "${name}" ${fault}.`)
  return Duration.toMillis(wait)
}

const ofWait = namesOf<WaitOptions<unknown>>({ timeout: 0, schema: 0 })
const ofEventWait = namesOf<EventWaitOptions>({ match: 0, timeout: 0 })

/** The arguments of `step.waitFor` and `step.next`. Returns the timeout in milliseconds. */
export const checkWait = (
  call: "waitFor" | "next",
  name: string,
  options: WaitOptions<unknown>
): number | undefined => {
  checkName(name)
  checkObject(name, options)
  checkKnown(options, ofWait, `an option of ${call}`)
  return options.timeout === undefined ? undefined : waitMillis("timeout", name, options.timeout)
}

/** The options of `step.waitForEvent`. Returns what to compare, and the timeout in milliseconds. */
export const checkEventWait = (
  event: string,
  options: EventWaitOptions
): readonly [match: MatchOf.Match, timeout: number | undefined] => {
  checkObject(event, options)
  checkKnown(options, ofEventWait, "an option of waitForEvent")
  const match = Either.getOrThrowWith(
    Match.of(options.match),
    (reason) => new InvalidOptionError("match", `match of the wait for "${event}" ${reason}.`)
  )
  return [match, options.timeout === undefined ? undefined : waitMillis("timeout", event, options.timeout)]
}

/** The arguments of `step.set`. `names`: those that the execution has set. */
export const checkSet = (name: string, value: unknown, names: Set<string>): void => {
  checkName(name)
  const fault = SetValue.faultOf(name, value, names)
  if (fault !== undefined) throw new InvalidOptionError(fault.argument, fault.message)
  names.add(name)
}

/** The arguments of `step.answer`. */
export const checkAnswer = (name: string, handler: unknown): void => {
  checkName(name)
  checkFunction("The handler", name, handler)
}

/** The arguments of `step.all` and `step.allSettled`. */
export const checkAll = (name: string, items: unknown, call: unknown): void => {
  checkName(name)
  if (!Array.isArray(items))
    throw new InvalidOptionError("items", `The items of "${name}" must be an array, got ${shown(items)}.`)
  checkFunction("The mapper", name, call)
}

const ofChildren = namesOf<ChildrenOptions<unknown>>({ undo: 0, onParentCancel: 0 })
const ofRace = namesOf<RaceOptions<unknown>>({ undo: 0, onParentCancel: 0, losers: 0 })

const checkChoice = (option: string, name: string, value: unknown): void => {
  if (value === undefined || value === "cancel" || value === "leave") return
  throw new InvalidOptionError(option, `${option} of "${name}" must be "cancel" or "leave", got ${shown(value)}.`)
}

/** The options of `step.all` and `step.allSettled`. */
export const checkChildren = (name: string, options: ChildrenOptions<never>, known = ofChildren): void => {
  checkObject(name, options)
  checkKnown(options, known, "an option of this step")
  if (options.undo !== undefined) checkFunction("undo", name, options.undo)
  checkChoice("onParentCancel", name, options.onParentCancel)
}

/** The items and options of `step.race`. */
export const checkRace = (name: string, items: ReadonlyArray<unknown>, options: RaceOptions<never>): void => {
  checkChildren(name, options, ofRace)
  checkChoice("losers", name, options.losers)
  if (items.length === 0) throw new InvalidOptionError("items", `The race "${name}" needs at least one item.`)
}

/** Returns the child, or throws if it is something else. `which` names the item. */
export const checkedChild = (name: string, child: ChildCall<unknown>, which = ""): ChildCall<unknown> => {
  if (Predicate.hasProperty(child, "job") && Predicate.hasProperty(child, "isWorkflow")) return child
  throw new InvalidOptionError(
    "child",
    `"${name}" needs a child${which}: call a workflow, or child(job, payload), got ${shown(child)}.`
  )
}
