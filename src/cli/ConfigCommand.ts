import { Effect } from "effect"
import type * as Setting from "../core/Setting.js"
import * as CommonOptions from "./CommonOptions.js"
import * as Environment from "./Environment.js"
import * as Command from "./kit/Command.js"
import * as Settings from "./Settings.js"
import { printJson, printText, table } from "./Terminal.js"

interface EffectiveSetting {
  readonly key: string
  readonly value: string
  readonly source: "default" | "env" | "flag"
  readonly about: string
}

const effective = (setting: Setting.Setting<unknown>, environment: Environment.Environment): EffectiveSetting => {
  const { about, key } = setting
  const given = environment.lookUp(key)
  if (given === undefined) return { key, value: setting.fallback, source: "default", about }
  return { key, value: setting.secret ? "(hidden)" : given.text, source: given.source, about }
}

export const command = Command.make({
  about: "Show all settings with their current value and its source. Secrets are hidden.",
  options: { json: CommonOptions.json },
  examples: { "nightshift config": "show all settings" },
  run: ({ json }) =>
    Effect.gen(function* () {
      const environment = Environment.make({})
      const settings = Settings.all.map((setting) => effective(setting, environment))
      if (json) return yield* printJson(settings)
      const rows = settings.map(({ about, key, source, value }) => [key, value === "" ? "-" : value, source, about])
      yield* printText(table(["KEY", "VALUE", "SOURCE", "DESCRIPTION"], rows, { wraps: true }))
    }).pipe(Settings.configured({}))
})
