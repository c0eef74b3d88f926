import { storedList } from "./StoredList"
import type { Pod } from "./Views"

// A pod has one name everywhere: its label, or the end of its id, which is random. Labels of pods that have stopped are
// no longer in the database, so the browser remembers those it has seen.

const remembered = "nightshift.pod labels"
const maxRememberedPods = 200

const labels = new Map<string, string>(storedList("localStorage", remembered))

/** Remembers the labels of live pods. */
export const rememberPods = (pods: ReadonlyArray<Pod>): void => {
  const fresh = pods.flatMap(({ id, label }) =>
    label === null || labels.get(id) === label ? [] : [[id, label] as const]
  )
  if (fresh.length === 0) return
  for (const [id, label] of fresh) labels.set(id, label)
  localStorage.setItem(remembered, JSON.stringify([...labels].slice(-maxRememberedPods)))
}

/** The name of a pod. */
export const podName = (id: string): string => labels.get(id) ?? id.slice(-8)
