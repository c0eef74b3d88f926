import * as Instant from "../../http/Instant.js"
import type { LoggedLine, StoredLog } from "../../queue/logs/JobLogs.js"
import * as PrettyLine from "../../telemetry/PrettyLine.js"
import type { Shown } from "../Terminal.js"

const lineText = ({ at, error, fields, level, message, step }: LoggedLine, colour: boolean): string =>
  PrettyLine.of(
    {
      time: Instant.format(at),
      level,
      msg: message,
      ...(step === undefined ? {} : { step }),
      ...fields,
      ...(error === undefined ? {} : { error })
    },
    colour
  )

const heading = ({ attempt, dropped }: StoredLog) =>
  `log of attempt ${attempt}${dropped === 0 ? "" : `, without ${dropped} older ${dropped === 1 ? "line" : "lines"}`}`

/** The stored logs of a job, for people. */
export const of =
  (logs: ReadonlyArray<StoredLog>): Shown =>
  ({ colour }) =>
    logs.length === 0
      ? "log            no lines stored: the handler logged nothing, or JOB_LOGS is false"
      : logs.flatMap((log) => [heading(log), ...log.lines.map((line) => `  ${lineText(line, colour)}`)]).join("\n")
