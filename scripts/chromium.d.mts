/** A program, and what its environment needs besides the usual. */
export interface Chromium {
  readonly executable: string
  readonly env: Readonly<Record<string, string>>
}

/** The browser to test with, if this machine has one ready. Throws when CHROMIUM_PATH names one that cannot be used. */
export declare const findChromium: () => Chromium | undefined
