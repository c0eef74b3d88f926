import { closeSync, openSync } from "node:fs"
import { isatty } from "node:tty"
import { Effect, Schedule } from "effect"
import * as Environment from "./Environment.js"

// How this process learns that it must end: by a signal, because its terminal closed, or because the package runner that
// started it (npx, npm, pnpm, yarn) has ended. Runners put a shell in between that dies of SIGTERM without passing it on; the
// server would go on as an orphan, holding its port and its database.

/** npm forwards Ctrl-C to a process that already got it from the terminal: one request, not two. */
const sameRequest = 500

const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

/** The variables that package runners set for what they start. */
const runnerVariables = ["npm_command", "npm_lifecycle_event", "npm_execpath", "npm_config_user_agent"]

const isStartedByRunner = (): boolean => {
  const environment = Environment.make({})
  return runnerVariables.some((name) => environment.lookUp(name) !== undefined)
}

/** Whether this process has a terminal that is still there. */
const hasTerminal = (): boolean => {
  try {
    closeSync(openSync("/dev/tty", "r"))
    return true
  } catch {
    return false
  }
}

export interface Stop {
  /** Ends in good order. */
  readonly gracefully: () => void
  /** Ends now. */
  readonly atOnce: (code: number) => void
}

/** Listens until the process ends. The effect watches the parent. */
export const listen = (stop: Stop): Effect.Effect<void> => {
  const hasRunner = isStartedByRunner()
  let asked: number | undefined
  const ask = () => {
    asked ??= performance.now()
    stop.gracefully()
  }
  for (const [signal, code] of Object.entries(exitCodes)) {
    process.on(signal, () => {
      if (asked === undefined) ask()
      else if (!hasRunner || performance.now() - asked > sameRequest) stop.atOnce(code)
    })
  }

  // Under nohup none of the three is a terminal: the user wants the process to survive the terminal.
  const isInTerminal = [0, 1, 2].some((fd) => isatty(fd)) && hasTerminal()
  if (isInTerminal) {
    process.on("SIGHUP", () => {
      // A command that does nothing else on SIGHUP ends by it, as it would without us.
      const isReload = process.listenerCount("SIGHUP") > 1
      if (asked === undefined && !(isReload && hasTerminal())) ask()
    })
  }

  const parent = process.ppid
  const watchParent = Effect.repeat(
    Effect.sync(() => process.ppid),
    { until: (now) => now !== parent, schedule: Schedule.spaced("250 millis") }
  )
  return hasRunner ? Effect.zipRight(watchParent, Effect.sync(ask)) : Effect.void
}
