import { closeSync, openSync } from "node:fs"
import { isatty } from "node:tty"
import { Effect, Schedule } from "effect"
import * as Environment from "./Environment.js"

// Detects stop requests: a signal, a closed terminal, or the exit of the package runner that started this process (npx,
// npm, pnpm, yarn). Runners start a shell in between that exits on SIGTERM without forwarding it; the server would keep
// running as an orphan and hold its port and its database.

/**
 * Milliseconds within which two signals count as one: npm forwards a Ctrl-C that the process also got from the
 * terminal.
 */
const sameRequest = 500

const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

/** Environment variables that package runners set for their child processes. */
const runnerVariables = ["npm_command", "npm_lifecycle_event", "npm_execpath", "npm_config_user_agent"]

const isStartedByRunner = (): boolean => {
  const environment = Environment.make({})
  return runnerVariables.some((name) => environment.lookUp(name) !== undefined)
}

/** Returns whether the process has a controlling terminal that is still open. */
const hasTerminal = (): boolean => {
  try {
    closeSync(openSync("/dev/tty", "r"))
    return true
  } catch {
    return false
  }
}

export interface Stop {
  /** Drains and exits. */
  readonly gracefully: () => void
  /** Exits immediately. */
  readonly atOnce: (code: number) => void
}

/** Installs the signal handlers. The returned effect polls the parent process. */
export const listen = (stop: Stop): Effect.Effect<void> => {
  const hasRunner = isStartedByRunner()
  let requestedAt: number | undefined
  const requestStop = () => {
    requestedAt ??= performance.now()
    stop.gracefully()
  }
  for (const [signal, code] of Object.entries(exitCodes)) {
    process.on(signal, () => {
      if (requestedAt === undefined) requestStop()
      else if (!hasRunner || performance.now() - requestedAt > sameRequest) stop.atOnce(code)
    })
  }

  // Under nohup none of the three is a terminal, and the process must survive when the terminal closes.
  const isInTerminal = [0, 1, 2].some((fd) => isatty(fd)) && hasTerminal()
  if (isInTerminal) {
    process.on("SIGHUP", () => {
      // Without another SIGHUP listener, SIGHUP stops the command, which is Node's default.
      const isReload = process.listenerCount("SIGHUP") > 1
      if (requestedAt === undefined && !(isReload && hasTerminal())) requestStop()
    })
  }

  const parent = process.ppid
  const watchParent = Effect.repeat(
    Effect.sync(() => process.ppid),
    { until: (now) => now !== parent, schedule: Schedule.spaced("250 millis") }
  )
  return hasRunner ? Effect.zipRight(watchParent, Effect.sync(requestStop)) : Effect.void
}
