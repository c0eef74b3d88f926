import { createHash } from "node:crypto"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, Predicate } from "effect"

// Renders the contract as one page without scripts, external resources or external links.

type Json = Readonly<Record<string, unknown>>

const record = (value: unknown): Json => (Predicate.isRecord(value) ? (value as Json) : {})
const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])
const text = (value: unknown): string => (typeof value === "string" ? value : "")

const escape = (value: string): string => value.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`)

const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem 1.25rem 6rem; }
h1 { font-size: 1.5rem; } h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); overflow-x: auto; padding: .75rem; }
table { border-collapse: collapse; width: 100%; } td, th { border-top: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem; }
summary { cursor: pointer; overflow-wrap: anywhere; } summary b { display: inline-block; min-width: 4.5rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; }
`

/** A one-line summary of a schema, with a link if it has a name. */
const brief = (schema: unknown): string => {
  const { $ref, anyOf, contentMediaType, format, items, type } = record(schema)
  if (typeof $ref === "string") {
    const name = $ref.split("/").at(-1) ?? ""
    return `<a href="#schema-${escape(name)}">${escape(name)}</a>`
  }
  if (Array.isArray(anyOf)) return anyOf.map(brief).join(" or ")
  const choices = list(record(schema).enum)
  if (choices.length > 0) return choices.map((choice) => `<code>${escape(JSON.stringify(choice))}</code>`).join(" · ")
  if (type === "array") return `list of ${brief(items)}`
  const more = [text(format), text(contentMediaType)].filter((word) => word !== "").join(", ")
  return escape(text(type) === "" ? "any JSON" : `${text(type)}${more === "" ? "" : ` (${more})`}`)
}

const row = (cells: ReadonlyArray<string>) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`

const parameters = (operation: Json): string => {
  const rows = list(operation.parameters).map((parameter) => {
    const { description, in: where, name, required, schema } = record(parameter)
    const about = text(description) === "" ? text(record(schema).description) : text(description)
    const must = required === true ? " (required)" : ""
    return row([`<code>${escape(text(name))}</code>${must}`, escape(text(where)), brief(schema), escape(about)])
  })
  return rows.length === 0 ? "" : `<h4>Parameters</h4><table>${rows.join("")}</table>`
}

const contentOf = (holder: unknown): string => {
  const [entry] = Object.entries(record(record(holder).content))
  if (entry === undefined) return "nothing"
  const [type, { schema }] = [entry[0], record(entry[1])]
  if (record(schema).$ref !== undefined) return `${brief(schema)} <small>${escape(type)}</small>`
  const shown = escape(JSON.stringify(schema, null, 2))
  return `<details><summary>${escape(type)}</summary><pre>${shown}</pre></details>`
}

const answers = (operation: Json): string => {
  const rows = Object.entries(record(operation.responses)).map(([status, answer]) => {
    return row([escape(status), contentOf(answer)])
  })
  return `<h4>Answers</h4><table>${rows.join("")}</table>`
}

const operation = (path: string, method: string, value: unknown): string => {
  const details = record(value)
  const body = details.requestBody === undefined ? "" : `<h4>Body</h4><p>${contentOf(details.requestBody)}</p>`
  const about = text(details.description)
  return `<details id="${escape(text(details.operationId))}"><summary><b>${escape(method.toUpperCase())}</b> <code>${escape(path)}</code>${
    about === "" ? "" : ` <span>${escape(about)}</span>`
  }</summary>${parameters(details)}${body}${answers(details)}</details>`
}

const section = (tag: string, paths: Json): string => {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(record(methods))
      .filter(([, value]) => list(record(value).tags).includes(tag))
      .map(([method, value]) => operation(path, method, value))
  )
  return `<h2 id="tag-${escape(tag)}">${escape(tag)}</h2>${operations.join("")}`
}

const schemas = (components: Json): string =>
  Object.entries(record(components.schemas))
    .map(
      ([name, schema]) =>
        `<details id="schema-${escape(name)}"><summary><code>${escape(name)}</code></summary><pre>${escape(
          JSON.stringify(schema, null, 2)
        )}</pre></details>`
    )
    .join("")

/** Renders an OpenAPI specification as HTML. */
export const render = (specification: unknown): string => {
  const { components, info, paths, tags } = record(specification)
  const names = list(tags).map((tag) => text(record(tag).name))
  const links = [...names.map((name) => [`tag-${name}`, name]), ["schemas", "schemas"]]
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escape(text(record(info).title))} API</title><style>${style}</style></head><body>
<h1>${escape(text(record(info).title))} API ${escape(text(record(info).version))}</h1>
<p>${escape(text(record(info).description))} Send a token as <code>Authorization: Bearer</code>, or log in for a cookie.
The contract for programs is at <a href="api/v1/openapi.json"><code>/api/v1/openapi.json</code></a>.</p>
<nav>${links.map(([id, name]) => `<a href="#${escape(id ?? "")}">${escape(name ?? "")}</a>`).join("")}</nav>
${names.map((name) => section(name, record(paths))).join("")}
<h2 id="schemas">schemas</h2>${schemas(record(components))}
</body></html>
`
}

const styleHash = createHash("sha256").update(style).digest("base64")

/** Allows only the page's own style sheet: no scripts and no other resources. */
const policy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

let made: string | undefined

/** Generated from the contract on the first request. A process loads the contract only when it is ready. */
const page = Effect.promise(async () => {
  made ??= render((await import("./ApiRoutes.js")).specification())
  return HttpServerResponse.text(made, {
    contentType: "text/html; charset=utf-8",
    headers: { "content-security-policy": policy }
  })
})

/** The API documentation. It contains no data, so it needs no token. */
export const router = HttpRouter.empty.pipe(HttpRouter.get("/docs", page))
