export interface FoundPage {
  readonly title: string
  readonly url: string
  readonly weight: number
  readonly sections: ReadonlyArray<{ readonly anchor: string; readonly heading: string; readonly text: string }>
}
export declare const makeIndex: (pages: ReadonlyArray<FoundPage>) => object
export declare const search: (
  index: object,
  query: string,
  limit?: number
) => ReadonlyArray<{ readonly title: string; readonly heading: string; readonly url: string; readonly excerpt: string }>
