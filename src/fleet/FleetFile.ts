import { Either, Predicate, Redacted } from "effect"
import * as CellTag from "../core/CellTag.js"
import * as HttpUrl from "../core/HttpUrl.js"
import { plainNames } from "../core/Storable.js"
import { schemaFault } from "../database/DatabaseConfig.js"
import * as DatabaseUrl from "../database/DatabaseUrl.js"
import { type FileFields, FileProblems, isSlug, type Read, shown, slugRule } from "../gateway/config/FileFields.js"
import { isQueueName } from "../queue/NewJob.js"
import type { Cell, Fleet } from "./Fleet.js"

// The text of a fleet: cells by name, queues by name, and the default cell. One reading reports all mistakes.

const cellKeys = ["database", "schema", "listen", "read", "api"]

type Variables = ReadonlyMap<string, string>

const variable = /\$\{(\w+)\}/g

/** Names of the environment variables in a text. */
export const variablesIn = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(variable)].map(([, name = ""]) => name)

/** Replaces `${NAME}` by variables. Left names one that is not set. */
const filledIn = (text: string, variables: Variables): Either.Either<string, string> => {
  const missing = variablesIn(text).find((name) => !variables.has(name))
  return missing === undefined
    ? Either.right(text.replace(variable, (_, name: string) => variables.get(name) ?? ""))
    : Either.left(`the environment variable ${missing} to be set`)
}

/** Reads a connection string. Messages never contain it, because it may contain a password. */
const readUrl = (fields: FileFields, key: string, variables: Variables): Redacted.Redacted | undefined => {
  const value = fields.raw(key)
  if (value === undefined) return undefined
  const filled = typeof value === "string" ? filledIn(value, variables) : Either.left("text")
  const fault = Either.isLeft(filled) ? filled.left : DatabaseUrl.fault(filled.right)
  if (fault === undefined) return Redacted.make(Either.getOrElse(filled, () => ""))
  fields.problems.add(fields.at(key), `expected ${fault}`)
  return undefined
}

const readSchema: Read<string | undefined> = (value) => {
  const fault = typeof value === "string" ? schemaFault(value) : "text"
  return fault === undefined ? Either.right(value as string) : Either.left(fault)
}

/** Viewers see the URL, so it must not contain a password, and neither must a message about it. Paths are appended to it. */
const readApi = (fields: FileFields): string | undefined => {
  const value = fields.raw("api")
  if (value === undefined) return undefined
  const url = typeof value === "string" ? HttpUrl.plain(value) : undefined
  if (url !== undefined && url.search === "" && url.hash === "") return String(value).replace(/\/+$/, "")
  const found = typeof value === "string" && value.includes("@") ? "" : `, got ${shown(value)}`
  fields.problems.add(
    fields.at("api"),
    `expected a URL without credentials and query, like https://mail.internal:8787${found}`
  )
  return undefined
}

/** What a declaration must contain. */
export interface ReadOptions {
  /** Whether cells need a `database`. Those without one get an empty URL. [true] */
  readonly databases?: boolean
}

/** A cell whose queues are read after it. */
interface ReadCell extends Cell {
  readonly divided: Map<string, number>
}

const readCell = (
  name: string,
  value: unknown,
  problems: FileProblems,
  variables: Variables,
  { databases = true }: ReadOptions
): ReadCell => {
  const path = `cells.${name}`
  if (!isSlug(name)) problems.add(path, `${shown(name)} is not a valid name of a cell: ${slugRule}`)
  // A connection string in place of the object is not repeated, because it may contain a password.
  const fields = problems.fields(typeof value === "string" ? "…" : value, path, cellKeys)
  if (databases && !fields.has("database") && Predicate.isRecord(value))
    problems.add(fields.at("database"), "is missing; expected a URL like postgres://user:password@host:5432/database")
  return {
    name,
    database: readUrl(fields, "database", variables) ?? Redacted.make(""),
    schema: fields.optional("schema", readSchema, undefined),
    listen: readUrl(fields, "listen", variables),
    read: readUrl(fields, "read", variables),
    api: readApi(fields),
    tag: CellTag.ofName(name),
    divided: new Map()
  }
}

