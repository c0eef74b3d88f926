import { readFile, realpath, rename, stat, writeFile } from "node:fs/promises"
import { Effect } from "effect"
import * as ErrorText from "../../core/ErrorText.js"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import { SomeFailed } from "../Failure.js"

// Changes the list of the fleet in its file.

const byHand = (where: string, line: string, why: string) =>
  new SomeFailed({
    reasons: [
      `${why} Write this under \`queues\` of ${where}, and run the same command again. It continues here; until then the jobs are safe and do not start.`,
      `  ${line}`
    ]
  })

/** Replaces the file in one step, so that no process reads a part of it. */
const replace = async (path: string, text: string) => {
  const real = await realpath(path)
  const { mode } = await stat(real)
  const fresh = `${real}.${process.pid}.new`
  await writeFile(fresh, text, { mode })
  await rename(fresh, real)
}

/** Places a queue in these cells. Returns what was changed. Fails with what to do by hand. */
export const place = (queue: string, cells: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    // Loaded when it is used: it needs the YAML library.
    const ListEdit = yield* Effect.promise(() => import("../../fleet/move/ListEdit.js"))
    const line = `${queue}: ${ListEdit.written(cells)}`
    const path = yield* FleetConfig.file
    if (path === undefined)
      return yield* byHand(
        "NIGHTSHIFT_FLEET",
        line,
        "The list is the text of NIGHTSHIFT_FLEET, which a command cannot change."
      )
    const text = yield* Effect.promise(() => readFile(path, "utf8"))
    const edited = ListEdit.edit(text, queue, cells)
    if (edited === undefined) return yield* byHand(path, line, `The form of ${path} cannot be changed safely.`)
    yield* Effect.tryPromise({
      try: () => replace(path, edited.text),
      catch: (error) => byHand(path, line, `${path} cannot be written (${ErrorText.messageOf(error)}).`)
    })
    return [`changed ${path}:`, ...edited.lines.map((each) => `  ${each}`)]
  })
