import type { Packed } from "./release/package.mjs"

/** Packs the folder `from`, this repository by default, as it is. */
export declare const pack: (folder: string, from?: string) => Promise<Packed>
