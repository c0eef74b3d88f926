import { Cause, Effect, Exit } from "effect"
import type { JobId } from "../../core/Ids.js"
import * as Outcome from "../../core/Outcome.js"
import type { Response } from "../../gateway/fetch/HttpExchange.js"
import type { SafeFetch, SafeRequest } from "../../gateway/fetch/SafeFetch.js"
import { UpstreamUnreachable } from "../../gateway/fetch/UpstreamErrors.js"
import { keyOf, verify } from "../../gateway/SignedSources.js"
import type { History } from "./History.js"

// The endpoint that pushed jobs are sent to. It runs no code of Nightshift but the check of signatures.

export const url = "https://endpoint.example/jobs"
export const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`

/** Trace events of a response that ends the job, and of one that does not arrive. */
export const accepts = "accepts"
const loses = "does a job whose response is lost"

const keys = [keyOf("standard", secret)].filter((key) => key !== undefined)

/** What the endpoint reads of a request. */
interface Pushed {
  readonly data: { readonly n: number }
  readonly job: { readonly id: JobId; readonly attempt: number }
  readonly type: string
}

export interface EndpointOptions {
  readonly history: Pick<History, "report" | "trace">
  /** What the endpoint does with a job: as a handler. */
  readonly run: (job: { readonly id: JobId; readonly kind: string }, n: number) => Effect.Effect<unknown, string>
  /** Whether the response to the request with this name is lost. */
  readonly isLost: (name: string) => boolean
}

const response = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): Response => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: Buffer.from(body),
  isCut: false
})

const ofOutcome = (outcome: unknown): Response => {
  if (!Outcome.isOutcome(outcome) || outcome._tag === "Done") return response(200, '{"pushed":true}')
  if (outcome._tag === "Dead") return response(422, outcome.error, { "nightshift-outcome": "dead" })
  const after = "after" in outcome ? (outcome.after ?? 1_000) : 1_000
  return response(503, "", { "retry-after": String(Math.ceil(after / 1_000)) })
}

const closed = new UpstreamUnreachable({ host: new URL(url).host, code: "ECONNRESET" })

/** The client of a process that reaches only the endpoint. */
export const make = ({ history, isLost, run }: EndpointOptions): typeof SafeFetch.Service => {
  const { trace } = history
  const check = ({ headers = {}, json }: SafeRequest, { id }: Pushed["job"]) => {
    // By the sender's clock: the clocks of the simulation differ by more than receivers accept.
    const now = Number(headers["webhook-timestamp"]) * 1_000
    const verdict = verify("standard", keys, headers, Buffer.from(json), now)
    if (verdict._tag === "Refused") history.report("push", id, `was sent with a bad signature: ${verdict.reason}`)
    if (headers["webhook-id"] !== id) history.report("push", id, `was sent as ${headers["webhook-id"]}`)
  }
  return {
    post: (request) =>
      Effect.suspend(() => {
        const { data, job, type } = JSON.parse(request.json) as Pushed
        check(request, job)
        return Effect.flatMap(Effect.exit(run({ id: job.id, kind: type }, data.n)), (exit) => {
          if (Exit.isFailure(exit))
            return Cause.isDie(exit.cause) ? closed : Effect.succeed(response(500, "on purpose"))
          const answer = ofOutcome(exit.value)
          const isDone = answer.status === 200
          if (isDone && isLost(`${data.n} ${job.attempt}`)) {
            trace.note("endpoint", `${loses}: ${trace.nameOf(job.id)}`, [job.id])
            return closed
          }
          if (isDone) trace.note("endpoint", `${accepts} ${trace.nameOf(job.id)}`, [job.id])
          return Effect.succeed(answer)
        })
      })
  }
}
