import { randomBytes } from "node:crypto"
import { join } from "node:path"
import { Console, Context, Deferred, Effect, Layer, Option, Redacted } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import * as DatabaseUrl from "../../database/DatabaseUrl.js"
import * as DataDirectory from "../../database/embedded/DataDirectory.js"
import { EmbeddedPostgres, freePort, layerDurable } from "../../database/embedded/EmbeddedPostgres.js"
import { inDirectory } from "../../database/embedded/EmbeddedPostgresError.js"
import * as Package from "../../database/Package.js"
import type { Cell, Fleet } from "../../fleet/Fleet.js"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import * as AdminToken from "../../http/access/AdminToken.js"
import * as ServerConfig from "../../http/ServerConfig.js"
import type * as Environment from "../Environment.js"
import * as Serve from "../Serve.js"
import * as Settings from "../Settings.js"

// All cells of a fleet in one process, for development. Each runs as `serve --cell` would.

/** The connection string of a cell: its own, or that of an embedded server in the directory. */
const databaseOf = (cell: Cell, directory: string) =>
  Redacted.value(cell.database) === ""
    ? Effect.map(
        Layer.build(layerDurable(join(directory, cell.name))),
        (server) => Context.get(server, EmbeddedPostgres).url
      )
    : Effect.succeed(cell.database)

interface Placed extends Cell {
  readonly port: number
  readonly api: string
}

/** The same fleet with all addresses, for producers and commands. JSON is YAML. */
const declarationOf = ({ main, queues }: Fleet, cells: ReadonlyArray<Placed>) => ({
  cells: Object.fromEntries(
    cells.map(({ api, database, listen, name, read, schema }) => [
      name,
      {
        database: Redacted.value(database),
        api,
        schema,
        listen: listen === undefined ? undefined : Redacted.value(listen),
        read: read === undefined ? undefined : Redacted.value(read)
      }
    ])
  ),
  queues: Object.fromEntries(
    [...queues].map(([queue, placed]) => [queue, { cells: placed.map(({ name }) => name), by: "key" }])
  ),
  default: main.name
})

/** Prints the admin token only if it was generated. */
const greeting = (cells: ReadonlyArray<Placed>, made: string | undefined, file: string) => {
  const widest = Math.max(8, ...cells.map(({ name }) => name.length))
  const lines = cells.map(
    ({ api, database, name }) => `  ${name.padEnd(widest)}  ${api}/ui/  (${DatabaseUrl.address(database)})`
  )
  return `
Nightshift ${Package.version.text} is up with ${cells.length} cells

${lines.join("\n")}

  ${"fleet".padEnd(widest)}  ${cells[0]?.api}/ui/#/fleet${made === undefined ? "" : `?token=${encodeURIComponent(made)}`}
  ${"programs".padEnd(widest)}  NIGHTSHIFT_FLEET=${file}

Stop it with Ctrl-C.
`
}

/** Queues that a cell serves: those that the list places there, and in the default cell those of the app that it does not list. */
const queuesOf =
  ({ main, queues }: Fleet, cell: Cell) =>
  (ofApp: ReadonlyArray<string>): ReadonlyArray<string> => {
    const own = [...queues].flatMap(([queue, cells]) => (cells.some(({ name }) => name === cell.name) ? [queue] : []))
    return cell.name === main.name ? [...own, ...ofApp.filter((queue) => !queues.has(queue))] : own
  }

/** Starts all cells, greets when all of them are up, and serves until interrupted. */
export const serve = (module: string | undefined, flags: Environment.Texts) =>
  Effect.gen(function* () {
    const fleet = yield* FleetConfig.forDevelopment
    const { host, port } = yield* ServerConfig.ServerConfig
    const directory = `${(yield* DatabaseConfig).directory}-fleet`
    yield* inDirectory(directory, () => DataDirectory.makeWithParents(directory, 0o755))
    const given = yield* ServerConfig.settings.adminToken.config
    const made = Option.isSome(given) ? undefined : Redacted.value(yield* AdminToken.readOrMake(directory))
    const cells = yield* Effect.forEach(
      [...fleet.cells.values()],
      (cell, place) =>
        Effect.gen(function* () {
          const database = yield* databaseOf(cell, directory)
          const chosen = port === 0 ? yield* freePort : port + place
          return { ...cell, database, port: chosen, api: `http://${HttpUrl.hostText(host)}:${chosen}` }
        }),
      { concurrency: "unbounded" }
    )
    const file = join(directory, "fleet.yaml")
    const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
    // The file contains passwords.
    yield* DataDirectory.writeWhole(join(directory, ".gitignore"), "*\n", owner)
    yield* DataDirectory.writeWhole(file, `${JSON.stringify(declarationOf(fleet, cells), null, 2)}\n`, owner)
    const shared = {
      ...flags,
      NIGHTSHIFT_FLEET: file,
      ...(made === undefined ? {} : { NIGHTSHIFT_ADMIN_TOKEN: made }),
      NIGHTSHIFT_FLEET_TOKEN: `${randomBytes(24).toString("base64url")}:admin`
    }
    const ups = yield* Effect.forEach(cells, () => Deferred.make<void>())
    const serveCell = (cell: Placed, up: Deferred.Deferred<void>) =>
      Serve.serve(
        module,
        { _tag: "Served", url: cell.database },
        { announced: Deferred.succeed(up, undefined), queuesOf: queuesOf(fleet, cell) }
      ).pipe(
        Effect.annotateLogs("cell", cell.name),
        Settings.configuredService({
          ...shared,
          NIGHTSHIFT_CELL: cell.name,
          PORT: String(cell.port),
          // What the environment says is for the default cell.
          NIGHTSHIFT_QUEUES: cell.name === fleet.main.name ? undefined : ""
        })
      )
    const greet = Effect.zipRight(Effect.forEach(ups, Deferred.await), Console.log(greeting(cells, made, file)))
    yield* Effect.all([greet, ...cells.map((cell, place) => serveCell(cell, ups[place] as Deferred.Deferred<void>))], {
      concurrency: "unbounded",
      discard: true
    })
  }).pipe(
    Effect.scoped,
    Effect.provide([DatabaseConfig.layer, ServerConfig.ServerConfig.layer]),
    Settings.configuredService({ ...flags, NIGHTSHIFT_CELL: "" })
  )
