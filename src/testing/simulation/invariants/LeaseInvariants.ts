import { Context, Duration } from "effect"
import type { UnlockedPod } from "../../../cluster/Pods.js"
import type { HeldJob } from "../../../queue/Queue.js"
import { ClusterConfig } from "../../../worker/ClusterConfig.js"
import { type Call, type Change, endOf, isClaim } from "../HistoryEntry.js"
import type { Finding, Invariant } from "../Invariant.js"
import { context } from "../PodSettings.js"

const named = (lease: string | undefined, name: (lease: string) => string) =>
  lease === undefined ? "none" : name(lease)

/** Returns the lease that an operation presents for a job. */
const presentedLease = ({ call, before }: Change): string | undefined => {
  if (call === undefined || before === undefined) return undefined
  switch (call.call) {
    case "Queue.finalize":
      return endOf(call, before)?.lease
    case "Queue.heartbeat":
      return (call.args[0] as ReadonlyArray<HeldJob>).find(
        ({ id, lease }) => id === before.id && lease === before.run?.lease
      )?.lease
    case "Queue.progress":
      return (call.args[0] as HeldJob).lease
    default:
      return undefined
  }
}

/** Whether the change wakes an execution that waited for a job which the call ended. */
const isWakeUp = ({ after, before }: Change): boolean =>
  before?.woken !== undefined && after?.woken === before.woken + 1 && after.run === before.run

const fenced = new Set(["Queue.finalize", "Queue.heartbeat", "Queue.progress"])

/** Whether a run had no heartbeat, in true time, for the limit that the reaper used. */
const isQuiet = ({ args, at }: Call, lastBeat: number): boolean =>
  at - lastBeat >= Duration.toMillis(args[0] as Duration.Duration)

export const oneLease: Invariant = {
  name: "one lease",
  promise: "a job has at most one live lease, and a stale attempt changes nothing",
  onChange: (change, { beatAt, leases, processes, trace }) => {
    const { call, after, before } = change
    if (call === undefined || isWakeUp(change)) return undefined
    const name = (lease: string) => trace.nameOfLease(lease)
    const row = after ?? before
    const job = row === undefined ? "a job" : trace.nameOf(row.id)
    if (call.call === "Queue.claim" || isClaim(change)) {
      if (call.call === "Queue.claim" && before?.status !== "pending")
        return `${call.who} claimed ${job}, which was ${before?.status ?? "missing"}`
      const taken = after?.run === undefined ? undefined : leases.get(after.run.lease)
      return taken === undefined || taken === call
        ? undefined
        : `${call.who} claimed ${job} under ${named(after?.run?.lease, name)}, which was already used`
    }
    if (fenced.has(call.call) && before !== undefined) {
      const presented = presentedLease(change)
      if (presented !== undefined && presented === before.run?.lease) return undefined
      return `${call.call} of ${call.who} with ${named(presented, name)} changed ${job}, which was held by ${named(before.run?.lease, name)}`
    }
    if (call.call === "Queue.recoverStuck" && before !== undefined) {
      const lastBeat = beatAt.get(before.id) ?? call.at
      if (before.run !== undefined && isQuiet(call, lastBeat)) return undefined
      return `${call.who} rescued ${job}, which was ${before.status} and had a heartbeat ${(call.at - lastBeat) / 1000} s ago`
    }
    if (call.call === "Queue.recoverOrphaned" && before !== undefined) {
      if (before.run !== undefined && processes.removerOf(before.run.pod) === call.who) return undefined
      return `${call.who} rescued ${job}, which was ${before.status} and whose process it had not declared dead, or had come back`
    }
    return undefined
  }
}

/** Two heartbeats of a pod. A slow clock of the observer only adds to it. */
const shortestSilence = 2 * Duration.toMillis(Context.get(context, ClusterConfig).podHeartbeat)

export const silentWhenRemoved: Invariant = {
  name: "declared dead",
  promise: "a process is declared dead only after two missed heartbeats, and while its lock is free",
  onAnswer: ({ at, call, who }, answer, { processes }) => {
    if (call !== "Pods.removeUnlocked") return []
    return (answer as ReadonlyArray<UnlockedPod>).flatMap(({ id }): ReadonlyArray<Finding> => {
      const pod = processes.of(id)
      if (pod === undefined) return [{ found: `${who} removed a process that never sent a heartbeat` }]
      if (pod.isLocked) return [{ found: `${who} declared ${pod.who} dead, which held its lock` }]
      return at - pod.at >= shortestSilence
        ? []
        : [{ found: `${who} declared ${pod.who} dead, which had sent a heartbeat ${(at - pod.at) / 1000} s ago` }]
    })
  }
}

export const oneRunPerClaim: Invariant = {
  name: "claimed before run",
  promise: "a process runs a job once per claim",
  onRun: ({ job, who }, history) => {
    const { begun, claimed } = history.handsOn(who, job)
    return begun < claimed
      ? undefined
      : `${who} started ${history.nameOf(job)} ${begun + 1} times, but claimed it ${claimed} times`
  }
}

const operators = new Set(["JobAdmin.requeue", "JobAdmin.remove", "Operations.step"])
const deletingCalls = new Set(["Queue.purge"])

export const finishedStays: Invariant = {
  name: "finished stays",
  promise: "only an operator changes a finished job",
  onChange: ({ call, after, before }, history) => {
    if (before === undefined || before.finishedAt === undefined || call === undefined) return undefined
    if (operators.has(call.call) || (after === undefined && deletingCalls.has(call.call))) return undefined
    if (after !== undefined && after.status === before.status && after.finishedAt === before.finishedAt)
      return undefined
    return `${call.call} of ${call.who} changed ${history.nameOf(before.id)} from ${before.status} to ${after?.status ?? "deleted"}`
  }
}
