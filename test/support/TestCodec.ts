import { createHash } from "node:crypto"
import { type Codec, seal } from "../../src/codec/index.js"

/** A key that depends only on its id. */
export const testKey = (id: string) => ({ id, key: createHash("sha256").update(id).digest() })

/** Seals with the first of these keys and opens with all. */
export const testCodec = (...ids: ReadonlyArray<string>): Codec => seal({ keys: ids.map(testKey) })
