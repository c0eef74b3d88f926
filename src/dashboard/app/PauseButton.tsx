import * as Api from "./Api"
import { useGuard } from "./parts/Guard"
import { showError, showToast } from "./parts/Toasts"
import type { Queue } from "./Views"

/** Changes a queue, with a toast that offers to undo it. */
const changeQueue = (
  name: string,
  body: unknown,
  said: string,
  onChange: () => void,
  undo?: Readonly<Record<string, unknown>>
): Promise<void> =>
  Api.patch(`queues/${encodeURIComponent(name)}`, body).then(() => {
    const restore = () => void changeQueue(name, undo, `${name} restored`, onChange)
    showToast(said, undo === undefined ? undefined : { name: "Undo", run: restore })
    onChange()
  }, showError)

export const useQueueChange = (queue: Queue, onChange: () => void) => {
  const guard = useGuard(queue.paused)
  const send = (body: unknown, said: string) => changeQueue(queue.name, body, said, onChange)
  return { guard, send }
}

/** Pauses a queue, or resumes a paused one. */
export const turnQueue = ({ name, paused }: Queue, onChange: () => void): Promise<void> =>
  changeQueue(name, { paused: !paused }, `${name} ${paused ? "resumed" : "paused"}`, onChange, { paused })

/** Pauses or resumes a queue. */
export const PauseButton = ({ onChange, queue }: { readonly queue: Queue; readonly onChange: () => void }) => {
  const guard = useGuard(queue.paused)
  return (
    <button
      type="button"
      class="fixed"
      title={`${queue.paused ? "Start jobs of this queue again." : "Start no more jobs of this queue."} Can be undone.`}
      onClick={guard(() => turnQueue(queue, onChange))}
    >
      {queue.paused ? "Resume" : "Pause"}
    </button>
  )
}
