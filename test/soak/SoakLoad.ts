import { createHash, createHmac } from "node:crypto"
import { Cause, Effect, FiberSet, type Scope } from "effect"
import * as Caller from "../faults/Caller.js"
import type { Deployment, Wanted } from "../faults/Deployment.js"
import type { Answer } from "../faults/Pod.js"
import type { SoakLedger } from "./SoakLedger.js"

/** The secret of the webhook source `shop`. */
export const secret = "the-secret-of-the-shop"
export const workspace = "acme"

/** Random numbers from 0 to 1 that depend only on the seed (mulberry32). */
export const randomOf = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Shares of the load. */
const shares = { jobs: 0.82, hooks: 0.08, orders: 0.06, uploads: 0.04 }
/** The keys of jobs in strict order. */
const keys = 40

export interface SoakLoad {
  /** Ends the load and waits for requests under way. */
  readonly stop: Effect.Effect<void>
  /** Answers other than success, by what was asked for, status and text. */
  readonly refusals: Readonly<Record<string, number>>
  /** Requests that failed for good. */
  readonly failures: ReadonlyArray<string>
}

/** Sends the mixed load until it is stopped. A request without an answer is repeated, as a careful caller does. */
export const start = (
  deployment: Deployment,
  ledger: SoakLedger,
  options: { readonly rate: number; readonly seed: number; readonly uploadToken: string }
): Effect.Effect<SoakLoad, never, Scope.Scope> =>
  Effect.gen(function* () {
    const random = randomOf(options.seed)
    const failures: Array<string> = []
    const underWay = yield* FiberSet.make<void>()
    let isStopping = false

    const caller = Caller.make(deployment)
    /** Sends a request until it succeeds; another answer ends this part of the load. */
    const succeed = (what: string, asked: Effect.Effect<Answer>) =>
      Effect.flatMap(asked, (answer) =>
        Caller.isSuccess(answer)
          ? Effect.void
          : Effect.die(new Error(`${what}: ${answer.status} ${answer.body.slice(0, 300)}`))
      )

    // A slow machine sends few jobs in a minute: the first ones are of each kind.
    const first = [0, 0.4, 0.7, 0.9, 0.99]
    const drawJob = (): Wanted => {
      const dice = first.pop() ?? random()
      if (dice < 0.37) return { kind: "work", payload: { ms: Math.floor(random() * 150) } }
      if (dice < 0.62) return { kind: "once", payload: { ms: Math.floor(random() * 60) } }
      if (dice < 0.86) return { kind: "ordered", payload: { ms: 5 }, key: `key ${Math.floor(random() * keys)}` }
      if (dice < 0.98) {
        const failures = 1 + Math.floor(random() * 3)
        return { kind: "flaky", payload: { failures }, failures }
      }
      return { kind: "doomed", payload: {}, expected: "dead" }
    }
    const jobs = (count: number) => Effect.orDie(deployment.enqueue(Array.from({ length: count }, drawJob)))

    let hooks = 0
    const hook = Effect.suspend(() => {
      hooks += 1
      const [delivery, text] = [`${options.seed}-${hooks}`, `delivery ${hooks} ${random()}`]
      const id = `hook ${delivery}`
      const body = JSON.stringify({ text })
      const headers = {
        "content-type": "application/json",
        "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
        "x-github-delivery": delivery,
        "x-github-event": "push"
      }
      ledger.attempt({ id, kind: "delivered", expected: "done", value: text })
      const deliver = succeed("webhook", caller.insistRaw("webhook", "/hooks/shop", { headers, body }))
      // Senders repeat deliveries whose answer they missed.
      const isRepeated = random() < 0.2
      return deliver.pipe(
        Effect.andThen(Effect.sync(() => ledger.acknowledge(id))),
        Effect.andThen(isRepeated ? deliver : Effect.void)
      )
    })

    let orders = 0
    const order = Effect.suspend(() => {
      orders += 1
      const key = `${options.seed}-${orders}`
      const id = `order/${key}`
      const by = `approver ${orders} ${random()}`
      ledger.attempt({ id, kind: "order", expected: "done", value: by })
      const begin = succeed(
        "workflow",
        caller.insist("workflow", "/api/v1/workflows", { workflow: "order", key, payload: { id: key } })
      )
      const signalPath = `/api/v1/workflows/${encodeURIComponent(id)}/signal`
      const approve = succeed("signal", caller.insist("signal", signalPath, { name: "approval", value: { by } }))
      const dice = random()
      const both =
        dice < 0.3
          ? Effect.andThen(approve, begin)
          : dice < 0.6
            ? Effect.all([begin, approve], { concurrency: 2 })
            : Effect.andThen(begin, Effect.delay(approve, dice < 0.8 ? "400 millis" : "2 seconds"))
      return both.pipe(
        Effect.andThen(Effect.sync(() => ledger.acknowledge(id))),
        Effect.andThen(dice > 0.9 ? approve : Effect.void)
      )
    })

    let files = 0
    const upload = Effect.gen(function* () {
      files += 1
      const name = `${options.seed}-${files}.bin`
      const bytes = createHash("sha256").update(name).digest()
      const content = Buffer.alloc(200 + Math.floor(random() ** 3 * 400_000), bytes)
      const id = `file ${name}`
      const value = createHash("sha256").update(content).digest("hex")
      ledger.attempt({ id, kind: "file_arrived", expected: "done", value })
      const body = new FormData()
      body.append("files", new Blob([content]), name)
      const headers = { authorization: `Bearer ${options.uploadToken}` }
      const answer = yield* caller.send(`/uploads/${workspace}`, { headers, body })
      // Not repeated: an upload without an answer may be stored or not.
      if (Caller.isSuccess(answer)) ledger.acknowledge(id)
      else caller.refused("upload", answer)
    })

    /** Starts the effect this many times a second. They overlap if they are slow, unless `isInOrder`. */
    const loop = (perSecond: number, request: Effect.Effect<unknown>, isInOrder = false) =>
      Effect.gen(function* () {
        const effect = Effect.catchAllCause(Effect.asVoid(request), (cause) =>
          Effect.sync(() => void failures.push(Cause.pretty(cause)))
        )
        const begun = performance.now()
        for (let count = 0; !isStopping; count += 1) {
          const early = begun + (count * 1_000) / perSecond - performance.now()
          yield* Effect.sleep(Math.max(0, Math.min(early, 1_000)))
          if (early > 1_000) {
            count -= 1
            continue
          }
          yield* isInOrder ? effect : FiberSet.run(underWay, effect)
        }
      })
    const perBeat = Math.max(1, Math.round((shares.jobs * options.rate) / 2))
    const fibers = yield* Effect.forEach(
      [
        loop(
          (shares.jobs * options.rate) / perBeat,
          Effect.suspend(() => jobs(perBeat)),
          true
        ),
        loop(shares.hooks * options.rate, hook),
        loop(shares.orders * options.rate, order),
        loop(shares.uploads * options.rate, upload)
      ],
      Effect.forkScoped
    )
    return {
      stop: Effect.gen(function* () {
        isStopping = true
        for (const fiber of fibers) yield* fiber.await
        yield* FiberSet.awaitEmpty(underWay)
      }),
      refusals: caller.refusals,
      failures
    }
  })
