import { useLiveUpdates } from "./Live"
import { podName } from "./PodNames"
import { to } from "./Route"

/** A pod by its name, as a link to its page. */
export const PodLink = ({ id }: { readonly id: string }) => {
  const { pods } = useLiveUpdates()
  const isGone = pods !== undefined && !pods.some((each) => each.id === id)
  return (
    <a class="nowrap" href={to(`pods/${id}`)} title={`Pod ${id}${isGone ? ", no longer running" : ""}`}>
      {podName(id)}
    </a>
  )
}
