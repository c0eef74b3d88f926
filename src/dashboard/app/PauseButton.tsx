import * as Api from "./Api"
import { useGuard } from "./parts/Guard"
import { showError, showToast } from "./parts/Toasts"
import type { Queue } from "./Views"

/** Changes a queue, with a toast that offers to undo it. */
export const useQueueChange = (queue: Queue, onChange: () => void) => {
  const guard = useGuard(queue.paused)
  const send = (body: unknown, said: string, undo?: Readonly<Record<string, unknown>>): Promise<void> =>
    Api.patch(`queues/${encodeURIComponent(queue.name)}`, body).then(() => {
      showToast(
        said,
        undo === undefined ? undefined : { name: "Undo", run: () => void send(undo, `${queue.name} restored`) }
      )
      onChange()
    }, showError)
  return { guard, send }
}

/** Pauses or resumes a queue. */
export const PauseButton = ({ onChange, queue }: { readonly queue: Queue; readonly onChange: () => void }) => {
  const { guard, send } = useQueueChange(queue, onChange)
  return (
    <button
      type="button"
      class="fixed"
      title={`${queue.paused ? "Start jobs of this queue again." : "Start no more jobs of this queue."} Can be undone.`}
      onClick={guard(() =>
        send({ paused: !queue.paused }, `${queue.name} ${queue.paused ? "resumed" : "paused"}`, {
          paused: queue.paused
        })
      )}
    >
      {queue.paused ? "Resume" : "Pause"}
    </button>
  )
}
