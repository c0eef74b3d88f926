import { execFile } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { promisify } from "node:util"
import { build } from "esbuild"
import { libraries, link } from "../examples/ExampleProject.js"
import { root } from "../support/Nightshift.js"

const page = readFileSync(join(root, "docs/recipes/prisma.md"), "utf8")

/** Writes the schema of docs/recipes/prisma.md to a folder and lets Prisma generate the client, without a download. */
export const generate = async (folder: string): Promise<void> => {
  const [, schema = ""] = /^```prisma\n([\s\S]*?)^```$/m.exec(page) ?? []
  mkdirSync(join(folder, "prisma"), { recursive: true })
  writeFileSync(join(folder, "prisma/schema.prisma"), schema)
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: "1" }
  await promisify(execFile)(join(libraries, "prisma/node_modules/.bin/prisma"), ["generate"], { cwd: folder, env })
}

/** A project with the client and the programs of the page. `load` imports one of its files, compiled. */
export const make = async (folder: string) => {
  const packages = ["nightshift", "zod", "pg", "@prisma/client", "@prisma/adapter-pg"]
  link(folder, packages)
  await generate(folder)
  for (const [, name = "", text = ""] of page.matchAll(/^```ts\n\/\/ (\S+)\n([\s\S]*?)^```$/gm))
    writeFileSync(join(folder, name), text)
  return async <Module>(file: string): Promise<Module> => {
    const outfile = join(folder, file.replaceAll("/", "-").replace(/\.ts$/, ".mjs"))
    const options = { bundle: true, packages: "external", format: "esm", platform: "node", target: "node20" } as const
    await build({ ...options, entryPoints: [join(folder, file)], outfile, logLevel: "error" })
    return import(pathToFileURL(outfile).href)
  }
}

/** What the tests use of Prisma's transactions. */
export interface PrismaTransaction {
  readonly $executeRawUnsafe: (query: string, ...values: ReadonlyArray<unknown>) => Promise<number>
  readonly $queryRawUnsafe: <T = unknown>(query: string, ...values: ReadonlyArray<unknown>) => Promise<T>
}

export interface PrismaClient extends PrismaTransaction {
  readonly $transaction: <T>(body: (tx: PrismaTransaction) => Promise<T>) => Promise<T>
  readonly $disconnect: () => Promise<void>
}

/** What the generated file exports. */
export interface Generated {
  readonly PrismaClient: new (options: object) => PrismaClient
}
