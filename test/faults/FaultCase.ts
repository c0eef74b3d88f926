import { Data, Duration, type Effect, Option, type Scope } from "effect"
import type { groups } from "../../scripts/matrix/faults-page.mjs"
import * as DurationText from "../../src/core/DurationText.js"

export type Group = (typeof groups)[number]

/** What a case found out when its promise held. */
export interface Observation {
  /** From the end of the fault until every job is finished and a new job has run. */
  readonly recovery: Duration.Duration
  /** What recovery may take in addition to the settings of the case, on this machine and with the jobs that were left. */
  readonly allowance: Duration.Duration
  /** What the operator saw meanwhile: log lines, /readyz, doctor findings. */
  readonly saw: ReadonlyArray<string>
  /** A number that the case measured and the docs show, such as how much an asynchronous failover lost. */
  readonly measured?: string
}

/** This machine lacks what the case needs. The case counts as not run, and the summary says why. */
export class Unavailable extends Data.TaggedError("Unavailable")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

/** One fault, injected into real processes on a real PostgreSQL. */
export interface FaultCase {
  /** The fault, as a phrase an operator understands. Unique. */
  readonly name: string
  readonly group: Group
  /** What must hold during and after the fault. */
  readonly promise: string
  /** The settings whose sum limits the recovery. Empty: recovery needs no waiting. */
  readonly recoveryLimit: ReadonlyArray<SettingName>
  /** What an operator sees meanwhile; the case checks it. */
  readonly operatorSees: string
  readonly run: Effect.Effect<Observation, unknown, Scope.Scope>
}

/**
 * Stretches the time limits of the pods, and with them all limits of the cases, for a busy machine: a pod that gets no CPU
 * for a whole lease counts as dead, and rightly so.
 */
export const pace = Number(process.env.FAULTS_PACE ?? 1)

const paced = (seconds: number) => `${Math.round(seconds * pace * 1_000)}ms`

/** Settings of the pods in all cases: everything that waits is short. */
export const quick = {
  NIGHTSHIFT_LEASE: paced(3),
  NIGHTSHIFT_POD_HEARTBEAT: "500ms",
  NIGHTSHIFT_REBALANCE_INTERVAL: "500ms",
  QUEUE_HEARTBEAT: "500ms",
  QUEUE_POLL: "500ms",
  QUEUE_STALE_AFTER: paced(3),
  QUEUE_REAPER_INTERVAL: "500ms",
  DATABASE_STATEMENT_TIMEOUT: paced(3),
  DATABASE_CONNECT_TIMEOUT: paced(5),
  SHUTDOWN_GRACE: "2s",
  METRICS_FLUSH: "500ms"
}
export type SettingName = keyof typeof quick

/** The defaults of the same settings, for the recovery column of the docs; a test compares them with the code. */
export const defaults: Readonly<Record<SettingName, string>> = {
  NIGHTSHIFT_LEASE: "15s",
  NIGHTSHIFT_POD_HEARTBEAT: "1s",
  NIGHTSHIFT_REBALANCE_INTERVAL: "5s",
  QUEUE_HEARTBEAT: "10s",
  QUEUE_POLL: "2s",
  QUEUE_STALE_AFTER: "60s",
  QUEUE_REAPER_INTERVAL: "15s",
  DATABASE_STATEMENT_TIMEOUT: "30s",
  DATABASE_CONNECT_TIMEOUT: "5s",
  SHUTDOWN_GRACE: "25s",
  METRICS_FLUSH: "2s"
}

export const sumOf = (
  names: ReadonlyArray<SettingName>,
  values: Readonly<Record<SettingName, string>>
): Duration.Duration =>
  names.reduce((sum, name) => Duration.sum(sum, Option.getOrThrow(DurationText.parse(values[name]))), Duration.zero)

/** What was measured in the same deployment, in milliseconds. */
export interface Speed {
  /** The slower of two times in which a batch of the usual load ended, before the fault and after the recovery. */
  readonly batch: number
  /** How long the handlers of the jobs that were left at the end of the fault run, in the slots there are. */
  readonly remaining: number
  /** How many jobs were left. */
  readonly jobs: number
  /** The start of a pod, for cases in which pods are being restarted when the fault ends. */
  readonly boot: number
}

/** What recovery may take in addition to the waiting that settings cause. */
export const allowanceOf = ({ batch, boot, jobs, remaining }: Speed): Duration.Duration =>
  Duration.millis(Math.max(1_000, 5 * batch) + 1.5 * remaining + 1.5 * boot + (jobs * batch) / 20)

/** The recovery limit of a case with the settings of the pods. */
export const limitOf = (
  { recoveryLimit }: Pick<FaultCase, "recoveryLimit">,
  { allowance }: Pick<Observation, "allowance">
): Duration.Duration => Duration.sum(sumOf(recoveryLimit, quick), allowance)

/** A setting of the pods in milliseconds. */
export const millisOf = (name: SettingName): number => Duration.toMillis(sumOf([name], quick))

/** For cases in which a pod that works must not count as dead, however little CPU it gets. */
export const patient = { QUEUE_STALE_AFTER: "60s", NIGHTSHIFT_LEASE: "30s" }
