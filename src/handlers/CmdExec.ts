import { pipeline, Readable } from "node:stream"
import { Duration, Effect, Option, Schema } from "effect"
import * as DurationText from "../core/DurationText.js"
import * as Outcome from "../core/Outcome.js"
import * as Job from "../queue/Job.js"
import * as ChildProcess from "./ChildProcess.js"
import * as ChildReaper from "./ChildReaper.js"
import * as Confinement from "./Confinement.js"
import * as Handler from "./Handler.js"
import { OutputTail } from "./OutputTail.js"

// The `cmd_exec` kind runs allowed executables on this machine. It is off unless an operator enables it with a list of
// executables and a root directory.

/** What the jobs of `cmd_exec` may run, and where. */
export interface CmdExecOptions {
  /** Executables by absolute path, or by name. Names are resolved once, in the directories of `path`. */
  readonly allow: ReadonlyArray<string>
  /** The directory that contains every working directory and stdin file. */
  readonly root: string
  /** Environment variables that a job may set. [none] */
  readonly env?: ReadonlyArray<string>
  /** Timeout of a command, and the maximum that a job may request. [600 seconds] */
  readonly timeout?: Duration.DurationInput
  /** Search path for names. [/usr/local/bin:/usr/bin:/bin] */
  readonly path?: string
}

