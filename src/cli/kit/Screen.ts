import { Effect } from "effect"
import { isColoured } from "../../telemetry/LogConfig.js"

/** What a command prints on: how wide it is and whether it has colours. */
export interface Screen {
  /** Infinite if it is not a terminal. */
  readonly columns: number
  readonly colour: boolean
}

/** A file or a pipe. */
export const plain: Screen = { columns: Number.POSITIVE_INFINITY, colour: false }

/** Standard output. It has colours as FORCE_COLOR or NO_COLOR say, otherwise on a terminal. */
export const stdout: Effect.Effect<Screen> = Effect.map(
  Effect.orElseSucceed(isColoured(process.stdout), () => false),
  (colour) => ({ colour, columns: (process.stdout.isTTY === true ? process.stdout.columns : 0) || plain.columns })
)

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36 }

/** The text in a style, on a screen with colours. */
export const styled = ({ colour }: Screen, style: keyof typeof codes, text: string): string =>
  colour && text !== "" ? `\u001b[${codes[style]}m${text}\u001b[0m` : text

/** Colours of the words that name a state or an outcome. */
const states: Readonly<Record<string, keyof typeof codes>> = {
  scheduled: "magenta",
  retrying: "yellow",
  pending: "blue",
  running: "cyan",
  done: "green",
  dead: "red",
  cancelled: "dim",
  open: "green",
  paused: "yellow",
  undeclared: "yellow",
  active: "green",
  completed: "green",
  failed: "red",
  suspended: "blue",
  ok: "green",
  warn: "yellow",
  fail: "red"
}

/** A state in its colour. The first word decides: `dead (exhausted)` is dead. */
export const state = (screen: Screen, text: string): string => {
  const colour = states[/^\w+/.exec(text)?.[0].toLowerCase() ?? ""]
  return colour === undefined ? text : styled(screen, colour, text)
}
