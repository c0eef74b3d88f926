import { describe, layer as withLayer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import { draftLaws } from "./DraftLaws.js"
import { type Advance, lawOf, type Ports } from "./Inbox.js"
import { putLaws } from "./PutLaws.js"
import { sweepLaws } from "./SweepLaws.js"
import { tokensLaws } from "./TokensLaws.js"
import { uploadReadLaws } from "./UploadReadLaws.js"
import { uploadTransactionLaws } from "./UploadTransactionLaws.js"

const chapters = {
  "storing files": putLaws,
  drafts: draftLaws,
  "fetching and acknowledging": uploadReadLaws,
  sweeping: sweepLaws,
  "the caller's transaction": uploadTransactionLaws,
  tokens: tokensLaws
}

const mib = 1024 * 1024

/** The defaults, with limits that a law can reach. */
export const config: Layer.Layer<UploadsConfig> = Layer.effect(
  UploadsConfig,
  Effect.map(UploadsConfig, (defaults) => ({ ...defaults, maxFile: mib, quota: 4 * mib }))
).pipe(Layer.provide(UploadsConfig.layerDefault))

/** Laws of the upload inbox. All laws share the layer. */
export const uploadLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    for (const [chapter, laws] of Object.entries(chapters)) {
      describe(chapter, () => laws(lawOf(it.effect, options.advance)))
    }
  })
