import type { JobRow } from "../../../queue/JobRowMemory.js"
import type { History } from "../History.js"
import type { Finding, Invariant } from "../Invariant.js"
import { kinds, upstream } from "../Workload.js"
import { overflow } from "./ClaimInvariants.js"

const ofKind = (history: History, kind: string): ReadonlyArray<JobRow> =>
  [...history.rows.values()].filter((row) => row.kind === kind)

/** 2 */
export const childWithParent: Invariant = {
  name: "rollback",
  promise: "what was enqueued in a transaction stands if and only if that committed",
  atEnd: (history) =>
    ofKind(history, kinds.parent).flatMap((parent): ReadonlyArray<Finding> => {
      const children = ofKind(history, kinds.child).filter(({ payload }) => payload === parent.payload).length
      const due = parent.status === "done" ? 1 : 0
      // An operator who puts a done job back has it run again.
      const isRepeated = history.trace.about(parent.id).some(({ what }) => what.includes("done -> pending"))
      return children === due || isRepeated
        ? []
        : [{ job: parent.id, found: `${history.nameOf(parent.id)} is ${parent.status} and has ${children} children` }]
    })
}

export const tokens: Invariant = {
  name: "token limit",
  promise: "no more tokens are granted in a time than their bucket holds",
  atEnd: ({ clockSteps, grants }) => {
    const bucket = { capacity: upstream.capacity * (1 + clockSteps), perMilli: upstream.rate / 1000 }
    const found = overflow(
      grants.filter(({ scope }) => scope === upstream.scope).map(({ at }) => at),
      bucket
    )
    return found === undefined ? [] : [{ found: `tokens of "${upstream.scope}" were granted ${found}` }]
  }
}

/** One death, one follow-up. */
export const obituaries: Invariant = {
  name: "follow-up",
  promise: "each death of a job that names a follow-up stores it once, unless an operator cancelled the job",
  atEnd: (history) =>
    ofKind(history, kinds.plain).flatMap((dead): ReadonlyArray<Finding> => {
      const deaths = history.trace
        .about(dead.id)
        .filter(({ what, who }) => who !== "checker" && / -> dead \((?!cancelled)/.test(what)).length
      const stored = ofKind(history, kinds.obituary).filter(
        ({ meta }) => meta !== undefined && JSON.parse(meta).follows === dead.id
      ).length
      return stored === deaths
        ? []
        : [{ job: dead.id, found: `${history.nameOf(dead.id)} died ${deaths} times and has ${stored} follow-ups` }]
    })
}

export const all: ReadonlyArray<Invariant> = [childWithParent, tokens, obituaries]
