import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Predicate, Schema, SchemaAST } from "effect"
import { fromCause } from "../../src/client/FromCause.js"
import type { ExpectedError } from "../../src/core/ExpectedError.js"
import * as Nightshift from "../support/Nightshift.js"

/** Errors that no request gets: of commands, of fleets, of the start of a process, of the caller's own transaction and of waiting. */
const notServed = /^src\/cli\/|^src\/fleet\/|\/BotsFile\.ts$|\/DatabaseBoot\.ts$/
const notServedTags = new Set(["OuterTransactionFailed", "JobDead", "JobCancelled", "ResultTimeout", "SortRefused"])
const isServed = ({ _tag }: { readonly _tag: string }) => !notServedTags.has(_tag)

interface ErrorClass {
  readonly _tag: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly prototype: ExpectedError
}

const isErrorClass = (value: unknown): value is ErrorClass =>
  typeof value === "function" && Predicate.hasProperty(value, "answer") && Predicate.hasProperty(value, "fields")

const errorClasses = async (): Promise<ReadonlyArray<ErrorClass>> => {
  const files = readdirSync(join(Nightshift.root, "src"), { recursive: true, encoding: "utf8" })
    .map((file) => join("src", file))
    .filter((file) => file.endsWith(".ts") && !notServed.test(file))
    .filter((file) => readFileSync(join(Nightshift.root, file), "utf8").includes(" extends Expected<"))
  const modules = await Promise.all(files.map((file): Promise<object> => import(join(Nightshift.root, file))))
  return [...new Set(modules.flatMap((module) => Object.values(module).filter(isErrorClass)))].filter(isServed)
}

/** A value that shows the name of its field in a message. */
const placeholder = (name: string, field: unknown): unknown => {
  if (!Schema.isSchema(field)) return `<${name}>`
  if (SchemaAST.isTupleType(field.ast)) return [`<${name}>`]
  const [first] = SchemaAST.isUnion(field.ast) ? field.ast.types : []
  return first !== undefined && SchemaAST.isLiteral(first) ? first.literal : `<${name}>`
}

const sampleOf = ({ _tag, fields, prototype }: ErrorClass): ExpectedError => {
  const values = Object.entries(fields).map(([name, field]) => [name, { value: placeholder(name, field) }])
  return Object.create(prototype, { ...Object.fromEntries(values), _tag: { value: _tag } })
}

const rowOf = (error: ExpectedError) => {
  const { message = error.message, status, tag = error._tag } = error.answer
  const { code } = fromCause(Cause.fail(error))
  const cells = [status, `\`${tag}\``, code === "START" ? "" : `\`${code}\``, message.replaceAll(/<[^>]+>/g, "`$&`")]
  return `| ${cells.join(" | ")} |`
}

const intro = `# Errors

An error of the [HTTP API](http-api.md#errors) has a \`tag\`, a message and a status. If a call of the [promise API](../learn/promises.md#errors)
can fail with the same error, its \`code\` is in the third column. A command prints the message to stderr and exits with code 1; code 2 means
that its arguments, a setting or the bots file is invalid. Test the tag or the code: messages may change. The tag \`Internal\` with status 500 is
a defect of the server, whose log has the details.

<!-- Generated from the code by \`npm run docs\`. -->

| status | tag | code | message |
| --- | --- | --- | --- |
`

describe("errors", () => {
  it("are all listed in docs/operate/errors.md", async () => {
    const rows = (await errorClasses()).map((each) => rowOf(sampleOf(each))).sort()
    await expect(`${intro}${[...new Set(rows)].join("\n")}\n`).toMatchFileSnapshot(
      join(Nightshift.root, "docs/operate/errors.md")
    )
  })
})
