import { createHash } from "node:crypto"
import { channel, subscribe, unsubscribe } from "node:diagnostics_channel"
import { closeSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { pathToFileURL } from "node:url"
import { Script } from "node:vm"

// A third of the CPU time of a start is compilation. The first `serve` therefore stores the compiled functions of the
// bundle, and later starts load them. The file is next to the bundle: a user who can write there can also change the
// bundle. V8 rejects code of another version, but does not notice that the source changed or that the code is damaged, and
// would crash. The digest covers both. This module imports only Node's own modules, because it runs before the bundle.

const digestSize = 32

const digestOf = (source: Buffer, code: Buffer): Buffer =>
  createHash("sha256").update(`${process.version} ${process.arch}\n`).update(source).update(code).digest()

const read = (file: string, source: Buffer): Buffer | undefined => {
  try {
    const stored = readFileSync(file)
    const code = stored.subarray(digestSize)
    return digestOf(source, code).equals(stored.subarray(0, digestSize)) ? code : undefined
  } catch {
    return undefined
  }
}

/** Two processes may write at once: each renames its own file, and the last one wins. */
const write = (file: string, source: Buffer, script: Script): void => {
  const unfinished = `${file}.${process.pid}`
  try {
    const handle = openSync(unfinished, "w", 0o644)
    try {
      const code = script.createCachedData()
      writeFileSync(handle, Buffer.concat([digestOf(source, code), code]))
      renameSync(unfinished, file)
    } finally {
      closeSync(handle)
      rmSync(unfinished, { force: true })
    }
  } catch {
    // The folder is read-only, or the disk is full.
  }
}

/** From the bundle, which has its own copy of this module, to the module that runs the bundle. */
const compiled = "nightshift.compiled"

/** Stores the functions that this process has compiled so far, unless it was started with stored ones. */
export const save = (): void => channel(compiled).publish(undefined)

/** Runs a bundle in CommonJS format. It must be ASCII, and may use `require` and `moduleUrl`. */
export const run = (file: string): void => {
  const source = readFileSync(file)
  const stored = `${file}.cache`
  const cachedData = read(stored, source)
  const script = new Script(`(function (require, moduleUrl) {${source.toString("latin1")}\n})`, {
    filename: file,
    ...(cachedData === undefined ? {} : { cachedData })
  })
  const onCompiled = () => {
    unsubscribe(compiled, onCompiled)
    write(stored, source, script)
  }
  if (cachedData === undefined || script.cachedDataRejected === true) subscribe(compiled, onCompiled)
  script.runInThisContext()(createRequire(file), pathToFileURL(file).href)
}
