import { readFile, realpath, rename, stat, writeFile } from "node:fs/promises"
import { Effect, Either } from "effect"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import * as ListEdit from "../../fleet/move/ListEdit.js"
import { SomeFailed } from "../Failure.js"

// Changes the list of the fleet in its file.

const byHand = (where: string, queue: string, cells: ReadonlyArray<string>, why: string) =>
  new SomeFailed({
    reasons: [
      `${why} Write this under \`queues\` of ${where}, and run the same command again. It continues here; until then the jobs are safe and do not start.`,
      `  ${queue}: ${ListEdit.written(cells)}`
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
    const path = yield* FleetConfig.file
    if (path === undefined)
      return yield* byHand(
        "NIGHTSHIFT_FLEET",
        queue,
        cells,
        "The list is the text of NIGHTSHIFT_FLEET, which a command cannot change."
      )
    const text = yield* Effect.promise(() => readFile(path, "utf8"))
    const edited = ListEdit.edit(text, queue, cells)
    if (Either.isLeft(edited)) return yield* byHand(path, queue, cells, `The form of ${path} cannot be changed safely.`)
    yield* Effect.tryPromise({
      try: () => replace(path, edited.right.text),
      catch: (error) =>
        byHand(
          path,
          queue,
          cells,
          `${path} cannot be written (${error instanceof Error ? error.message : String(error)}).`
        )
    })
    return [`changed ${path}:`, ...edited.right.lines.map((line) => `  ${line}`)]
  })
