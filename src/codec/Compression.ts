import * as zlib from "node:zlib"

// Node has zstd from 22.15 on. The value says how it was compressed.

/** How a value was compressed: not at all, with gzip or with zstd. */
export type Compression = "n" | "g" | "z"

/** Opening refuses values that expand to more than this. */
const maxBytes = 16 * 1024 * 1024

const zstd = zlib as {
  readonly zstdCompressSync?: (data: Buffer) => Buffer
  readonly zstdDecompressSync?: (data: Buffer, options: { readonly maxOutputLength: number }) => Buffer
}

/** Compresses data, if that makes it smaller. */
export const compress = (data: Buffer): readonly [Compression, Buffer] => {
  const [how, packed] =
    zstd.zstdCompressSync === undefined
      ? (["g", zlib.gzipSync(data)] as const)
      : (["z", zstd.zstdCompressSync(data)] as const)
  return packed.length < data.length ? [how, packed] : ["n", data]
}

/** The data before it was compressed. Throws if this version of Node cannot read it. */
export const decompress = (how: string, data: Buffer): Buffer => {
  if (how === "n") return data
  if (how === "g") return zlib.gunzipSync(data, { maxOutputLength: maxBytes })
  if (zstd.zstdDecompressSync === undefined)
    throw new Error(
      `the value is compressed with zstd, which Node.js ${process.versions.node} does not have: use 22.15 or later`
    )
  return zstd.zstdDecompressSync(data, { maxOutputLength: maxBytes })
}
