/** A bundled package with the text of its licence. */
export interface License {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly text: string
}

/** Name, version, licence and its text, for each package that has one of these files. */
export declare const licensesOf: (root: string, files: ReadonlyArray<string>) => ReadonlyArray<License>
/** One text of all licences. */
export declare const notices: (licenses: ReadonlyArray<License>) => string
