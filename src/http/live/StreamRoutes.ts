import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, FiberId, type Layer, Schema } from "effect"
import * as Streams from "../../queue/workflow/Streams.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import { Caller } from "../access/Caller.js"
import * as Masked from "../access/Masked.js"
import { about, apiOf } from "../Contract.js"
import { BadRequest } from "../RequestErrors.js"
import * as WireText from "../WireText.js"
import { type EventStream, EventStreams, eventText, headers, preamble } from "./EventStreams.js"

const whole = /^-?\d{1,9}$/

export const group = HttpApiGroup.make("streams").add(
  HttpApiEndpoint.get("read", "/workflows/:id/streams/:name")
    .setPath(Schema.Struct({ id: Schema.String, name: WireText.Text }))
    .setUrlParams(
      Schema.Struct({
        from: WireText.optional(
          Schema.String.pipe(Schema.pattern(whole)).annotations({
            ...WireText.withMessage("must be a whole number"),
            jsonSchema: {
              type: "integer",
              description: "Number of the first chunk; a negative number counts from the end. Default 0."
            }
          })
        ),
        after: WireText.optional(
          WireText.Text.annotations({
            description:
              "The id of the last event that was received: continue behind it. The header Last-Event-ID takes precedence."
          })
        )
      }).annotations(WireText.strict)
    )
    .addSuccess(HttpApiSchema.Text({ contentType: "text/event-stream" }))
    .addSuccess(HttpApiSchema.NoContent)
    .annotateContext(
      about(
        "Stream the chunks that a step writes, as server-sent events: `message` (generation, number, value) for each chunk, then `end` (state, generation, count). If the step is repeated, the chunks begin again with number 0 and a higher generation. A stream that does not exist yet is awaited. After a reconnect, Last-Event-ID continues behind the last event; the response is 204 if that was `end`.",
        404
      )
    )
)

/** The id of the last event of a stream. */
const endOf = (generation: number) => `${generation}-end`

/** Characters that are sent before the reader is awaited. */
const sentAtOnce = 32 * 1024

/** Where a request begins to read. */
const startOf = (after: string | undefined, from: string | undefined) => {
  if (after === undefined) return Effect.succeed({ generation: undefined, number: Number(from ?? 0) })
  const start = Streams.afterId(after)
  return start === undefined
    ? new BadRequest({ message: `The id of an event looks like 1-42, got "${after.slice(0, 40)}".`, field: "after" })
    : Effect.succeed(start)
}

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "streams">,
  never,
  Workflows | EventStreams | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "streams", (handlers) =>
  Effect.gen(function* () {
    const { streams } = yield* Workflows
    const events = yield* EventStreams
    const { view } = yield* Masked.make

    /** Sends page after page, each when the one before was read. */
    const feed = (body: EventStream, start: Streams.StreamPosition) =>
      Effect.gen(function* () {
        const next = Streams.pager(streams.next, start)
        for (let page = yield* next; page !== undefined; page = yield* next) {
          const { count, generation, state } = page
          // A viewer must not see masked fields.
          const chunks = yield* view(page.chunks, (all, mask) => all.map(mask.json))
          let text = ""
          for (const { id, ...chunk } of Streams.chunksOf({ ...page, chunks })) {
            text += eventText(undefined, id, chunk)
            if (text.length < sentAtOnce) continue
            body.send(text)
            text = ""
            yield* body.room
          }
          if (text !== "") body.send(text)
          if (Streams.isLast(page)) body.send(eventText("end", endOf(generation), { state, generation, count }))
          yield* body.room
        }
      }).pipe(
        // The reader reconnects, and gets the error as a response if it persists.
        Effect.ignore,
        Effect.ensuring(Effect.sync(() => body.finish()))
      )

    const scope = yield* Effect.scope
    const follow = (start: Streams.StreamPosition) =>
      Effect.gen(function* () {
        const { session } = yield* Caller
        const body = yield* events.open(session)
        body.send(preamble)
        const feeding = yield* Effect.forkIn(feed(body, start), scope)
        body.once("close", () => feeding.unsafeInterruptAsFork(FiberId.none))
        return HttpServerResponse.raw(body, { headers })
      })

    return handlers.handleRaw("read", ({ path: { id, name }, request, urlParams: { after: given, from } }) =>
      Effect.gen(function* () {
        const after = request.headers["last-event-id"] ?? given
        const job = yield* streams.find(id)
        const [, ended] = /^(\d{1,9})-end$/.exec(after ?? "") ?? []
        const isEnd = ended !== undefined
        const place = isEnd ? { generation: Number(ended), number: 2 ** 30 } : yield* startOf(after, from)
        const start = { ...place, job, name }
        const page = yield* streams.read(start)
        if (page.state === "missing") return yield* Streams.faultOf(id, name, page) ?? Effect.void
        // The browser stops reconnecting.
        if (isEnd && page.generation === place.generation && page.state !== "open")
          return HttpServerResponse.empty({ status: 204 })
        return request.method === "HEAD" ? HttpServerResponse.empty({ status: 200, headers }) : yield* follow(start)
      })
    )
  })
)
