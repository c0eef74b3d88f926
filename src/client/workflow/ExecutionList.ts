import { Effect, Schema } from "effect"
import { query } from "../../http/workflows/ExecutionsFilter.js"
import { type ExecutionState, maxExecutionPage, type Tags } from "../../queue/workflow/Execution.js"
import { faultOf } from "../../queue/workflow/Tags.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type { Engine, Ports } from "../Engine.js"
import * as Filter from "../Filter.js"
import * as Listing from "../Listing.js"
import { checkKnown, type InstantInput, namesOf } from "../Options.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import * as ExecutionView from "./ExecutionView.js"

/** Selects the executions that match every field, as in the HTTP API. */
export interface ExecutionFilter {
  /** Executions of the workflow with this name. */
  readonly workflow?: string | undefined
  /** Executions in this state, such as `"waiting"` for a signal or children. */
  readonly state?: ExecutionState | undefined
  /** Executions whose id starts with this text: `order/2026-` matches the keys that start with `2026-`. */
  readonly prefix?: string | undefined
  /** Executions with all these tags: `{ customer: "42" }`. */
  readonly tag?: Tags | undefined
  /** Executions started at or after this time. */
  readonly since?: InstantInput | undefined
  /** Executions started before this time. */
  readonly until?: InstantInput | undefined
  /** Whether to leave out executions that another one started or waits for. [false] */
  readonly roots?: boolean | undefined
}

/** Finds executions. */
export interface ExecutionList {
  /**
   * The executions that match the filter, newest first: an async iterable that reads them in pages. A page has at most 200.
   */
  list(filter?: ExecutionFilter, options?: Listing.ListOptions): Listing.Listing<ExecutionView.ExecutionSummaryView>
  /** The number of executions that match the filter. Rejects with SearchTooSlowError if counting takes more than 5 seconds. */
  count(filter?: ExecutionFilter): Promise<number>
}

const decode = Filter.reader(Schema.Struct(query), Object.keys(query), 'workflow: "order"')

const tagTexts = (tag: ExecutionFilter["tag"]) => {
  if (tag === undefined) return undefined
  const fault = faultOf(tag, false)
  if (fault !== undefined) throw new InvalidOptionError("filter.tag", `filter.tag is invalid: ${fault}.`)
  return Object.entries(tag).map(([name, value]) => `${name}=${value}`)
}

const read = (given: ExecutionFilter) =>
  decode(given, ({ roots, since, tag, until }: ExecutionFilter) => ({
    roots: typeof roots === "boolean" ? String(roots) : roots,
    tag: tagTexts(tag),
    since: Filter.instant("since", since),
    until: Filter.instant("until", until)
  }))

const listOptions = namesOf<Listing.ListOptions>({ limit: 0 })

/** @internal */
export const make = ({ run }: Engine<Ports>): ExecutionList => ({
  list: (given = {}, options = {}) => {
    const filter = read(given)
    checkKnown(options, listOptions, "an option of list")
    return Listing.make(async ({ cursor, limit }) => {
      const request = { limit: Math.min(limit, maxExecutionPage), before: cursor }
      const page = await run(Effect.flatMap(Workflows, (workflows) => workflows.list(filter, request)))
      return { items: page.executions.map(ExecutionView.ofSummary), next: page.next }
    }, options)
  },
  count: async (given = {}) => {
    const filter = read(given)
    return run(Effect.flatMap(Workflows, (workflows) => workflows.count(filter)))
  }
})
