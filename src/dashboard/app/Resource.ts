import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { get, Refused } from "./Api"

/** Loaded data. The last successful response stays visible while a newer one is loading. */
export interface Resource<A> {
  readonly data: A | undefined
  /** The path that the data belongs to, which may be the previous one while a new path loads. */
  readonly path: string | undefined
  readonly refused: Refused | undefined
  /** When the data was loaded, in epoch milliseconds. */
  readonly at: number
  readonly reload: () => void
}

/** Poll interval in milliseconds for data that the server caches: corrects the last update even if no event follows. */
export const nowAndThen = 30_000

/** Loads a path and reloads it when the path or `pulse` changes, and every `every` milliseconds. */
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
    // Do not poll in a hidden tab.
    const timer = setInterval(() => document.visibilityState === "visible" && setTurn((n) => n + 1), every)
    return () => clearInterval(timer)
  }, [every])

  const reload = useCallback(() => setTurn((n) => n + 1), [])
  return { data: answer?.data, path: answer?.path, refused, at: answer?.at ?? 0, reload }
}