/** Rejects cells that lookups or producers would mistake for each other. */
const noteSame = (cells: ReadonlyArray<Cell>, problems: FileProblems) => {
  cells.forEach((cell, index) => {
    for (const other of cells.slice(0, index)) {
      const isSame = Redacted.value(other.database) === Redacted.value(cell.database) && other.schema === cell.schema
      if (isSame && Redacted.value(cell.database) !== "")
        problems.add(`cells.${cell.name}`, `has the database and schema of ${other.name}: cells need separate ones`)
      if (other.tag === cell.tag)
        problems.add(`cells.${cell.name}`, `the ids of its jobs would look like those of ${other.name}: rename it`)
    }
  })
}

const readQueue = (
  name: string,
  value: unknown,
  cells: ReadonlyMap<string, ReadCell>,
  problems: FileProblems
): ReadonlyArray<ReadCell> => {
  const path = `queues.${name}`
  if (!isQueueName(name)) problems.add(path, `is not a queue name: use ${plainNames}`)
  const cellOf = (given: unknown, at: string) => {
    const cell = typeof given === "string" ? cells.get(given) : undefined
    if (cell === undefined) problems.unknownWord(at, "the name of a cell", given, cells.keys())
    return cell === undefined ? [] : [cell]
  }
  if (!Predicate.isRecord(value) || Array.isArray(value)) {
    if (!Array.isArray(value)) return cellOf(value, path)
    problems.add(path, `several cells need { cells: ${shown(value)}, by: key }`)
    return []
  }
  const fields = problems.fields(value, path, ["cells", "by"])
  const listed = fields.raw("cells")
  if (!Array.isArray(listed) || listed.length === 0) {
    problems.add(fields.at("cells"), `expected a list of cells like [mail, mail-2], got ${shown(listed)}`)
    return []
  }
  const found = listed.flatMap((given) => cellOf(given, fields.at("cells")))
  const twice = found.find((cell, index) => found.indexOf(cell) !== index)
  if (twice !== undefined) problems.add(fields.at("cells"), `names ${twice.name} twice`)
  fields.required("by", (by) => (by === "key" ? Either.right(by) : Either.left("key")), "key")
  return found
}

/** Reads a declaration. Left lists all its problems. */
export const read = (
  value: unknown,
  variables: Variables,
  options: ReadOptions = {}
): Either.Either<Fleet, ReadonlyArray<string>> => {
  const problems = new FileProblems()
  const whole = problems.fields(value ?? {}, "", ["cells", "queues", "default"])
  const entriesOf = (key: string) => {
    const found = whole.raw(key) ?? {}
    if (Predicate.isRecord(found) && !Array.isArray(found)) return Object.entries(found)
    problems.add(key, `expected an object with one entry per name, got ${shown(found)}`)
    return []
  }
  const cells = new Map(
    entriesOf("cells").map(([name, cell]) => [name, readCell(name, cell, problems, variables, options)] as const)
  )
  const [first] = cells.values()
  if (cells.size === 0) problems.add("cells", "expected at least one cell, like { main: { database: postgres://… } }")
  noteSame([...cells.values()], problems)
  const queues = new Map(
    entriesOf("queues").map(([name, queue]) => [name, readQueue(name, queue, cells, problems)] as const)
  )
  for (const [queue, placed] of queues)
    if (placed.length > 1) for (const cell of placed) cell.divided.set(queue, placed.length)
  const named = whole.raw("default")
  const main = named === undefined && cells.size === 1 ? first : cells.get(String(named))
  if (named === undefined && cells.size > 1)
    problems.add("default", "is missing; expected the name of the cell that has all queues that are not listed")
  else if (named !== undefined && main === undefined)
    problems.unknownWord("default", "the name of a cell", named, cells.keys())
  return main === undefined || problems.list.length > 0
    ? Either.left(problems.list)
    : Either.right({ cells, queues, main })
}
