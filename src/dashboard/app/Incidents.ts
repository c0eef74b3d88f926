import * as Incidents from "../../core/Incidents.js"
import * as JobFilter from "./JobFilter"
import { podName } from "./PodNames"
import { to } from "./Route"

export { keptKey, manyRetries, maxExaminedRetries, snoozeOf } from "../../core/Incidents.js"

/** An incident with a link to the page where it can be fixed. */
export interface Incident extends Incidents.Incident {
  readonly href: string
}

const hrefOf = (place: Incidents.Place): string => {
  if ("page" in place) return to(place.page, place.query)
  const { state: _, ...rest } = JobFilter.ofJson(place.filter as Readonly<Record<string, unknown>>)
  return JobFilter.address("dead", rest)
}

/** Returns the incidents, the most urgent first. */
export const of = (known: Omit<Incidents.Known, "nameOf">, now: number): ReadonlyArray<Incident> =>
  Incidents.of({ ...known, nameOf: podName }, now).map((incident) => ({ ...incident, href: hrefOf(incident.place) }))
