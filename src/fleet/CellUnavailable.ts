import type { Answer } from "../core/ExpectedError.js"
import { DatabaseUnavailable } from "../database/DatabaseError.js"

/** A cell of the fleet cannot be reached. Only its own queues are affected, and the call can be retried. */
export class CellUnavailable extends DatabaseUnavailable {
  constructor(
    /** Name of the cell. */
    readonly cell: string,
    { detail, nothingWritten, sqlState }: Pick<DatabaseUnavailable, "detail" | "nothingWritten" | "sqlState">
  ) {
    super({ detail, nothingWritten, ...(sqlState === undefined ? {} : { sqlState }) })
  }

  override get message(): string {
    const written = this.nothingWritten
      ? "Nothing was stored; try again."
      : "The connection was lost during a write, so the change may have been made: check before you retry."
    return `Cell ${this.cell} is not available: ${this.detail.replace(/\.$/, "")}. ${written} Other cells are not affected.`
  }

  override get answer(): Answer {
    return { ...super.answer, code: "CELL_UNAVAILABLE" }
  }
}
