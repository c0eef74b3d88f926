import type { Packed } from "./release/package.mjs"

/** Packs the folder `from`, this repository by default, as it is. */
export declare const pack: (folder: string, from?: string) => Promise<Packed>

/** Runs a command to its end, at most three minutes. Throws if it fails. */
export declare const must: (
  cwd: string,
  file: string,
  args: ReadonlyArray<string>,
  env?: Readonly<Record<string, string>>
) => Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }>

/** Starts a process and waits until it has printed `sign`. `stop` sends a signal and waits for its end. */
export declare const start: (
  cwd: string,
  file: string,
  args: ReadonlyArray<string>,
  options: { readonly env?: Readonly<Record<string, string>>; readonly sign: string }
) => Promise<{ readonly said: () => string; readonly stop: (signal: NodeJS.Signals) => Promise<number | string> }>
