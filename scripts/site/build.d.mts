/** Builds the site into a folder. `broken` lists links that lead nowhere and pages to which no page links. */
export declare const build: (folder: string) => Promise<{
  readonly folder: string
  readonly pages: ReadonlyArray<{ readonly path: string; readonly html: string }>
  readonly broken: ReadonlyArray<string>
  readonly placeholder: boolean
}>
