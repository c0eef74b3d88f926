// Types only, without Effect: the views of programs that use promises are made from rows with these ids.

/** Exists only at compile time. */
declare const idOf: unique symbol

/** Text that is an id. */
export type Id<Of extends string> = string & {
  /** Says what the id identifies. No id has this property. */
  readonly [idOf]: Of
}

/** Id of a job. The client generates it before it sends the job. */
export type JobId = Id<"JobId">

/** Id of a batch of jobs. */
export type BatchId = Id<"BatchId">
