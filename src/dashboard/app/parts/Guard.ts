import { useRef } from "preact/hooks"

/** Milliseconds after a change in which clicks are ignored: they were meant for the previous control. */
const settling = 500

/**
 * Returns a wrapper for click handlers. It ignores clicks while an action runs, and right after `value` changed: otherwise
 * the second click of a double click would hit the control that the first one revealed.
 */
export const useGuard = (value: unknown): ((act: () => unknown) => () => void) => {
  const state = useRef({ value, changedAt: Number.NEGATIVE_INFINITY, busy: false })
  if (state.current.value !== value) {
    state.current.value = value
    state.current.changedAt = performance.now()
  }
  return (act) => () => {
    const now = state.current
    if (now.busy || performance.now() - now.changedAt < settling) return
    const running = act()
    if (!(running instanceof Promise)) return
    now.busy = true
    void running.finally(() => {
      now.busy = false
      now.changedAt = performance.now()
    })
  }
}
