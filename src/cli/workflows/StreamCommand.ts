import { Console, Effect, Option } from "effect"
import type { StreamChunk } from "../../queue/workflow/Execution.js"
import * as Streams from "../../queue/workflow/Streams.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import { notBoth } from "../Failure.js"
import * as Input from "../kit/Input.js"
import * as QueueCommand from "../QueueCommand.js"
import { printableLines } from "../Terminal.js"

/** Writes text without a line break, when the terminal or the pipe has room for it. */
const write = (text: string): Effect.Effect<void> =>
  text === "" ? Effect.void : Effect.async((resume) => void process.stdout.write(text, () => resume(Effect.void)))

/** Text is printed as it is, other values one per line. */
const textOf = (chunks: ReadonlyArray<StreamChunk<unknown>>, json: boolean): string =>
  chunks
    .map((chunk) => {
      if (json) return `${JSON.stringify(chunk)}\n`
      return typeof chunk.value === "string" ? printableLines(chunk.value, 0) : `${JSON.stringify(chunk.value)}\n`
    })
    .join("")

export const stream = QueueCommand.make({
  about: "Print the chunks of a stream while a step writes them. With --json, one line per chunk.",
  args: {
    execution: Input.required(Input.text, "The execution's id, as in order/A-17, or the id of its job."),
    name: Input.required(Input.text, "The stream's name, which is that of its step.")
  },
  options: {
    from: Input.optional(
      Input.integer({ min: -1_000_000_000, max: 1_000_000_000 }),
      "Number of the first chunk; a negative number counts from the end (default 0)."
    ),
    after: Input.optional(
      Input.parsed((id) => Option.fromNullable(Streams.afterId(id)), "must be the id of a chunk, such as 1-42"),
      "Continue behind the chunk with this id, which --json prints."
    )
  },
  examples: {
    "nightshift workflows stream chat/42 tokens": "print a stream while it is written",
    "nightshift workflows stream chat/42 tokens --from -20": "begin with its last 20 chunks"
  },
  run: ({ after, execution, from, json, name }) =>
    Effect.gen(function* () {
      yield* notBoth("--from", "--after", from !== undefined && after !== undefined)
      const { streams } = yield* Workflows
      const job = yield* streams.find(execution)
      const start = after ?? { generation: undefined, number: from ?? 0 }
      const next = Streams.pager(streams.next, { ...start, job, name })
      let generation = start.generation
      let isLineOpen = false
      for (let page = yield* next; page !== undefined; page = yield* next) {
        if (page.chunks.length > 0) {
          if (generation !== undefined && page.generation !== generation) {
            yield* write(isLineOpen ? "\n" : "")
            yield* Console.error(`The step was repeated: generation ${page.generation} begins.`)
          }
          generation = page.generation
          const text = textOf(Streams.chunksOf(page), json)
          yield* json ? Console.log(text.trimEnd()) : write(text)
          if (!json && text !== "") isLineOpen = !text.endsWith("\n")
        }
        if (!Streams.isLast(page)) continue
        yield* write(isLineOpen ? "\n" : "")
        const fault = Streams.faultOf(execution, name, page)
        if (fault !== undefined) return yield* fault
      }
    })
})