/** `cmd_exec` is enabled with invalid options. */
export class CmdExecUnusable extends Schema.TaggedError<CmdExecUnusable>()("CmdExecUnusable", {
  /** Which of the options is invalid. */
  option: Schema.Literal("allow", "root", "env"),
  /** What is wrong with the option, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `cmd_exec cannot be enabled: ${this.reason}.`
  }
}

/** Bytes kept of each output stream. */
const tailBytes = 16 * 1024
/** Two streams and the other fields must fit in a job's result. */
const tailJsonBytes = 24 * 1024
/** Maximum size of the output tail in an error message. */
const errorTailJsonBytes = 3 * 1024

const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Environment variables that no job may set: the dynamic loader and shells act on them for every program. */
export const neverAllowed = /^(?:(?:LD|DYLD|NIGHTSHIFT)_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4)$/

/**
 * An allow list, because a deny list is never complete: most programs read a variable that makes them run code
 * (NODE_OPTIONS, GIT_SSH_COMMAND, PAGER).
 */
const environmentOf = (allowed: ReadonlyArray<string>) =>
  Schema.Record({ key: Schema.String, value: Schema.String }).pipe(
    Schema.filter((given) =>
      Object.keys(given)
        .filter((name) => !allowed.includes(name))
        .map((name) => ({
          path: [name],
          message: `${name} is not allowed (allowed: ${allowed.join(", ") || "none"}). Add it to CMD_EXEC_ENV to allow it.`
        }))
    )
  )

const payloadOf = (env: ReadonlyArray<string>) =>
  Schema.Struct({
    /** The executable and its arguments, not interpreted by a shell. */
    argv: Schema.NonEmptyArray(Schema.String),
    /** Environment variables. Each must be allowed by the operator. */
    env: Schema.optional(environmentOf(env)),
    /** Working directory, inside the root. [the root] */
    cwd: Schema.optional(Schema.String),
    /** Text for standard input. */
    stdin: Schema.optional(Schema.String),
    /** A file inside the root to use as standard input instead. */
    stdin_file: Schema.optional(Schema.String),
    timeout_secs: Schema.optional(Schema.Positive),
    /** Exit codes that make the job dead instead of retrying it. */
    permanent: Schema.optional(Schema.Array(Schema.Int))
  })
    .pipe(
      Schema.filter(
        ({ stdin, stdin_file }) =>
          stdin === undefined || stdin_file === undefined || "set either stdin or stdin_file, not both"
      )
    )
    .annotations({ parseOptions: { onExcessProperty: "error" } })
type Payload = ReturnType<typeof payloadOf>["Type"]

const kindWith = (timeout: Duration.Duration, env: ReadonlyArray<string>) =>
  Job.make("cmd_exec", {
    payload: payloadOf(env),
    // Longer than our own timeout, which fires first and can include the command's output.
    timeout: Duration.sum(timeout, "30 seconds")
  })

interface Bounds {
  readonly allowed: Confinement.Allowed
  readonly root: string
  readonly timeout: Duration.Duration
}

/** The tail of a command's output. */
interface Output {
  readonly stdout: OutputTail
  readonly stderr: OutputTail
}

const listen = (child: ChildProcess.ChildProcess): Output => {
  const output = { stdout: new OutputTail(tailBytes), stderr: new OutputTail(tailBytes) }
  child.stdout.on("data", output.stdout.add)
  child.stderr.on("data", output.stderr.add)
  return output
}

const withTail = (how: string, { stderr, stdout }: Output): string => {
  const tail = (stderr.bytes > 0 ? stderr : stdout).text(errorTailJsonBytes).trim()
  return tail === "" ? how : `${how}: ${tail}`
}

const outcomeOf = (
  { argv, permanent = [] }: Payload,
  child: ChildProcess.ChildProcess,
  { code, signal }: ChildProcess.Ended,
  output: Output
): Outcome.Outcome => {
  const { stderr, stdout } = output
  if (code === 0) {
    return Outcome.done({
      exit_code: 0,
      stdout: stdout.text(tailJsonBytes),
      stderr: stderr.text(tailJsonBytes),
      stdout_bytes: stdout.bytes,
      stderr_bytes: stderr.bytes
    })
  }
  const refusal = child.refusalIn(stderr.text(errorTailJsonBytes))
  if (refusal !== undefined) return Outcome.dead(`${argv[0]} cannot be run: ${refusal}`)
  if (code === undefined) return Outcome.retry(withTail(`killed by ${signal}`, output))
  const error = withTail(`exit code ${code}`, output)
  return permanent.includes(code) ? Outcome.dead(error) : Outcome.retry(error)
}

const timeoutOf = ({ timeout_secs }: Payload, { timeout }: Bounds) => {
  const requested = timeout_secs === undefined ? timeout : Duration.seconds(timeout_secs)
  if (Duration.lessThanOrEqualTo(requested, timeout)) return Effect.succeed(requested)
  return new Confinement.Refused({ reason: `timeout_secs must be at most ${DurationText.format(timeout)}` })
}

/** Checks the whole request before it starts the command. */
const run = (reaper: ChildReaper.ChildReaper, bounds: Bounds) => (payload: Payload) =>
  Effect.gen(function* () {
    const [name, ...rest] = payload.argv
    const timeout = yield* timeoutOf(payload, bounds)
    const path = yield* Confinement.executable(bounds.allowed, name)
    const directory = yield* Confinement.folderIn(bounds.root, payload.cwd ?? ".")
    const input =
      payload.stdin_file === undefined
        ? Readable.from(payload.stdin === undefined ? [] : [payload.stdin])
        : yield* Confinement.fileIn(bounds.root, payload.stdin_file)
    const child = yield* ChildProcess.spawn(reaper, {
      argv: [path, ...rest],
      directory,
      root: bounds.root,
      environment: { PATH: ChildProcess.cleanPath, ...payload.env }
    })
    const output = listen(child)
    // Ignore write errors: a command may exit without reading its stdin.
    pipeline(input, child.stdin, () => {})
    const ended = yield* Effect.timeoutOption(child.ended, timeout)
    // Ends background processes of the command too, and waits until all output is read.
    yield* child.end
    return Option.match(ended, {
      onNone: () => Outcome.retry(withTail(`timed out after ${DurationText.format(timeout)}`, output)),
      onSome: (end) => outcomeOf(payload, child, end, output)
    })
  }).pipe(
    Effect.scoped,
    Effect.catchTags({
      Refused: ({ reason }) => Effect.succeed(Outcome.dead(reason)),
      SpawnFailed: ({ permanent, reason }) => {
        const error = `${payload.argv[0]} could not be started: ${reason}`
        return Effect.succeed(permanent ? Outcome.dead(error) : Outcome.retry(error))
      }
    })
  )

/** Makes the handler of the kind `cmd_exec`. Executables and root are resolved once, here. */
export const make = (options: CmdExecOptions): Effect.Effect<Handler.Handler<never>, CmdExecUnusable> =>
  Effect.gen(function* () {
    const timeout = Duration.decode(options.timeout ?? "600 seconds")
    const unusable =
      (option: CmdExecUnusable["option"]) =>
      ({ reason }: Confinement.Refused) =>
        new CmdExecUnusable({ option, reason })
    const path = options.path ?? ChildProcess.cleanPath
    const allowed = yield* Effect.mapError(Confinement.allow(options.allow, path), unusable("allow"))
    const root = yield* Effect.mapError(Confinement.folder(options.root), unusable("root"))
    const env = options.env ?? []
    const bad = env.find((name) => !variableName.test(name) || neverAllowed.test(name))
    if (bad !== undefined) {
      return yield* new CmdExecUnusable({
        option: "env",
        reason: `the variable "${bad}" is not a valid name or is reserved for the loader, the shell or Nightshift`
      })
    }
    const bounds = { allowed, root, timeout }
    return Handler.scoped(
      kindWith(timeout, env),
      Effect.map(ChildReaper.make, (reaper) => run(reaper, bounds))
    )
  })
