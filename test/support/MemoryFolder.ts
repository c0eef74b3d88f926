import { spawnSync } from "node:child_process"
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"

const memory = "/dev/shm"
const prefix = "nightshift-test-"
const enough = 3 * 1024 ** 3
const oneHour = 3_600_000

const hasRoom = () => {
  const { bavail, bsize } = statfsSync(memory)
  return bavail * bsize >= enough
}

/** Containers often mount it noexec, and tests of the embedded server run programs. */
const runsPrograms = (folder: string) => {
  const program = join(folder, "program")
  writeFileSync(program, "#!/bin/sh\n", { mode: 0o755 })
  return spawnSync(program).status === 0
}

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

/** The file with the process of the run. The name of the folder must stay short: sockets are below it. */
const owner = "process"

/** Whether the run with this folder was killed. A soak takes hours, so a folder is not abandoned because it is old. */
export const isAbandoned = (folder: string): boolean => {
  const modifiedAt = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Number.NaN
  if (!(modifiedAt < Date.now() - oneHour)) return false
  const file = join(folder, owner)
  return !existsSync(file) || !isAlive(Number(readFileSync(file, "utf8")))
}

const removeAbandoned = () => {
  for (const name of readdirSync(memory).filter((each) => each.startsWith(prefix))) {
    const folder = join(memory, name)
    if (isAbandoned(folder)) rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Creates a folder in memory for the temporary files of a run, or returns undefined if the machine has none that is
 * large enough. A database per test is three hundred files, and creating them takes ten times as long on some disks.
 */
export const make = (): string | undefined => {
  let folder: string | undefined
  try {
    if (!hasRoom()) return undefined
    removeAbandoned()
    folder = mkdtempSync(join(memory, prefix))
    writeFileSync(join(folder, owner), `${process.pid}`)
    // PostgreSQL runs as another user when the tests run as root.
    chmodSync(folder, 0o1777)
    if (runsPrograms(folder)) return folder
  } catch {
    // The folder does not exist or is not writable.
  }
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  return undefined
}

/** Removes the folder of this run, if it has one. */
export const remove = (folder: string | undefined): void => {
  if (folder?.startsWith(join(memory, prefix))) rmSync(folder, { recursive: true, force: true })
}
