import { Clock, Context, Effect, Layer } from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import { Pods, type StoredPod } from "../../cluster/Pods.js"
import { shortPod } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { ReplicaState } from "../../database/Replica.js"
import { DatabaseHealth } from "../../history/DatabaseHealth.js"
import type { Endpoint } from "../../queue/endpoints/Endpoint.js"
import { Endpoints } from "../../queue/endpoints/Endpoints.js"
import { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import { unservedAmong } from "../../worker/loops/Rebalancer.js"
import { type PodView, podView } from "./PodsRoutes.js"

/** A warning for operators. */
export interface Warning {
  /** A stable code for programs. */
  readonly code: string
  readonly message: string
  /** What it is about: the name of a queue, or the id of a pod or an endpoint. */
  readonly subject?: string
}

/** Seconds. With a larger offset, the logs of a pod are hard to match with job times; `doctor` warns as well. */
const noticeable = 1

const offClock = ({ clockOffset = 0, id, label }: StoredPod): ReadonlyArray<Warning> =>
  Math.abs(clockOffset) < noticeable
    ? []
    : [
        {
          code: "clock_offset",
          message: `The clock of process ${label ?? shortPod(id)} is ${Math.abs(clockOffset).toFixed(1)} s ${clockOffset > 0 ? "behind" : "ahead of"} the database's. Enable NTP on its machine.`,
          subject: id
        }
      ]

const unusedReplica = (replica: ReplicaState | undefined): ReadonlyArray<Warning> =>
  replica?.unused === undefined
    ? []
    : [
        {
          code: "replica_unused",
          message: `Lists and charts use the primary: the replica at ${replica.address} ${replica.unused}.`
        }
      ]

/** Endpoints that are reported at most. */
const maxEndpoints = 100

const disabledText = { failing: "its attempts have failed for days", gone: "it responded 410 Gone" }

/** Endpoints that no operator has disabled. */
const disabledEndpoint = ({ customer, disabledBecause, id, url }: Endpoint): ReadonlyArray<Warning> =>
  disabledBecause === undefined || disabledBecause === "operator"
    ? []
    : [
        {
          code: "endpoint_disabled",
          message: `The endpoint ${new URL(url).host}${customer === undefined ? "" : ` of ${customer}`} is disabled: ${disabledText[disabledBecause]}.`,
          subject: id
        }
      ]

/** The live pods, and warnings about queues that no pod serves, clocks that are off, a replica that is not used and endpoints that are disabled. */
export class ClusterOverview extends Context.Tag("nightshift/http/ClusterOverview")<
  ClusterOverview,
  {
    readonly read: Effect.Effect<
      { readonly pods: ReadonlyArray<PodView>; readonly warnings: ReadonlyArray<Warning> },
      DatabaseError
    >
  }
>() {
  static readonly layer: Layer.Layer<
    ClusterOverview,
    never,
    Pods | Leadership | Queue | Endpoints | ClusterConfig | DatabaseHealth
  > = Layer.effect(
    ClusterOverview,
    Effect.gen(function* () {
      const pods = yield* Pods
      const leadership = yield* Leadership
      const queue = yield* Queue
      const endpoints = yield* Endpoints
      const { lease } = yield* ClusterConfig
      const { replica } = yield* DatabaseHealth
      return {
        read: Effect.gen(function* () {
          const live = yield* pods.live(lease)
          const leader = yield* leadership.leader
          const unserved = yield* Effect.provideService(unservedAmong(live), Queue, queue)
          const disabled = yield* Effect.catchTag(
            endpoints.list({ standing: "disabled", limit: maxEndpoints }),
            "BadCursor",
            Effect.die
          )
          const now = yield* Clock.currentTimeMillis
          return {
            pods: live.map((pod) => podView(pod, leader, now)),
            warnings: [
              ...unserved.map((name) => ({
                code: "unserved_queue",
                message: `Queue ${name} has due jobs, but no live process serves it.`,
                subject: name
              })),
              ...live.flatMap(offClock),
              ...unusedReplica(yield* replica),
              ...disabled.endpoints.flatMap(disabledEndpoint)
            ]
          }
        })
      }
    })
  )
}
