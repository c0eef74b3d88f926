/** What `npm pack` reports. */
export interface Packed {
  readonly filename: string
  readonly files: ReadonlyArray<{ readonly path: string; readonly size: number }>
  readonly size: number
  readonly tarball: string
  readonly unpackedSize: number
}
