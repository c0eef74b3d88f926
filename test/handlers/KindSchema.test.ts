import { describe, expect, it } from "@effect/vitest"
import { Arbitrary, Effect, FastCheck, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as KindSchema from "../../src/handlers/KindSchema.js"
import * as PayloadCheck from "../../src/queue/enqueue/PayloadCheck.js"
import * as Job from "../../src/queue/Job.js"

interface Tree {
  readonly name: string
  readonly children: ReadonlyArray<Tree>
}
const Tree: Schema.Schema<Tree> = Schema.Struct({
  name: Schema.String,
  children: Schema.Array(Schema.suspend(() => Tree))
}).annotations({ identifier: "Tree" })

/** Typical payload schemas. */
const schemas: Readonly<Record<string, Schema.Schema.AnyNoContext>> = {
  plain: Schema.Struct({ id: Schema.Int, name: Schema.NonEmptyString, tags: Schema.Array(Schema.String) }),
  optional: Schema.Struct({
    maybe: Schema.optional(Schema.Number),
    withDefault: Schema.optionalWith(Schema.String, { default: () => "a" }),
    nullable: Schema.NullOr(Schema.Boolean),
    option: Schema.OptionFromNullOr(Schema.String)
  }),
  transformed: Schema.Struct({
    at: Schema.Date,
    utc: Schema.DateTimeUtc,
    number: Schema.NumberFromString,
    big: Schema.BigInt,
    wait: Schema.Duration,
    trimmed: Schema.Trim
  }),
  refined: Schema.Struct({
    email: Schema.String.pipe(Schema.pattern(/^\S+@\S+$/i)),
    uuid: Schema.UUID,
    rate: Schema.Number.pipe(Schema.between(0, 1)),
    count: Schema.NumberFromString.pipe(Schema.int(), Schema.positive())
  }),
  union: Schema.Union(
    Schema.Struct({ _tag: Schema.Literal("A"), n: Schema.Number }),
    Schema.TaggedStruct("B", { pair: Schema.Tuple(Schema.String, Schema.Int), more: Schema.Unknown }),
    Schema.String
  ),
  record: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.Int) }),
  tree: Tree,
  unknown: Schema.Unknown
}

const checksOf = (schema: Schema.Schema.AnyNoContext) => {
  const { kind } = Handler.make(Job.make("any", { payload: schema }), () => Effect.void)
  const json = KindSchema.jsonSchemaOf(kind)
  return { own: KindSchema.checkOf(kind), remote: PayloadCheck.ofSchema(json ?? "{}"), json }
}

describe("the JSON Schema of a kind", () => {
  it("accepts whatever its handlers can decode, including unknown fields", () => {
    for (const [name, schema] of Object.entries(schemas)) {
      const { json, own, remote } = checksOf(schema)
      expect(json, name).toBeTypeOf("string")
      const encode = Schema.encodeUnknownSync(schema)
      FastCheck.assert(
        FastCheck.property(Arbitrary.make(schema), (value) => {
          const written: unknown = JSON.parse(JSON.stringify(encode(value)) ?? "null")
          // Values without a JSON form, such as Infinity, are refused earlier.
          FastCheck.pre(own(written) === undefined)
          const wide = typeof written === "object" && written !== null && !Array.isArray(written) && name !== "record"
          expect(remote(wide ? { ...written, unheard: ["of"] } : written), name).toBeUndefined()
        }),
        { numRuns: 50 }
      )
    }
  })

  it("names the field and the reason, as the kind's own schema does", () => {
    const wrong: ReadonlyArray<readonly [name: string, payload: unknown, field: string]> = [
      ["plain", { id: 1.5, name: "a", tags: [] }, "payload.id"],
      ["plain", { id: 1, name: "a", tags: ["a", 7] }, "payload.tags[1]"],
      ["optional", { maybe: "1", nullable: null, option: null }, "payload.maybe"],
      [
        "tree",
        { name: "a", children: [{ name: "b", children: [{ name: 1, children: [] }] }] },
        "payload.children[0].children[0].name"
      ],
      ["record", { "a/b~c d": [1, "x"] }, "payload.a/b~c d[1]"],
      ["plain", 7, "payload"]
    ]
    for (const [name, payload, field] of wrong) {
      const { own, remote } = checksOf(schemas[name] ?? Schema.Unknown)
      expect(own(payload), name).toMatchObject({ field })
      expect(remote(payload), name).toMatchObject({ field })
    }
  })

  it("is absent when the schema has no JSON Schema, and an invalid one accepts everything", () => {
    expect(checksOf(Schema.instanceOf(Map)).json).toBeUndefined()
    for (const text of ['{"$ref":"#/nowhere"}', "[]", '{"properties":3}', "not JSON"]) {
      expect(PayloadCheck.ofSchema(text)({ a: 1 }), text).toBeUndefined()
    }
  })
})
