import { useNews } from "./Live"
import { to } from "./Route"

/** The name of a pod everywhere: its label, or the end of its id, which is random. */
export const podName = (id: string, label: string | null | undefined): string => label ?? id.slice(-8)

/** A pod by its name, as a link to its page. A pod that is gone keeps its short id. */
export const PodLink = ({ id }: { readonly id: string }) => {
  const { pods } = useNews()
  const pod = pods?.find((each) => each.id === id)
  return (
    <a
      class="nowrap"
      href={to(`pods/${id}`)}
      title={`Pod ${id}${pods === undefined || pod ? "" : ", no longer running"}`}
    >
      {podName(id, pod?.label)}
    </a>
  )
}
