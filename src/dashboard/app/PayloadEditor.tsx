import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks"
import { lineOf, locate, withField, withValue } from "./JsonText"
import { exampleOf, type Fault, faultsOf, fieldsOf } from "./PayloadSchema"
import { Suggestions } from "./parts/Suggestions"
import { slowPoll, useResource } from "./Resource"
import type { Kind, Kinds } from "./Views"

interface Marked extends Fault {
  readonly line: number
  readonly from: number
  readonly to: number
}

/** Maximum number of messages shown. */
const maxMessages = 8

const read = (text: string): { readonly value?: unknown; readonly wrong?: string } => {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    return { wrong: (error as Error).message }
  }
}

const marksOf = (text: string, schema: unknown): ReadonlyArray<Marked> => {
  const { value, wrong } = read(text)
  if (wrong !== undefined) {
    const [, at] = /position (\d+)/.exec(wrong) ?? []
    const from = at === undefined ? text.length : Number(at)
    const message = `is not valid JSON: ${wrong.replace(/ in JSON at position.*/, "")}`
    return [{ path: [], message, choices: [], line: lineOf(text, from), from, to: from }]
  }
  if (schema === null || schema === undefined) return []
  const marks = faultsOf(schema, value).map((fault) => {
    const place = locate(text, fault.path)
    return { ...fault, ...place, line: lineOf(text, place.from) }
  })
  return marks.sort((a, b) => a.line - b.line)
}

const nameOf = (path: ReadonlyArray<string>) => (path.length === 0 ? "The payload" : path.join("."))

interface FoundSchema {
  /** The schema; null if the kind declares none, undefined if it is not known. */
  readonly schema: unknown
  /** Why there is no schema to check against. */
  readonly missing?: string
}

/** Finds the schema of a registered kind. Failed requests are repeated, so the schema may arrive late. */
const useSchema = (kind: string): FoundSchema => {
  const known = useResource<Kinds>("kinds", { every: slowPoll })
  const isKnown = known.data?.kinds.some(({ name }) => name === kind) ?? false
  const path = isKnown ? `kinds/${encodeURIComponent(kind)}` : undefined
  const found = useResource<Kind>(path)
  if (found.path === path && found.data !== undefined) return { schema: found.data.schema }
  const error = known.data === undefined ? known.error : path === undefined ? undefined : found.error
  if (kind === "") return { schema: undefined }
  if (error !== undefined) return { schema: undefined, missing: `The schema could not be loaded: ${error.message}` }
  if (known.data === undefined || path !== undefined) return { schema: undefined, missing: "Loading the schema…" }
  return { schema: undefined, missing: `${kind} is not registered; the payload is not checked.` }
}

/** A JSON text field that validates against the schema of a kind while the user types, and suggests fields. */
export const PayloadEditor = (props: {
  readonly kind: string
  readonly value: string
  readonly onChange: (text: string) => void
  /** Whether an untouched payload changes with the kind. */
  readonly fills?: boolean
}) => {
  const { fills = false, kind, onChange, value } = props
  const id = useId()
  const { missing, schema } = useSchema(kind)
  const field = useRef<HTMLTextAreaElement>(null)
  const example = useMemo(() => (schema ? JSON.stringify(exampleOf(schema), null, 2) : undefined), [schema])
  const marks = useMemo(() => marksOf(value, schema), [value, schema])
  const lastExample = useRef<string | undefined>(undefined)
  useLayoutEffect(() => {
    // Reads the text on screen, not that of this render: the user may have typed since.
    const typed = field.current?.value ?? value
    if (fills && example !== undefined && (typed.trim() === "{}" || typed === lastExample.current)) onChange(example)
    lastExample.current = example
  }, [example])
  const payload = read(value).value
  const absent = (schema ? fieldsOf(schema) : []).filter(
    ({ name }) => typeof payload === "object" && payload !== null && !Array.isArray(payload) && !(name in payload)
  )
  const show = ({ from, to }: Marked) => {
    field.current?.focus()
    field.current?.setSelectionRange(from, to)
  }
  return (
    <div class="payload">
      <label class="field" for={id}>
        Payload
      </label>
      <div class="marked">
        <div class="marks" aria-hidden="true">
          {value.split("\n").map((text, line) => {
            const fault = marks.find((mark) => mark.line === line)
            return (
              <div key={line} class={fault === undefined ? "" : "bad"}>
                {text === "" ? " " : text}
                {fault === undefined ? null : <span class="says">{fault.message}</span>}
              </div>
            )
          })}
        </div>
        <textarea
          id={id}
          name="payload"
          ref={field}
          spellcheck={false}
          aria-invalid={marks.length > 0}
          aria-describedby={`${id}-faults`}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      </div>
      <div id={`${id}-faults`} class="small" role="status">
        <ul class="faults">
          {marks.slice(0, maxMessages).map((mark) => (
            <li key={`${mark.path.join(".")} ${mark.message}`}>
              <button type="button" class="link" onClick={() => show(mark)}>
                Line {mark.line + 1}
              </button>{" "}
              {nameOf(mark.path)} {mark.message}
              {mark.choices.slice(0, 6).map((choice) => (
                <button
                  type="button"
                  class="chip"
                  key={choice}
                  onClick={() => onChange(withValue(value, mark.path, choice))}
                >
                  {choice}
                </button>
              ))}
            </li>
          ))}
          {schema !== null && schema !== undefined && marks.length === 0 ? (
            <li class="quiet">Matches the schema of {kind}.</li>
          ) : null}
          {missing === undefined || marks.length > 0 ? null : <li class="quiet">{missing}</li>}
          {schema === null ? <li class="quiet">{kind} declares no schema; any JSON is accepted.</li> : null}
        </ul>
      </div>
      {absent.length === 0 ? null : (
        <fieldset class="row tight" aria-label="Add a field">
          {absent.map(({ example, name, required, type }) => (
            <button
              type="button"
              class="chip"
              key={name}
              title={`Add ${name}`}
              onClick={() => onChange(withField(value, name, example))}
            >
              + {name}
              <span class="quiet">
                {type}
                {required ? ", required" : ""}
              </span>
            </button>
          ))}
        </fieldset>
      )}
      {example === undefined || value === example ? null : (
        <div>
          <button type="button" class="link small" onClick={() => onChange(example)}>
            Replace with an example
          </button>
        </div>
      )}
    </div>
  )
}

/** Registered kinds as suggestions of a text field. */
export const KindSuggestions = ({ id }: { readonly id: string }) => {
  const { data } = useResource<Kinds>("kinds")
  return <Suggestions id={id} of={(data?.kinds ?? []).map(({ name }) => name)} />
}
