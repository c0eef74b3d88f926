// CPU time of the PostgreSQL server, read from /proc. Works on Linux, for a server on this machine.
import { readdirSync, readFileSync } from "node:fs"

/** Clock ticks per second in /proc: 100 on every architecture that Node supports. */
const ticks = 100

// Fields of /proc/PID/stat after the command name, which may contain spaces.
const statOf = (pid) => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8")
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
    return {
      parent: Number(fields[1]),
      own: Number(fields[11]) + Number(fields[12]),
      ended: Number(fields[13]) + Number(fields[14])
    }
  } catch {
    return undefined
  }
}

/**
 * CPU seconds of the server that owns this backend: the postmaster, its children, and its children that have ended.
 * Undefined if the backend is not a process of this machine.
 */
export const serverCpu = (backend) => {
  const postmaster = statOf(backend)?.parent
  for (;;) {
    const main = postmaster === undefined ? undefined : statOf(postmaster)
    if (main === undefined) return undefined
    const children = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(statOf)
      .filter((stat) => stat?.parent === postmaster)
    // A child that ended meanwhile may be in neither sum.
    if (statOf(postmaster)?.ended !== main.ended) continue
    return (main.own + main.ended + children.reduce((sum, { own }) => sum + own, 0)) / ticks
  }
}
