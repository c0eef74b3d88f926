import type { Orders } from "../../cluster/Pods.js"
import type { QueueSettings } from "../../queue/settings/QueueSettings.js"

/**
 * How many slots a queue should have on this pod: none while it is paused, else what the leader assigned, else a fair guess,
 * and never more than this pod allows.
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
