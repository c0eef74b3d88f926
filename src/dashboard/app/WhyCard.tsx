import { useEffect } from "preact/hooks"
import { Age } from "./parts/Time"
import { useResource } from "./Resource"
import { to } from "./Route"
import type { Why } from "./Views"

/** What waits for a person to do something. */
const needsSomebody = new Set(["paused", "no_pod", "unknown_kind", "dead"])

const idPattern = /([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/

/** A sentence in which jobs can be followed. The ids stand at the odd places. */
const Detail = ({ text }: { readonly text: string }) => {
  const parts = text.split(idPattern)
  return (
    <>
      {parts.map((part, place) =>
        place % 2 === 1 && parts[place - 1]?.endsWith("Job ") ? (
          <a class="mono" href={to(`jobs/${part}`)}>
            {part}
          </a>
        ) : (
          part
        )
      )}
    </>
  )
}

/** Why a job stands where it stands: asked again when something happens, every few seconds, and when its time has come. */
export const WhyCard = ({ path, state, pulse }: { path: string; state: string; pulse: number }) => {
  const { data, reload } = useResource<Why>(`${path}/why`, { pulse: `${pulse} ${state}`, every: 5_000 })
  const until = data?.until
  useEffect(() => {
    if (until === undefined) return
    const wait = Date.parse(until) - Date.now()
    // Timers cannot count further than some weeks, and nobody watches a page for so long.
    if (wait < 0 || wait > 86_400_000) return
    const timer = setTimeout(reload, wait + 250)
    return () => clearTimeout(timer)
  }, [until, reload])
  if (data === undefined) return null
  const reason = data.reason.replaceAll("_", " ")
  return (
    <div class={`card body why ${needsSomebody.has(data.reason) ? "wants" : ""}`} role="status">
      <strong>{reason}</strong>
      {until === undefined ? null : (
        <span class="quiet">
          {" "}
          {data.reason === "not_due" ? "begins" : "ends"} <Age at={until} />
        </span>
      )}
      <p>
        <Detail text={data.detail} />
      </p>
    </div>
  )
}
