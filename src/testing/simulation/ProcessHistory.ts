import type { PodFacts, UnlockedPod } from "../../cluster/Pods.js"
import type { PodId } from "../../core/Ids.js"

/** An operation that reached the database, as in `Call`. */
interface Operation {
  /** Name of the process that made the call. */
  readonly who: string
  /** Operation name, such as `Pods.beat`. */
  readonly call: string
  /** What the process passed to the operation. */
  readonly args: ReadonlyArray<unknown>
  /** True time in epoch milliseconds. */
  readonly at: number
}

/** The heartbeats and locks of the processes, in true time, and which process declared which one dead. */
export class ProcessHistory {
  private readonly beats = new Map<
    PodId,
    {
      /** Name of the process. */
      readonly who: string
      /** True time of its last heartbeat, in epoch milliseconds. */
      readonly at: number
    }
  >()
  private readonly locked = new Set<string>()
  private readonly removed = new Map<PodId, string>()

  /** Records that a process has taken its lock, or that the lock is free. */
  setLock(who: string, isHeld: boolean): void {
    if (isHeld) this.locked.add(who)
    else this.locked.delete(who)
  }

  /** Records the reply of an operation. */
  answered({ args, at, call, who }: Operation, answer: unknown): void {
    if (call === "Pods.beat") {
      const { id } = args[0] as PodFacts
      this.beats.set(id, { who, at })
      this.removed.delete(id)
    }
    if (call === "Pods.removeUnlocked")
      for (const { id } of answer as ReadonlyArray<UnlockedPod>) this.removed.set(id, who)
  }

  /** The name of a process, when it sent its last heartbeat, and whether it holds its lock. */
  of(id: PodId):
    | {
        /** Name of the process. */
        readonly who: string
        /** True time of its last heartbeat, in epoch milliseconds. */
        readonly at: number
        /** Whether the process holds its lock. */
        readonly isLocked: boolean
      }
    | undefined {
    const beat = this.beats.get(id)
    return beat === undefined ? undefined : { ...beat, isLocked: this.locked.has(beat.who) }
  }

  /** The process that removed a pod because its lock was free, unless the pod has sent a heartbeat since. */
  removerOf(id: PodId): string | undefined {
    return this.removed.get(id)
  }
}
