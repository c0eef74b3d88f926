import { Effect, type Scope } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { IdGenerator, Lease } from "../../core/Ids.js"
import * as Together from "../../core/Together.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { named } from "../../database/Statements.js"
import type { ClaimRequest } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import { type Claimed, type ClaimedRow, toClaimed } from "./ClaimedRow.js"
import type { Claiming } from "./Claiming.js"
import * as ClaimSql from "./ClaimSql.js"
import type { HeldLeases } from "./HeldLeases.js"
import type { Start } from "./ScanPositions.js"

// Sends the claim statement. Plain claims of several queues that are due at the same time are one statement: with a
// thousand queues, a process would otherwise spend its time on statements of a few jobs each.

/** Jobs that one statement for several queues may return. */
const maxTogether = 4_096

/** A statement for several queues that takes longer makes each of them claim alone next time. */
const isSlowTogether = (millis: number, jobs: number) => millis > 200 + jobs
/** A queue that claims alone joins the others again if its claim takes less. */
const slowAlone = 50

/** A row of the statement for several queues: the place of the queue twice, then the job. */
type PlacedRow = readonly [place: number, ...rest: ReadonlyArray<unknown>]

/** A claim in queue order. */
interface LineClaim {
  readonly claiming: Claiming
  readonly starts: ReadonlyArray<Start>
}

/** The parameters of start positions. */
export const startValues = (starts: ReadonlyArray<Start>): ReadonlyArray<string> => [
  SqlArrays.ofPlain(starts.map(({ priority }) => priority)),
  SqlArrays.ofPlain(starts.map(({ runAt }) => runAt)),
  SqlArrays.ofTexts(starts.map(({ id }) => id))
]

type Taken = Effect.Effect<ReadonlyArray<Claimed>, DatabaseError>

/** Sends a claim in one of its forms. Each returns the jobs in their order. */
export interface Takes {
  readonly inOrder: (claiming: Claiming, starts: ReadonlyArray<Start>) => Taken
  /** Parameters: the keys, the last key served, and jobs without a key. */
  readonly byKey: (claiming: Claiming, parameters: ReadonlyArray<string>) => Taken
  /** Takes executions that pods with other releases have left to releases of this one. */
  readonly parked: (request: ClaimRequest, releases: ReadonlyArray<string>, now: number) => Taken
}

export const make = (
  { direct, schema }: typeof Database.Service,
  ids: IdGenerator,
  leases: HeldLeases
): Effect.Effect<Takes, never, Scope.Scope> => {
  const statements = named("claim", ClaimSql.make(schema))

  const received = ({ queue, remote }: ClaimRequest, lease: Lease, now: number, rows: ReadonlyArray<ClaimedRow>) => {
    const claimed = rows.map(toClaimed(queue, lease, now)).sort((a, b) => a.place - b.place)
    // The results of a remote worker may arrive at other processes, so this one would never forget the lease.
    if (remote !== true)
      leases.took(
        lease,
        claimed.map(({ job }) => job.id)
      )
    return claimed
  }

  const send = (text: string, request: ClaimRequest, now: number, parameters: ReadonlyArray<string>) => {
    const { limit, pod, queue } = request
    const lease = ids.lease(now)
    return Effect.map(direct.rows(text, [queue, now, limit, lease, pod, ...parameters]), (rows) =>
      received(request, lease, now, rows as unknown as ReadonlyArray<ClaimedRow>)
    )
  }

  const take = (claiming: Claiming, parameters: ReadonlyArray<string>): Taken => {
    const { cursor, keyed, now, rated } = claiming
    const text = ClaimSql.textOf(statements, { keyed, rated, journals: cursor.hasExecutions })
    return Effect.map(send(text, claiming, now, parameters), (claimed) => {
      if (claimed.some(({ job }) => job.execution !== undefined)) cursor.hasExecutions = true
      return claimed
    })
  }

  const alone = ({ claiming, starts }: LineClaim) => take(claiming, startValues(starts))

  const timed = <A>(sent: Effect.Effect<A, DatabaseError>, onTime: (millis: number, answer: A) => void) =>
    Effect.flatMap(steadyNow, (began) =>
      Effect.tap(sent, (answer) => Effect.map(steadyNow, (ended) => onTime(ended - began, answer)))
    )

  const slow = (claim: LineClaim) =>
    timed(alone(claim), (millis) => {
      claim.claiming.cursor.isSlow = millis > slowAlone
    })

  /** Sends claims of different queues. Returns what they took, without claims of queues whose settings are being changed. */
  const sendDistinct = (claims: ReadonlyArray<LineClaim>) => {
    const now = Math.max(...claims.map(({ claiming }) => claiming.now))
    const leased = claims.map(() => ids.lease(now))
    const values = [
      now,
      SqlArrays.ofTexts(claims.map(({ claiming }) => claiming.queue)),
      SqlArrays.ofPlain(claims.map(({ claiming }) => claiming.limit)),
      SqlArrays.ofPlain(leased),
      SqlArrays.ofPlain(claims.map(({ claiming }) => claiming.pod)),
      SqlArrays.ofPlain(claims.flatMap(({ starts }, index) => starts.map(() => index + 1))),
      ...startValues(claims.flatMap(({ starts }) => starts))
    ]
    return Effect.map(direct.rows(statements.together, values), (answer) => {
      const rows = claims.map((): Array<ClaimedRow> | undefined => [])
      for (const [place, placed, ...row] of answer as ReadonlyArray<PlacedRow>) {
        if (placed === null) rows[place - 1] = undefined
        else rows[place - 1]?.push(row as unknown as ClaimedRow)
      }
      const taken = new Map<LineClaim, ReadonlyArray<Claimed>>()
      claims.forEach((claim, index) => {
        const [own, lease] = [rows[index], leased[index]]
        if (own === undefined || lease === undefined) return
        const claimed = received(claim.claiming, lease, now, own)
        if (claimed.some(({ job }) => job.execution !== undefined)) claim.claiming.cursor.hasExecutions = true
        taken.set(claim, claimed)
      })
      return taken
    })
  }

  /** Within a statement, a claim does not skip what another one has locked, so only one claim of each queue takes part. */
  const sendTogether = (claims: ReadonlyArray<LineClaim>) => {
    const distinct = [...new Map(claims.map((claim) => [claim.claiming.queue, claim])).values()]
    return Effect.map(sendDistinct(distinct), (taken) => claims.map((claim) => taken.get(claim)))
  }

  return Effect.map(
    Together.make<LineClaim, ReadonlyArray<Claimed> | undefined, DatabaseError>({
      weight: ({ claiming }) => claiming.limit,
      maxWeight: maxTogether,
      one: alone,
      many: (claims) =>
        timed(sendTogether(claims), (millis, taken) => {
          const jobs = taken.reduce((sum, jobs) => sum + (jobs?.length ?? 0), 0)
          if (isSlowTogether(millis, jobs)) for (const { claiming } of claims) claiming.cursor.isSlow = true
        })
    }),
    (plain) => ({
      inOrder: (claiming, starts) => {
        const claim = { claiming, starts }
        if (claiming.cursor.isSlow) return slow(claim)
        if (claiming.rated || claiming.cursor.hasExecutions) return alone(claim)
        return Effect.flatMap(plain(claim), (taken) => (taken === undefined ? alone(claim) : Effect.succeed(taken)))
      },
      byKey: take,
      parked: (request, releases, now) => send(statements.parked, request, now, [SqlArrays.ofTexts(releases)])
    })
  )
}
