/** Where an incident can be fixed: a page of Mission Control, or the list of the jobs that match a filter. */
export type Place =
  | { readonly page: string; readonly query?: Readonly<Record<string, string>> }
  | { readonly filter: unknown }

/** What can be done about an incident at once, without harm. */
export type SafeAction = { readonly resume: string } | { readonly copy: string }

export interface Incident {
  /** Names the incident, however many jobs it concerns. */
  readonly key: string
  readonly text: string
  readonly place: Place
  /** Jobs fail or are refused, jobs wait, or nothing is late yet. */
  readonly severity: "failing" | "waiting" | "notice"
  /** How many jobs it concerns, and since when, in seconds. */
  readonly jobs: number
  readonly age: number
  /** When it began, if the text does not say how long it lasts, in epoch milliseconds. */
  readonly since?: number | undefined
  readonly trend?: Trend | undefined
  readonly action?: SafeAction | undefined
}

/** The last hour of an incident, oldest first. */
export interface Trend {
  readonly label: string
  readonly values: ReadonlyArray<number>
  /** Jobs per minute that were added lately; negative if they become fewer. */
  readonly growth: number
}

export const sumOf = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0)

/** Points of a trend over which its growth is measured. */
const growthPoints = 5

/** Jobs per minute in the last points, the newest of which is incomplete. */
export const growthOf = (changes: ReadonlyArray<number>, width: number, newestLasted: number): number => {
  const minutes = ((growthPoints - 1) * width + newestLasted) / 60
  return Math.round(sumOf(changes.slice(-growthPoints)) / Math.max(1, minutes))
}
