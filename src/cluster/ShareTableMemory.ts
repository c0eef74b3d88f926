import { Context, Layer } from "effect"
import type { PodId } from "../core/Ids.js"
import type { Share } from "./Shares.js"

const keyOf = ({ pod, queue }: Pick<Share, "pod" | "queue">) => `${queue} ${pod}`

/** The in-memory share table, used by both Pods and Shares. */
export class ShareTable extends Context.Tag("nightshift/cluster/ShareTableMemory")<
  ShareTable,
  {
    readonly put: (share: Share) => void
    readonly slotsOf: (queue: string, pod: PodId) => number | undefined
    readonly all: () => ReadonlyArray<Share>
    readonly removeWhere: (matches: (pod: PodId) => boolean) => void
  }
>() {
  static readonly layer: Layer.Layer<ShareTable> = Layer.sync(ShareTable, () => {
    const shares = new Map<string, Share>()
    return {
      put: (share) => void shares.set(keyOf(share), share),
      slotsOf: (queue, pod) => shares.get(keyOf({ queue, pod }))?.slots,
      all: () => [...shares].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, share]) => share),
      removeWhere: (matches) => {
        for (const [key, { pod }] of shares) if (matches(pod)) shares.delete(key)
      }
    }
  })
}
