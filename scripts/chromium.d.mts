/** A program, and what its environment needs besides the usual. */
export interface Chromium {
  readonly executable: string
  readonly env: Readonly<Record<string, string>>
}

/** The browser to test with, if this machine has one ready. Throws when CHROMIUM_PATH names one that cannot be used. */
export declare const findChromium: () => Chromium | undefined

/** How to start a browser so that it behaves the same on every machine. `home` is an empty folder it may write to. */
export declare const launchOptions: (
  chromium: Chromium,
  home: string
) => {
  readonly executablePath: string
  readonly args: Array<string>
  readonly env: Record<string, string>
}
