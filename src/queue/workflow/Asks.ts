import type { Deferred } from "./Execution.js"

// An ask is a row of the kind `ask`: a value for a handler in the code of a running execution. The run records that it has
// received the ask, calls the handler, and writes the answer to the row, which ends the wait of the caller.

/** An ask to an execution. */
export interface Ask {
  readonly execution: string
  readonly name: string
  /** Names the ask: a second ask with the same name and id is not delivered again, and gets the same answer. */
  readonly id: string
  /** A JSON value of at most 64 KiB. */
  readonly value: unknown
}

/** The name of the row of an ask. The length of a name with a slash says where its id begins. */
export const rowOf = ({ id, name }: Pick<Ask, "id" | "name">): string =>
  name.includes("/") ? `/${name.length}/${name}/${id}` : `${name}/${id}`

/** How long an execution that continues with a new journal keeps answers, in milliseconds: callers may not have read them. */
export const keepAnswers = 3_600_000

/** What the handler returned, or the error that it threw. */
export type Answer =
  | { readonly value: unknown }
  | { readonly error: { readonly name: string; readonly message: string } }

/** `exit` of the row of an ask. */
export interface AskExit {
  readonly name: string
  readonly value: unknown
  readonly answer?: Answer
}

/** The asks that have arrived and have no answer, in the order of their arrival. */
export const openAsks = (
  waits: ReadonlyArray<Deferred>
): ReadonlyArray<{ readonly row: string; readonly name: string; readonly value: unknown }> =>
  waits.flatMap(({ completedAt, exit, kind, name: row }) => {
    if (kind !== "ask" || completedAt !== undefined) return []
    const { name, value } = exit as AskExit
    return [{ row, name, value }]
  })

/** What became of an ask: its answer, or `ended` if the execution has ended or its row was deleted. */
export type AskEnd = Answer | "ended"
