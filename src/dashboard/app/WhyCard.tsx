import { useEffect } from "preact/hooks"
import { PodLink } from "./Links"
import { podName } from "./PodNames"
import { Age } from "./parts/Time"
import { useResource } from "./Resource"
import { to } from "./Route"
import type { Why } from "./Views"

/** Reasons that need an operator. */
const needsOperator = new Set(["paused", "no_pod", "unknown_kind", "dead"])

/** What happens at `until`. */
const untilWords: Readonly<Record<string, string>> = { not_due: "starts", retrying: "next attempt" }

const idPattern = /([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/

/** A text in which what is between backticks is code. */
const Commands = ({ text }: { readonly text: string }) => (
  <>{text.split("`").map((part, place) => (place % 2 === 1 ? <code key={part}>{part}</code> : part))}</>
)

/** A text with its job ids and the pod's name as links. `split` puts the ids at odd indexes. */
const Detail = ({ pod, text }: { readonly text: string; readonly pod: string | null }) => {
  // The server identifies a stopped pod by its id.
  const name = pod === null ? undefined : [podName(pod), pod.slice(-8)].find((each) => text.includes(`process ${each}`))
  const [before, after] = name === undefined ? [] : text.split(`process ${name}`)
  if (pod !== null && before !== undefined && after !== undefined)
    return (
      <>
        {before}process <PodLink id={pod} />
        {after}
      </>
    )
  const parts = text.split(idPattern)
  return (
    <>
      {parts.map((part, place) =>
        place % 2 === 1 && parts[place - 1]?.endsWith("Job ") ? (
          <a class="mono" href={to(`jobs/${part}`)}>
            {part}
          </a>
        ) : (
          <Commands key={part} text={part} />
        )
      )}
    </>
  )
}

/** Explains why a job is in its state. Reloads on events, every few seconds, and when `until` is reached. */
export const WhyCard = (props: {
  readonly path: string
  readonly state: string
  readonly pod: string | null
  readonly pulse: number
}) => {
  const { path, pod, pulse, state } = props
  const { data, error, reload } = useResource<Why>(`${path}/why`, { pulse: `${pulse} ${state}`, every: 5_000 })
  const until = data?.until
  useEffect(() => {
    if (until === undefined) return
    const wait = Date.parse(until) - Date.now()
    // setTimeout overflows after 24 days; ignore anything beyond one day.
    if (wait < 0 || wait > 86_400_000) return
    const timer = setTimeout(reload, wait + 250)
    return () => clearTimeout(timer)
  }, [until, reload])
  // Until the first response the card has the height of a reason, so that the rest of the page does not move under the pointer.
  if (data === undefined)
    return error === undefined ? (
      <div class="card body why" role="status" aria-busy="true">
        <strong>{state}</strong>
        <p>…</p>
      </div>
    ) : null
  const reason = data.reason === "no_pod" ? "no process" : data.reason.replaceAll("_", " ")
  return (
    <div class={`card body why ${needsOperator.has(data.reason) ? "wants" : ""}`} role="status">
      <strong>{reason}</strong>
      {until === undefined ? null : (
        <span class="quiet">
          {" "}
          {untilWords[data.reason] ?? "ends"} <Age at={until} />
        </span>
      )}
      <p>
        {/* The page shows the error below. */}
        <Detail text={data.detail.replace(/ Last error: .*$/s, "")} pod={pod} />
      </p>
    </div>
  )
}
