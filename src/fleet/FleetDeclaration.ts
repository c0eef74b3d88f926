// Types only, without Effect: programs that use promises declare fleets with them.

/** A fleet as a program or a file declares it. */
export interface FleetDeclaration {
  /** The cells by name: lower-case letters, digits and -. */
  readonly cells: Readonly<Record<string, CellDeclaration>>
  /** The cell of a queue, or the cells that it is divided over by key. [the default cell] */
  readonly queues?: Readonly<Record<string, string | DividedQueue>> | undefined
  /** The cell of all other queues. [the only cell] */
  readonly default?: string | undefined
}

/** A queue that several cells have. */
export interface DividedQueue {
  /** Names of its cells. */
  readonly cells: ReadonlyArray<string>
  /** What decides the cell of a job: all jobs of a key are in one cell. */
  readonly by: "key"
}

/** A cell as a program or a file declares it. */
export interface CellDeclaration {
  /** Connection string of its PostgreSQL. `${NAME}` is replaced by the environment variable. */
  readonly database: string
  /** Schema of its tables. [DATABASE_SCHEMA, else nightshift] */
  readonly schema?: string | undefined
  /** Connection string for notifications, if `database` leads to a pooler. [none] */
  readonly listen?: string | undefined
  /** Connection string of a replica that lists and charts are read from. [none] */
  readonly read?: string | undefined
  /** URL of its HTTP service. [none] */
  readonly api?: string | undefined
}
