import { Redacted } from "effect"
import { keyOf } from "../SignedSources.js"
import { type SourceDeclaration, signatureStyles } from "./Declarations.js"
import * as FileFields from "./FileFields.js"
import { type FileContext, isSlug, secretsIn, slugRule, variableOfSource } from "./FileFields.js"

const keys = ["style", "kind"]

/** Reads one source. Problems are collected, and fallbacks replace invalid fields. */
export const read = (
  name: string,
  value: unknown,
  problems: FileFields.FileProblems,
  facts: FileContext
): SourceDeclaration => {
  const path = `sources.${name}`
  if (!isSlug(name)) problems.add(path, `${FileFields.shown(name)} is not a valid source name: ${slugRule}`)
  if (name === "telegram") problems.add(path, "the name is reserved for bots: choose another name")
  const fields = problems.fields(value, path, keys)
  const style = fields.required("style", FileFields.choice(signatureStyles), "standard")
  const given = fields.raw("kind")
  const kind = typeof given === "string" && given !== "" ? given : undefined
  if (kind === undefined) {
    problems.add(fields.at("kind"), `expected the kind of the jobs to enqueue, got ${FileFields.shown(given)}`)
  }
  if (!facts.database) {
    const reason = `the source ${name} enqueues jobs, which requires a database: set DATABASE_URL, start with --embedded, or remove the source`
    problems.add(path, reason)
  }
  const variable = variableOfSource(name)
  const secrets = secretsIn(facts.variables.get(variable) ?? "")
  if (secrets.length === 0) problems.add(path, `set ${variable} to the secret that the sender signs with`)
  if (secrets.length > 2)
    problems.add(path, `${variable} must have at most two secrets (two during a rotation), got ${secrets.length}`)
  if (!secrets.every((secret) => keyOf(style, Redacted.value(secret)) !== undefined)) {
    problems.add(path, `${variable} must be whsec_ followed by 24 to 64 bytes in base64, as Standard Webhooks requires`)
  }
  return { name, style, kind: kind ?? "", secrets }
}
