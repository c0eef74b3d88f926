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

// Runs an allowed executable, and says what became of it. It is a way to run programs on this machine: it exists only where
// somebody switched it on, with what may be run and where.

export interface CmdExecOptions {
  /** Executables by absolute path, or by name: found once, in the folders of `path`. */
  readonly allow: ReadonlyArray<string>
  /** Commands work in here and nowhere else. */
  readonly root: string
  /** The environment variables that a job may set. [none] */
  readonly env?: ReadonlyArray<string>
  /** How long a command may run, and the most that a job may ask for. [600 seconds] */
  readonly timeout?: Duration.DurationInput
  /** Where to look for names. [/usr/local/bin:/usr/bin:/bin] */
  readonly path?: string
}

/** The command handler was switched on, and cannot be. */
export class CmdExecUnusable extends Schema.TaggedError<CmdExecUnusable>()("CmdExecUnusable", {
  option: Schema.Literal("allow", "root", "env"),
  reason: Schema.String
}) {
  override get message(): string {
    return `cmd_exec cannot be switched on: ${this.reason}.`
  }
}

/** Each stream, as it is kept. */
const tailBytes = 16 * 1024
/** Two streams and the rest must fit in a job's result. */
const tailJsonBytes = 24 * 1024
/** Of an error's text, the stream's end is the larger part. */
const errorTailJsonBytes = 3 * 1024

const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/
// The loader and the shell that starts the command act upon these, whatever the program is.
const neverAllowed = /^(?:(?:LD|DYLD|NIGHTSHIFT)_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4)$/

/**
 * A list of what is refused would never be complete: nearly every program has a variable that makes it run code (NODE_OPTIONS,
 * GIT_SSH_COMMAND, PAGER), and new ones come with new releases.
 */
const environmentOf = (allowed: ReadonlyArray<string>) =>
  Schema.Record({ key: Schema.String, value: Schema.String }).pipe(
    Schema.filter((given) =>
      Object.keys(given)
        .filter((name) => !allowed.includes(name))
        .map((name) => ({
          path: [name],
          message: `${name} is not allowed; allowed: ${allowed.join(", ") || "none"}. An operator allows variables in CMD_EXEC_ENV.`
        }))
    )
  )

const payloadOf = (env: ReadonlyArray<string>) =>
  Schema.Struct({
    /** The executable and its arguments, as they are: no shell looks at them. */
    argv: Schema.NonEmptyArray(Schema.String),
    /** Variables for it, of those that are allowed. */
    env: Schema.optional(environmentOf(env)),
    /** Where to work, inside of the root. [the root] */
    cwd: Schema.optional(Schema.String),
    /** What to write to its standard input. */
    stdin: Schema.optional(Schema.String),
    /** A file inside of the root to write to its standard input instead. */
    stdin_file: Schema.optional(Schema.String),
    timeout_secs: Schema.optional(Schema.Positive),
    /** Exit codes after which trying again would be the same again. */
    permanent: Schema.optional(Schema.Array(Schema.Int))
  })
    .pipe(
      Schema.filter(
        ({ stdin, stdin_file }) =>
          stdin === undefined || stdin_file === undefined || "give stdin or stdin_file, not both"
      )
    )
    .annotations({ parseOptions: { onExcessProperty: "error" } })
type Payload = ReturnType<typeof payloadOf>["Type"]

const kindWith = (timeout: Duration.Duration, env: ReadonlyArray<string>) =>
  Job.make("cmd_exec", {
    payload: payloadOf(env),
    // Ours comes first, and can say what the command wrote.
    timeout: Duration.sum(timeout, "30 seconds")
  })

interface Bounds {
  readonly allowed: Confinement.Allowed
  readonly root: string
  readonly timeout: Duration.Duration
}

/** What a command wrote, as much of it as is kept. */
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
  const said = (stderr.bytes > 0 ? stderr : stdout).text(errorTailJsonBytes).trim()
  return said === "" ? how : `${how}: ${said}`
}

/** Says how a command ended, with the end of what it said about it. */
const judge = (
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
  if (code === undefined) return Outcome.retry(withTail(`ended by ${signal}`, output))
  const error = withTail(`exit code ${code}`, output)
  return permanent.includes(code) ? Outcome.dead(error) : Outcome.retry(error)
}

const timeoutOf = ({ timeout_secs }: Payload, { timeout }: Bounds) => {
  const asked = timeout_secs === undefined ? timeout : Duration.seconds(timeout_secs)
  if (Duration.lessThanOrEqualTo(asked, timeout)) return Effect.succeed(asked)
  return new Confinement.Refused({ reason: `timeout_secs is more than the ${DurationText.format(timeout)} allowed` })
}

/** Nothing is started before everything that was asked for is known to be allowed. */
const run = (keeper: ChildReaper.ChildReaper, bounds: Bounds) => (payload: Payload) =>
  Effect.gen(function* () {
    const [name, ...rest] = payload.argv
    const timeout = yield* timeoutOf(payload, bounds)
    const path = yield* Confinement.executable(bounds.allowed, name)
    const directory = yield* Confinement.folderIn(bounds.root, payload.cwd ?? ".")
    const input =
      payload.stdin_file === undefined
        ? Readable.from(payload.stdin === undefined ? [] : [payload.stdin])
        : yield* Confinement.fileIn(bounds.root, payload.stdin_file)
    const child = yield* ChildProcess.spawn(keeper, {
      argv: [path, ...rest],
      directory,
      root: bounds.root,
      environment: { PATH: ChildProcess.cleanPath, ...payload.env }
    })
    const output = listen(child)
    // A command need not read all of it, or any.
    pipeline(input, child.stdin, () => {})
    const ended = yield* Effect.timeoutOption(child.ended, timeout)
    // What it left running ends with it; then all that was written has been read.
    yield* child.end
    return Option.match(ended, {
      onNone: () => Outcome.retry(withTail(`timed out after ${DurationText.format(timeout)}`, output)),
      onSome: (end) => judge(payload, child, end, output)
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

/** The handler of the kind `cmd_exec`, within these bounds. Executables and root are looked up now, and not again. */
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
      return yield* new CmdExecUnusable({ option: "env", reason: `the variable "${bad}" cannot be allowed` })
    }
    const bounds = { allowed, root, timeout }
    return Handler.scoped(
      kindWith(timeout, env),
      Effect.map(ChildReaper.make, (keeper) => run(keeper, bounds))
    )
  })
