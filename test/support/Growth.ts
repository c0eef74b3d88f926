/** CPU time of this process: on a loaded machine the time of a clock includes that of other processes. */
const cpuMillis = (): number => {
  const { system, user } = process.cpuUsage()
  return (user + system) / 1_000
}

/** The shortest of several runs: load makes runs longer, never shorter. */
const shortest = (run: () => void): number => {
  let best = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < 5; turn += 1) {
    const began = cpuMillis()
    run()
    best = Math.min(best, cpuMillis() - began)
  }
  return best
}

/** Shorter runs are repeated until they take this long, because of the timer's resolution. */
const minMillis = 0.5

/**
 * How many times longer an input of eight times the size takes: about 8 for linear work, about 64 for quadratic work.
 * It is a ratio, so it does not depend on the machine's speed.
 */
export const growth = (run: (size: number) => void, small: number): number => {
  let best = Number.POSITIVE_INFINITY
  // Load on the machine changes the ratio either way; quadratic work never looks linear.
  for (let turn = 0; turn < 5 && best >= linear; turn += 1) best = Math.min(best, measured(run, small))
  return best
}

const measured = (run: (size: number) => void, small: number): number => {
  for (let turn = 0; turn < 20; turn += 1) run(small)
  let times = 1
  while (times < 1_000 && shortest(() => repeat(times, () => run(small))) < minMillis) times *= 2
  const before = shortest(() => repeat(times, () => run(small))) / times
  return shortest(() => run(8 * small)) / before
}

const repeat = (times: number, run: () => void) => {
  for (let turn = 0; turn < times; turn += 1) run()
}

/** The maximum of `growth`. Garbage collection makes linear work measure 8 to 25; quadratic work measures 60. */
export const linear = 40

const yardstick = "x".repeat(64 * 1024)
let seen = 0
const pass = () => {
  for (let index = 0; index < yardstick.length; index += 1) seen += yardstick.charCodeAt(index)
}

let onePass: number | undefined

/** The fastest duration of a run, in units of a pass over 64 KiB of text; stops at the first run under `enough`. */
export const passes = (run: () => void, enough: number): number => {
  onePass ??= shortest(pass)
  let best = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < 5 && best >= enough; turn += 1) {
    const began = cpuMillis()
    run()
    best = Math.min(best, (cpuMillis() - began) / onePass)
  }
  return seen < 0 ? 0 : best
}
