export interface Report {
  readonly code: number | null
  readonly tests: ReadonlyArray<{
    readonly file: string
    readonly name: string
    readonly status: string
    readonly message: string
  }>
  /** Files that could not be loaded or whose hooks failed. */
  readonly broken: ReadonlyArray<{ readonly file: string; readonly message: string }>
  /** The end of what it printed. */
  readonly output: string
}

export const runVitest: (
  cwd: string,
  args: ReadonlyArray<string>,
  env?: Readonly<Record<string, string>>
) => Promise<Report>
