import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { message } from "./Updates.js"
import { layer, WebhookServer } from "./WebhookServer.js"

const memory = QueueMemory.layer.pipe(Layer.provide(Wakeups.layer))

const Note = Job.make("take_note", {
  payload: Schema.Struct({ message: Schema.Struct({ text: Schema.String }) })
})
const Press = Job.make("take_press", {
  payload: Schema.Struct({ callback_query: Schema.Struct({ data: Schema.String }) })
})
const handlers = [
  Handler.make(Note, ({ message: { text } }) => Effect.succeed(text)),
  Handler.make(Press, () => Effect.void)
]

const yaml = `
bots:
  notes: { handler: take_note, requireAuth: false, async: true }
  presses: { handler: take_press, requireAuth: false, async: true }
  chosen: { handler: take_note, requireAuth: false, async: true, updates: [poll_answer] }
  parrot: { handler: echo, requireAuth: false, async: true }
`

const { message: text } = message(1, "hello")
const from = text.from
const others = {
  edited_message: text,
  channel_post: { ...text, text: undefined },
  callback_query: { id: "1", from, message: text, data: "yes" },
  message_reaction: { chat: text.chat, message_id: 1, user: from },
  my_chat_member: { chat: text.chat, from, new_chat_member: { status: "kicked" } },
  chat_member: { chat: text.chat, from },
  inline_query: { id: "1", from, query: "x" },
  poll: { id: "1" },
  poll_answer: { poll_id: "1", user: from },
  chat_join_request: { chat: text.chat, from }
}

/** Types of the updates that became jobs of a bot. */
const stored = (slug: string) =>
  Effect.flatMap(JobSearch, (search) =>
    Effect.map(search.list({ kind: `telegram.${slug}` }, { limit: 100 }), ({ jobs }) =>
      jobs.flatMap(({ payload }) => Object.keys(Object(payload)).filter((name) => name !== "update_id")).sort()
    )
  )

describe("an update type that a bot's handler does not accept", () => {
  it.scopedLive("is acknowledged, counted and dropped instead of becoming a job that dies", () =>
    Effect.gen(function* () {
      const { counts, update } = yield* WebhookServer
      const all = Object.entries({ message: text, ...others })
      for (const slug of ["notes", "presses", "chosen", "parrot"]) {
        for (const [index, [type, content]] of all.entries()) {
          const answer = yield* update(slug, { update_id: index + 1, [type]: content })
          expect(answer).toMatchObject({ status: 200, text: "" })
        }
      }
      // A kind gets every message, and other update types that its payload schema decodes.
      expect(yield* stored("notes")).toEqual(["message"])
      expect(yield* stored("presses")).toEqual(["callback_query", "message"])
      expect(yield* stored("chosen")).toEqual(["poll_answer"])
      expect(yield* stored("parrot")).toEqual(["message"])
      expect(yield* counts).toMatchObject({
        "notes stored": 1,
        "notes ignored": 10,
        "presses ignored": 9,
        "chosen stored": 1,
        "chosen ignored": 10,
        "parrot ignored": 10
      })
    }).pipe(Effect.provide(layer({ yaml, handlers }, memory)))
  )
})
