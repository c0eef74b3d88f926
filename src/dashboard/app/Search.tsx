import { useState } from "preact/hooks"
import * as Api from "./Api"
import { DraftInput } from "./parts/DraftInput"
import { Failure } from "./parts/Failure"
import { go, type Query, to } from "./Route"

// One search box for an id or part of it, a key, a word of the error, or a payload field.

const fullId = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const fieldPattern = /^([\w-]+(?:\.[\w-]+)*)\s*=\s*(.+)$/s

/** Reads a value as JSON if it is valid, otherwise as text: `order.id=7` is a number, `name=Ada` a string. */
const valueText = (text: string): string => {
  try {
    JSON.parse(text)
    return text
  } catch {
    return JSON.stringify(text)
  }
}

/** Converts a search to filters. Throws if it starts like JSON but is invalid. */
export const queryOf = (text: string): Query => {
  const given = text.trim()
  if (given.startsWith("{") || given.startsWith("[")) {
    JSON.parse(given)
    return { payload: given, search: undefined }
  }
  const [, path, value] = fieldPattern.exec(given) ?? []
  if (path === undefined || value === undefined) return { search: given }
  // Built as text: parsing the value here would round long numbers.
  const nested = path.split(".").reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, valueText(value))
  return { payload: nested, search: undefined }
}

/** The search box of the job lists. */
export const Search = ({ change, value }: { readonly value: string; readonly change: (query: Query) => void }) => {
  const [failure, setFailure] = useState<string>()
  const search = async (text: string) => {
    setFailure(undefined)
    if (fullId.test(text.trim())) {
      const id = text.trim().toLowerCase()
      const exists = await Api.get(`jobs/${id}`).then(
        () => true,
        () => false
      )
      if (exists) return go(to(`jobs/${id}`))
    }
    try {
      change(queryOf(text))
    } catch (error) {
      setFailure(`The search is not valid JSON: ${(error as Error).message}`)
    }
  }
  return (
    <div class="searching">
      <DraftInput
        type="search"
        label="Search"
        hint="Search id, key, kind, error, or field=value"
        width="wide"
        main
        value={value}
        onGive={(text) => void search(text)}
      />
      <Failure text={failure} />
    </div>
  )
}
