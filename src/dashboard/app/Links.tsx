import { useLiveUpdates } from "./Live"
import { podName } from "./PodNames"
import { to } from "./Route"

export const queueAddress = (queue: string): string => to(`queues/${encodeURIComponent(queue)}`)

/** A queue, as a link to its page. */
export const QueueLink = ({ name }: { readonly name: string }) => <a href={queueAddress(name)}>{name}</a>

/** A kind of job, as a link to its page. */
export const KindLink = ({ name }: { readonly name: string }) => (
  <a href={to(`kinds/${encodeURIComponent(name)}`)}>{name}</a>
)

/** A pod by its name, as a link to its page. */
export const PodLink = ({ id }: { readonly id: string }) => {
  const { pods } = useLiveUpdates()
  const isGone = pods !== undefined && !pods.some((each) => each.id === id)
  return (
    <a class="nowrap" href={to(`pods/${id}`)} title={`Process ${id}${isGone ? ", no longer running" : ""}`}>
      {podName(id)}
    </a>
  )
}
