import { isNode, type Node } from "../PayloadSchema"

const doneNames = ["done", "current", "completed", "value", "processed"]
const totalNames = ["total", "max", "of"]
const shareNames = ["percent", "percentage", "ratio", "fraction", "progress"]

const numberOf = (fields: Node, names: ReadonlyArray<string>) => {
  const name = names.find((each) => typeof fields[each] === "number")
  return name === undefined ? undefined : { name, value: fields[name] as number }
}

/** A fraction up to 1, or a percentage above. */
const shareOf = (value: number) => (value <= 1 ? value : value / 100)

interface Read {
  /** From 0 to 1. */
  readonly share: number
  readonly text: string
  /** The other fields that the handler reported. */
  readonly rest: ReadonlyArray<readonly [name: string, value: unknown]>
}

/** Reads the progress that a handler reported, if it has one of the usual forms. */
export const readProgress = (progress: unknown): Read | undefined => {
  const of = (share: number, text: string, rest: Read["rest"]): Read | undefined =>
    share >= 0 && share <= 1 ? { share, text, rest } : undefined
  const percent = (share: number) => `${Math.round(share * 100)} %`
  if (typeof progress === "number") return of(shareOf(progress), percent(shareOf(progress)), [])
  if (!isNode(progress)) return undefined
  const rest = (...used: ReadonlyArray<string>) => Object.entries(progress).filter(([name]) => !used.includes(name))
  const [done, total] = [numberOf(progress, doneNames), numberOf(progress, totalNames)]
  if (done !== undefined && total !== undefined && total.value > 0) {
    const text = `${done.value.toLocaleString()} of ${total.value.toLocaleString()}`
    return of(done.value / total.value, text, rest(done.name, total.name))
  }
  const share = numberOf(progress, shareNames)
  if (share === undefined) return undefined
  return of(shareOf(share.value), percent(shareOf(share.value)), rest(share.name))
}

const fieldText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value))

/** The progress as a bar, with the handler's other fields beside it. */
export const ProgressBar = ({ of: { rest, share, text } }: { readonly of: Read }) => (
  <span class="progressing">
    <span class="bar" role="img" aria-label={`Progress: ${text}`}>
      <progress max={1} value={share} />
    </span>
    <span>{text}</span>
    {rest.map(([name, value]) => (
      <span class="quiet" key={name}>
        {name} {fieldText(value)}
      </span>
    ))}
  </span>
)
