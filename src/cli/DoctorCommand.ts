import { Effect } from "effect"
import * as CommonOptions from "./CommonOptions.js"
import type { Finding } from "./doctor/Check.js"
import * as ConfigCheck from "./doctor/ConfigCheck.js"
import * as DoctorRun from "./doctor/DoctorRun.js"
import * as HealthCheck from "./doctor/HealthCheck.js"
import * as Environment from "./Environment.js"
import { notBoth, SomeFailed } from "./Failure.js"
import * as FleetFlags from "./FleetFlags.js"
import * as Command from "./kit/Command.js"
import * as Input from "./kit/Input.js"
import * as Settings from "./Settings.js"
import { print, printable, table } from "./Terminal.js"

const rowsOf = ({ check, fix, found, status }: Finding) => [
  [status, check, printable(found)],
  ...(fix === undefined ? [] : [["", "", `-> ${printable(fix)}`]])
]

/** Checks the settings first: with invalid ones, no other check can run. */
const examine = (flags: Environment.Texts) =>
  FleetFlags.inCell(flags, (all) =>
    Effect.gen(function* () {
      const environment = Environment.make(all)
      const config = yield* Effect.withConfigProvider(ConfigCheck.run(environment), environment.provider)
      if (DoctorRun.hasFailed(config)) return config
      return [...config, ...(yield* DoctorRun.ofDatabase().pipe(Settings.configured(flags)))]
    })
  )

export const command = Command.make({
  about: "Find problems and print how to fix them. Exits with code 1 if a check fails.",
  options: {
    ...CommonOptions.database,
    url: Input.optional(Input.url, "Only check whether the process at this URL is alive and ready."),
    json: CommonOptions.json
  },
  examples: {
    "nightshift doctor": "find problems and their fixes",
    "nightshift doctor --url http://127.0.0.1:8787": "check that a running process is alive and ready",
    "nightshift doctor --json": "print JSON"
  },
  run: (given) =>
    Effect.gen(function* () {
      yield* notBoth("--url", "--cell", given.url !== undefined && given.cell !== undefined)
      yield* notBoth("--url", "--embedded", given.url !== undefined && given.embedded)
      const findings =
        given.url === undefined ? yield* examine(CommonOptions.databaseFlags(given)) : yield* HealthCheck.run(given.url)
      const text = table(["", "CHECK", "FOUND"], findings.flatMap(rowsOf), { wraps: true })
      yield* print(given.json, { ok: !DoctorRun.hasFailed(findings), findings }, text)
      const failed = findings.filter(({ status }) => status === "fail").length
      if (failed > 0) return yield* new SomeFailed({ reasons: [`${failed} of ${findings.length} checks failed.`] })
    })
})
