import { type Route, refine } from "../Route"

/** Whether every word is in one of the texts, whatever its case. */
export const hasWords = (words: string, ...texts: ReadonlyArray<string>): boolean => {
  const all = texts.join("\n").toLowerCase()
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word))
}

/** A filter of rows that the page already has. It applies while the user types, and is kept in the URL. */
export const TextFilter = (props: { readonly route: Route; readonly label: string }) => (
  <input
    type="search"
    class="wide"
    data-search
    aria-label={props.label}
    placeholder={props.label}
    value={props.route.query.get("filter") ?? ""}
    onInput={({ currentTarget: { value } }) => refine(props.route, { filter: value }, "replace")}
  />
)

/** How many rows a filter leaves. */
export const FilterCount = (props: { readonly shown: number; readonly all: number; readonly name: string }) => (
  <span class="quiet small" role="status">
    {props.shown === props.all
      ? props.all.toLocaleString()
      : `${props.shown.toLocaleString()} of ${props.all.toLocaleString()}`}{" "}
    {props.name}
    {props.all === 1 ? "" : "s"}
  </span>
)
