import { Either, ParseResult, Schema } from "effect"
import { type ExecutionFilter, ExecutionState, type Tags } from "../../queue/workflow/Execution.js"
import { executionSortFields } from "../../queue/workflow/ExecutionPage.js"
import { expected, faultOf, read } from "../../queue/workflow/Tags.js"
import * as Instant from "../Instant.js"
import * as WireText from "../WireText.js"

/** Tags as `customer=42`, or what is wrong with them. Shared with the command line. */
export const tagsOf = (texts: ReadonlyArray<string>): Either.Either<Tags, string> =>
  Either.flatMap(Either.all(texts.map(read)), (pairs) => {
    const tags = Object.fromEntries(pairs)
    const fault = Object.keys(tags).length < pairs.length ? "must not have two values for a name" : faultOf(tags, false)
    return fault === undefined ? Either.right(tags) : Either.left(fault)
  })

const tagText = `Executions with this tag: \`customer=42\`. Repeat the parameter for executions with several tags.`

const TagParameters: Schema.Schema<Tags, ReadonlyArray<string>> = Schema.transformOrFail(
  Schema.Array(Schema.String),
  Schema.Record({ key: Schema.String, value: Schema.String }),
  {
    strict: true,
    decode: (texts, _, ast) => Either.mapLeft(tagsOf(texts), (fault) => new ParseResult.Type(ast, texts, fault)),
    encode: (tags) => ParseResult.succeed(Object.entries(tags).map(([name, value]) => `${name}=${value}`))
  }
).annotations({ jsonSchema: { type: "array", items: { type: "string", description: expected }, description: tagText } })

const instant = (description: string) => WireText.optional(Instant.described(description))

/** Execution filter as query parameters, and in programs. */
export const query = {
  workflow: WireText.optional(WireText.Text.annotations({ description: "Executions of this workflow." })),
  state: WireText.optional(WireText.oneOf(ExecutionState.literals, "Executions in this state.")),
  prefix: WireText.optional(WireText.Text.annotations({ description: "Executions whose id starts with this text." })),
  tag: WireText.optional(TagParameters),
  since: instant("Executions started at or after this time."),
  until: instant("Executions started before this time."),
  roots: WireText.optional(
    Schema.BooleanFromString.annotations({
      ...WireText.withMessage("must be true or false"),
      jsonSchema: {
        type: "boolean",
        description: "`true`: only executions that no other execution started or waits for."
      }
    })
  )
} satisfies Record<keyof ExecutionFilter, unknown>

/** The order of a list as query parameters. */
export const sorting = {
  sort: WireText.optional(
    WireText.oneOf(
      ["started", ...executionSortFields],
      "The column to sort by, `started` by default, which is always newest first. Others cover only the newest matching executions; `sortedAmong` is their number."
    )
  ),
  order: WireText.order("The direction of `duration` and `finished`, `desc` by default.")
}
