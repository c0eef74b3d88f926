import { Effect } from "effect"
import type * as Setting from "../core/Setting.js"
import * as CommonOptions from "./CommonOptions.js"
import * as Environment from "./Environment.js"
import * as FleetFlags from "./FleetFlags.js"
import * as Command from "./kit/Command.js"
import * as Settings from "./Settings.js"
import { printJson, printText, table } from "./Terminal.js"

interface EffectiveSetting {
  readonly key: string
  readonly value: string
  readonly source: "default" | "env" | "cell"
  readonly about: string
}

const effective = (setting: Setting.Setting<unknown>, environment: Environment.Environment): EffectiveSetting => {
  const { about, key } = setting
  const given = environment.lookUp(key)
  if (given === undefined) return { key, value: setting.fallback, source: "default", about }
  // The command has no options for settings: its flags are those of the cell.
  const source = given.source === "flag" ? "cell" : given.source
  return { key, value: setting.secret && given.text !== "" ? "(hidden)" : given.text, source, about }
}

export const command = Command.make({
  about: "Show all settings with their current value and its source. Secrets are hidden.",
  options: { json: CommonOptions.json },
  examples: { "nightshift config": "show all settings" },
  run: ({ json }) =>
    FleetFlags.inCell({}, (flags) =>
      Effect.gen(function* () {
        const environment = Environment.make(flags)
        const settings = Settings.all.map((setting) => effective(setting, environment))
        if (json) return yield* printJson(settings)
        const rows = settings.map(({ about, key, source, value }) => [key, value === "" ? "-" : value, source, about])
        yield* printText(table(["KEY", "VALUE", "SOURCE", "DESCRIPTION"], rows, { wraps: true }))
      })
    ).pipe(Settings.configured({}))
})
