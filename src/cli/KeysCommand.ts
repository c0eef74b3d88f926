import { Console, Effect, Layer } from "effect"
import { Database } from "../database/Database.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import * as KeysInUse from "../seal/KeysInUse.js"
import * as Seal from "../seal/Seal.js"
import * as CommonOptions from "./CommonOptions.js"
import * as DatabaseChoice from "./DatabaseChoice.js"
import * as Command from "./kit/Command.js"
import * as Settings from "./Settings.js"
import { print, table } from "./Terminal.js"

const layer = Database.layer.pipe(Layer.provide(DatabaseChoice.layerForCommand), Layer.provide(DatabaseConfig.layer))

interface Key {
  readonly key: string
  readonly values: number
  readonly configured: boolean
  readonly tables: ReadonlyArray<string>
}

const list = Effect.gen(function* () {
  const codec = yield* Seal.configured
  const found = yield* KeysInUse.all(yield* Database)
  const ids = [...new Set(found.map(({ key }) => key))].sort()
  return ids.map((key): Key => {
    const uses = found.filter((use) => use.key === key)
    return {
      key,
      values: uses.reduce((sum, { values }) => sum + values, 0),
      configured: codec?.opens?.(key) === true,
      tables: uses.map((use) => use.table)
    }
  })
})

const rowOf = ({ configured, key, tables, values }: Key) => [
  key,
  String(values),
  configured ? "yes" : "no",
  tables.join(", ")
]

export const command = Command.make({
  about: "List the keys that sealed values need. Keys that are not listed can be removed.",
  options: { ...CommonOptions.database, json: CommonOptions.json },
  examples: { "nightshift keys": "find out whether an old key can be removed" },
  run: (given) =>
    Effect.gen(function* () {
      const keys = yield* Effect.provide(list, layer)
      if (keys.length === 0 && !given.json) return yield* Console.log("No value is sealed.")
      yield* print(given.json, { keys }, table(["KEY", "VALUES", "CONFIGURED", "TABLES"], keys.map(rowOf)))
    }).pipe(Settings.configured(CommonOptions.databaseFlags(given)))
})
