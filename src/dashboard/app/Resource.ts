import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { get, Refused } from "./Api"

/** What a page shows: the last good answer stays while a newer one is on its way, so that nothing jumps. */
export interface Resource<A> {
  readonly data: A | undefined
  readonly refused: Refused | undefined
  /** When the data came, in epoch milliseconds. */
  readonly at: number
  readonly reload: () => void
}

/** For what may be some seconds old when the last change is shown: once more, and it is right although nothing happens. */
export const nowAndThen = 30_000

/** Reads an address, again at every change of it, of `pulse`, and of its own accord after `every` milliseconds. */
export const useResource = <A>(
  path: string | undefined,
  options: { every?: number; pulse?: unknown } = {}
): Resource<A> => {
  const [answer, setAnswer] = useState<{ path: string; data: A; at: number }>()
  const [refused, setRefused] = useState<Refused>()
  const [turn, setTurn] = useState(0)
  const { every, pulse } = options
  const running = useRef<AbortController | undefined>(undefined)

  useEffect(() => {
    if (path === undefined) return
    running.current?.abort()
    const control = new AbortController()
    running.current = control
    get<A>(path, control.signal).then(
      (data) => {
        if (control.signal.aborted) return
        setAnswer({ path, data, at: Date.now() })
        setRefused(undefined)
      },
      (error: unknown) => {
        if (!control.signal.aborted)
          setRefused(error instanceof Refused ? error : new Refused(0, "Broken", String(error), undefined))
      }
    )
    return () => control.abort()
  }, [path, turn, pulse])

  useEffect(() => {
    if (every === undefined) return
    // A page nobody looks at asks nothing.
    const timer = setInterval(() => document.visibilityState === "visible" && setTurn((n) => n + 1), every)
    return () => clearInterval(timer)
  }, [every])

  const reload = useCallback(() => setTurn((n) => n + 1), [])
  return { data: answer?.data, refused, at: answer?.at ?? 0, reload }
}
