/** A number of jobs. */
export interface Total {
  readonly count: number
  /** False if the count is a lower bound. */
  readonly exact: boolean
}
