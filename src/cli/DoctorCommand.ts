import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Console, Effect, Option } from "effect"
import * as CommonOptions from "./CommonOptions.js"
import type { Finding } from "./doctor/Check.js"
import * as ConfigCheck from "./doctor/ConfigCheck.js"
import * as DoctorRun from "./doctor/DoctorRun.js"
import * as HealthCheck from "./doctor/HealthCheck.js"
import * as Environment from "./Environment.js"
import { SomeFailed, UsageError } from "./Failure.js"
import * as Settings from "./Settings.js"
import { printable, table } from "./Terminal.js"

const url = Options.text("url").pipe(
  Options.withDescription("Only check whether the process at this URL is alive and ready."),
  Options.optional
)

const rowsOf = ({ check, fix, found, status }: Finding) => [
  [status, check, printable(found)],
  ...(fix === undefined ? [] : [["", "", `-> ${printable(fix)}`]])
]

const readUrl = (text: string): Effect.Effect<URL, UsageError> =>
  URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
    ? Effect.succeed(new URL(text))
    : new UsageError({ message: `--url must be a URL like http://127.0.0.1:8787, got "${text}".` })

/** Checks the settings first: with invalid ones, no other check can run. */
const examine = (flags: Environment.Texts) =>
  Effect.gen(function* () {
    const environment = Environment.make(flags)
    const config = yield* Effect.withConfigProvider(ConfigCheck.run(environment), environment.provider)
    if (DoctorRun.hasFailed(config)) return config
    return [...config, ...(yield* DoctorRun.ofDatabase.pipe(Settings.configured(flags)))]
  })

const report = (findings: ReadonlyArray<Finding>, json: boolean) =>
  Console.log(
    json
      ? JSON.stringify({ ok: !DoctorRun.hasFailed(findings), findings }, null, 2)
      : table(["", "CHECK", "FOUND"], findings.flatMap(rowsOf))
  )

export const command = Command.make("doctor", { ...CommonOptions.database, url, json: CommonOptions.json }, (options) =>
  Effect.gen(function* () {
    const findings = yield* Option.match(options.url, {
      onSome: (text) => Effect.flatMap(readUrl(text), HealthCheck.run),
      onNone: () => examine(CommonOptions.databaseFlags(options))
    })
    yield* report(findings, options.json)
    const failed = findings.filter(({ status }) => status === "fail").length
    if (failed > 0) return yield* new SomeFailed({ reasons: [`${failed} of ${findings.length} checks failed.`] })
  })
).pipe(Command.withDescription("Find problems and print how to fix them. Exits with code 1 if a check fails."))
