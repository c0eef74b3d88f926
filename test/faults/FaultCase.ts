import { Data, Duration, type Effect, Option, type Scope } from "effect"
import type { groups } from "../../scripts/matrix/faults-page.mjs"
import * as DurationText from "../../src/core/DurationText.js"

export type Group = (typeof groups)[number]

/** What a case found out when its promise held. */
export interface Observation {
  /** From the end of the fault until every job is finished and a new job has run. */
  readonly recovery: Duration.Duration
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

/** Starting, claiming and finishing the remaining jobs takes additional time, more on a busy machine. */
export const slack = Duration.seconds(40 * pace)

/** A setting of the pods in milliseconds. */
export const millisOf = (name: SettingName): number => Duration.toMillis(sumOf([name], quick))

/** For cases in which a pod that works must not count as dead, however little CPU it gets. */
export const patient = { QUEUE_STALE_AFTER: "60s", NIGHTSHIFT_LEASE: "30s" }
