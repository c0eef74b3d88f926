import { spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { Effect, type Scope } from "effect"
import { build, transform } from "esbuild"
import * as Nightshift from "../support/Nightshift.js"

export const examples = join(Nightshift.root, "examples")

/** The folder with the libraries that `npm run test:long` installs. */
export const libraries = join(Nightshift.root, "test", "libraries")

/** The folders of the examples. */
export const names: ReadonlyArray<string> = readdirSync(examples, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

export interface Manifest {
  readonly scripts: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

export const manifestOf = (name: string): Manifest =>
  JSON.parse(readFileSync(join(examples, name, "package.json"), "utf8"))

const installed = (name: string) => {
  const places = [libraries, Nightshift.root].map((folder) => join(folder, "node_modules", name))
  return places.find((place) => existsSync(place)) ?? name
}

/** Links the packages that a folder may import: the build of this repository as `nightshift`, the rest as installed here. */
export const link = (cwd: string, names: ReadonlyArray<string>): void => {
  for (const name of names) {
    const place = join(cwd, "node_modules", name)
    mkdirSync(dirname(place), { recursive: true })
    symlinkSync(name === "nightshift" ? Nightshift.root : installed(name), place)
  }
}

/** Copies an example, with the packages that its package.json names and no others. */
export const copy = (name: string, cwd: string): void => {
  cpSync(join(examples, name), cwd, { recursive: true })
  link(cwd, Object.keys(manifestOf(name).dependencies))
}

/** A copy of an example in a temporary folder. */
export const copied = (name: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.tap(Nightshift.folder, (cwd) => copy(name, cwd))

/** Compiles the TypeScript of a folder in place, as `tsx` does when it loads a file. */
export const compiled = (cwd: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    const files = readdirSync(cwd, { recursive: true, encoding: "utf8" })
    for (const file of files.filter((each) => each.endsWith(".ts") && !each.startsWith("node_modules"))) {
      const { code } = await transform(readFileSync(join(cwd, file), "utf8"), { loader: "ts", target: "node20" })
      writeFileSync(join(cwd, file.replace(/\.ts$/, ".js")), code)
    }
  })

/** Starts a program of an example and waits until it says that it is ready. It is killed with the Scope. */
export const started = (name: string, entry: string, ready: RegExp, databaseUrl: string) =>
  Effect.gen(function* () {
    const cwd = yield* copied(name)
    const outfile = join(cwd, "program.mjs")
    const bundle = { bundle: true, packages: "external", format: "esm", platform: "node", target: "node20" } as const
    yield* Effect.promise(() => build({ ...bundle, entryPoints: [join(cwd, entry)], outfile, logLevel: "error" }))
    const env = { PATH: process.env.PATH, DATABASE_URL: databaseUrl, PORT: "0" }
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn(process.execPath, [outfile], { cwd, env, stdio: ["ignore", "pipe", "pipe"] })),
      (running) => Effect.sync(() => running.kill("SIGKILL"))
    )
    const ended = once(child, "exit")
    let said = ""
    const match = yield* Effect.promise(
      () =>
        new Promise<RegExpExecArray>((found, failed) => {
          for (const stream of [child.stdout, child.stderr]) {
            stream.on("data", (chunk) => {
              said += chunk
              const here = ready.exec(said)
              if (here !== null) found(here)
            })
          }
          ended.then(() => failed(new Error(`it ended: ${said}`)))
        })
    )
    return { match, child, ended }
  })
