import { closeSync, existsSync, openSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join, relative, resolve } from "node:path"
import { Console, Effect, Schema } from "effect"
import { makeWithParents } from "../../database/embedded/DataDirectory.js"
import * as Package from "../../database/Package.js"
import * as CommonOptions from "../CommonOptions.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import { printJson } from "../Terminal.js"
import { files } from "./InitTemplate.js"

/** Some of the project's files already exist. Nothing was written. */
class FilesExist extends Schema.TaggedError<FilesExist>()("FilesExist", {
  folder: Schema.String,
  files: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `${this.folder} already contains ${this.files.join(", ")}, and init does not overwrite files. Choose another folder: \`nightshift init <folder>\`.`
  }
}

class WriteFailed extends Schema.TaggedError<WriteFailed>()("WriteFailed", {
  file: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Cannot write ${this.file}: ${this.reason}. Fix the problem or choose another folder.`
  }
}

/** Creates the file, which is among `created` from then on. */
const writeNew = (path: string, text: string, created: Array<string>) => {
  const refuse = (error: unknown) =>
    new WriteFailed({ file: path, reason: error instanceof Error ? error.message : String(error) })
  return Effect.zipRight(
    Effect.tryPromise({ try: () => makeWithParents(dirname(path), 0o755), catch: refuse }),
    Effect.try({
      try: () => {
        // wx: fails if another program has created the file since the check.
        const file = openSync(path, "wx")
        created.push(path)
        try {
          writeFileSync(file, text)
        } finally {
          closeSync(file)
        }
      },
      catch: refuse
    })
  )
}

/** A path as one word of a shell. */
const word = (path: string) => (/^[\w./@-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)

const init = (given: string) =>
  Effect.gen(function* () {
    const target = resolve(given)
    const project = files(basename(target), Package.version.text)
    const existing = Object.keys(project).filter((file) => existsSync(join(target, file)))
    if (existing.length > 0) return yield* new FilesExist({ folder: target, files: existing })
    const created: Array<string> = []
    yield* Effect.forEach(Object.entries(project), ([file, text]) => writeNew(join(target, file), text, created)).pipe(
      // Half a project would be refused by the next run.
      Effect.onError(() =>
        Effect.sync(() => {
          for (const path of created) rmSync(path, { force: true })
        })
      )
    )
    return { folder: target, files: Object.keys(project) }
  })

export const command = Command.make({
  about: "Write a small TypeScript project: a job, its handler, a test and a compose file.",
  args: {
    folder: Input.withDefault(
      Input.folder,
      ".",
      "Folder of the project, created if it does not exist (default: the current folder)."
    )
  },
  options: { json: CommonOptions.json },
  examples: {
    "nightshift init my-jobs": "write a TypeScript project with a job and a test",
    "nightshift init --json": "write it to this folder, print JSON"
  },
  run: ({ folder, json }) =>
    Effect.gen(function* () {
      const written = yield* init(folder)
      if (json) return yield* printJson(written)
      for (const file of written.files) yield* Console.log(`wrote ${join(folder, file)}`)
      const path = relative("", written.folder)
      const enter = path === "" ? "" : `cd ${word(path)} && `
      yield* Console.log(`\nNext: ${enter}npm install && npm test && npm run dev`)
    })
})
