import pg from "pg"

// The driver asks for a description of the result with every execution of a prepared statement, and builds a table of
// decoders from it. The description of a prepared statement never changes, so a connection asks for it once.

/** The columns of a result; none if the statement returns no rows. */
export interface Description {
  readonly fields: ReadonlyArray<object>
}

/** Methods of the driver's query that its types do not declare. The client calls them. */
interface DriverQuery {
  readonly prepare: (connection: object) => void
  readonly handleRowDescription: (description: Description) => void
  readonly handleReadyForQuery: (connection: object) => void
}

const driver = pg.Query.prototype as unknown as DriverQuery

const silent = new WeakMap<object, object>()

/** The connection with a `describe` that sends nothing. */
const withoutDescribe = (connection: object): object => {
  const found = silent.get(connection) ?? Object.create(connection, { describe: { value: () => {} } })
  silent.set(connection, found)
  return found
}

/** A named statement, whose description is looked up in the descriptions of its connection. */
export class PreparedQuery extends pg.Query {
  /** Set by the driver. */
  declare readonly name: string
  private received: Description = { fields: [] }

  constructor(
    config: pg.QueryConfig & { readonly name: string },
    private readonly descriptions: Map<string, Description>
  ) {
    super(config)
  }

  prepare(connection: object): void {
    const known = this.descriptions.get(this.name)
    if (known !== undefined && known.fields.length > 0) driver.handleRowDescription.call(this, known)
    driver.prepare.call(this, known === undefined ? connection : withoutDescribe(connection))
  }

  handleRowDescription(description: Description): void {
    this.received = description
    driver.handleRowDescription.call(this, description)
  }

  /** Not called if the statement fails. */
  handleReadyForQuery(connection: object): void {
    if (!this.descriptions.has(this.name)) this.descriptions.set(this.name, this.received)
    driver.handleReadyForQuery.call(this, connection)
  }
}
