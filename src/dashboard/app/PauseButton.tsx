import * as Api from "./Api"
import * as Live from "./Live"
import { useGuard } from "./parts/Guard"
import { showError } from "./parts/Toasts"
import { announce } from "./Undo"
import type { Queue } from "./Views"

/** Changes a queue and announces it. */
export const changeQueue = (
  name: string,
  body: unknown,
  said: string,
  onChange: () => void,
  say: (text: string) => void = announce
): Promise<void> =>
  Api.patch(`queues/${encodeURIComponent(name)}`, body).then(() => {
    say(said)
    onChange()
  }, showError)

/** Pauses a queue, or resumes a paused one. */
export const turnQueue = ({ name, paused }: Pick<Queue, "name" | "paused">, onChange: () => void): Promise<void> =>
  changeQueue(name, { paused: !paused }, `${name} ${paused ? "resumed" : "paused"}`, () => {
    Live.turned(name, !paused)
    onChange()
  })

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
