import { useEffect, useState } from "preact/hooks"

interface Toast {
  readonly id: number
  readonly text: string
  readonly act: { readonly name: string; readonly run: () => void } | undefined
}

let show: (toast: Toast) => void = () => {}
let count = 0

/** Shows a toast, optionally with an undo button. */
export const showToast = (text: string, act?: Toast["act"]): void => {
  count += 1
  show({ id: count, text, act })
}

export const showError = (error: Error): void => showToast(error.message)

export const Toasts = () => {
  const [toasts, setToasts] = useState<ReadonlyArray<Toast>>([])
  const drop = (id: number) => setToasts((all) => all.filter((toast) => toast.id !== id))
  useEffect(() => {
    show = (toast) => {
      setToasts((all) => [...all.slice(-3), toast])
      setTimeout(() => drop(toast.id), toast.act === undefined ? 5_000 : 12_000)
    }
  }, [])
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map(({ act, id, text }) => (
        <div class="toast" key={id}>
          <span>{text}</span>
          {act === undefined ? null : (
            <button
              type="button"
              class="link"
              onClick={() => {
                drop(id)
                act.run()
              }}
            >
              {act.name}
            </button>
          )}
        </div>
      ))}
    </div>
  )
}
