import type { Orders } from "../../cluster/Pods.js"
import type { QueueSettings } from "../../queue/settings/QueueSettings.js"

/**
 * Returns the number of slots of a queue on this pod: 0 while the queue is paused, otherwise the leader's assignment,
 * or an even split if there is none yet; limited by this pod's maximum.
 */
export const of = (
  settings: Pick<QueueSettings, "name" | "maxWorkers" | "paused">,
  { companions, shares }: Orders,
  cap: number
): number => {
  if (settings.paused) return 0
  const fair = Math.ceil(settings.maxWorkers / (companions.get(settings.name) ?? 1))
  return Math.min(cap, shares.get(settings.name) ?? fair)
}
