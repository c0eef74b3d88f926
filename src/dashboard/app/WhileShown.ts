// A browser opens six connections to a service over HTTP/1.1, for all of its tabs. Six streams of hidden tabs would leave none
// for requests.

/** Milliseconds after which a hidden tab closes its streams. */
const hiddenFor = 10_000

/** Milliseconds between the looks of a hidden tab. Browsers allow no more. */
const lookEvery = 60_000

/**
 * Calls `close` when the tab has been hidden for a while, then `look` from time to time, and `open` when it is shown again.
 * Returns a function that ends it.
 */
export const whileShown = (open: () => void, close: () => void, look: () => void = () => {}): (() => void) => {
  let isClosed = false
  let timer: number | undefined
  const turn = () => {
    clearTimeout(timer)
    if (document.visibilityState !== "visible")
      timer = window.setTimeout(() => {
        isClosed = true
        close()
        timer = window.setInterval(look, lookEvery)
      }, hiddenFor)
    else if (isClosed) {
      isClosed = false
      open()
    }
  }
  document.addEventListener("visibilitychange", turn)
  turn()
  return () => {
    clearTimeout(timer)
    document.removeEventListener("visibilitychange", turn)
  }
}
