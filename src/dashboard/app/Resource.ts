import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { ApiError, get } from "./Api"
import { isUnchangedSince } from "./Live"

/** Loaded data. The last successful response stays visible while a newer one is loading. */
export interface Resource<A> {
  readonly data: A | undefined
  /** The path that the data belongs to, which may be the previous one while a new path loads. */
  readonly path: string | undefined
  /** Whether the data belongs to another path than the current one, such as that of the previous filter. */
  readonly isOther: boolean
  readonly error: ApiError | undefined
  /** When the data was loaded, in epoch milliseconds. */
  readonly at: number
  readonly reload: () => void
}

/** Poll interval in milliseconds for data that the server caches: corrects the last update even if no event follows. */
export const slowPoll = 30_000

/** Poll interval in milliseconds for data that no event announces, or that no event has announced. */
export const idlePoll = 60_000

/** Milliseconds until a request that failed on the server's side is repeated, if nothing else repeats it. */
const retryAfter = 5_000

/** After a background request the next one waits this many times its duration, so that a slow server gets fewer. */
const restFactor = 3

const isVisible = () => document.visibilityState === "visible"

/** Whether the same request may succeed later. */
export const isTransient = ({ status }: ApiError) => status === 0 || status >= 500

const apiErrorOf = (error: unknown) =>
  error instanceof ApiError ? error : new ApiError(0, "Broken", String(error), undefined)

const reloaders = new Set<() => void>()

/** Reloads everything that is shown, after a change that no event may report. */
export const reloadAll = (): void => {
  for (const reload of reloaders) reload()
}

/** Calls the listener when everything is reloaded. */
export const useReloadAll = (listener: () => void): void => {
  const current = useRef(listener)
  current.current = listener
  useEffect(() => {
    const reload = () => current.current()
    reloaders.add(reload)
    return () => void reloaders.delete(reload)
  }, [])
}

/**
 * Sends the requests of one resource, one at a time. `load` replaces a running request. `refresh` never does: events may
 * arrive faster than responses, and a page that aborts its request at every event would never show anything.
 */
const makeLoader = <A>(onData: (path: string, data: A) => void, onError: (error: ApiError) => void) => {
  let path: string | undefined
  let running: AbortController | undefined
  let timer: number | undefined
  let isDue = false
  let restsUntil = 0
  let loadedAt = 0
  let askedAt = 0

  const stop = () => {
    running?.abort()
    running = undefined
    clearTimeout(timer)
    timer = undefined
    isDue = false
  }
  const refreshIn = (milliseconds: number) => {
    timer ??= window.setTimeout(send, milliseconds)
  }
  const refresh = () => {
    if (path === undefined) return
    const now = performance.now()
    if (running !== undefined) isDue = true
    else if (now < restsUntil) refreshIn(restsUntil - now)
    else send()
  }
  const send = () => {
    const asked = path
    if (asked === undefined) return
    stop()
    const control = new AbortController()
    running = control
    const begun = performance.now()
    askedAt = Date.now()
    const finish = (use: () => void) => {
      if (control.signal.aborted) return
      running = undefined
      loadedAt = performance.now()
      restsUntil = loadedAt + restFactor * (loadedAt - begun)
      use()
      if (isDue) refresh()
    }
    get<A>(asked, control.signal).then(
      (data) => finish(() => onData(asked, data)),
      (error: unknown) =>
        finish(() => {
          const failure = apiErrorOf(error)
          onError(failure)
          if (isTransient(failure)) refreshIn(retryAfter)
        })
    )
  }
  return {
    load: (next: string) => {
      path = next
      send()
    },
    stop: () => {
      stop()
      path = undefined
    },
    refresh,
    isOlderThan: (milliseconds: number) => performance.now() - loadedAt >= milliseconds,
    isUnchanged: () => isUnchangedSince(askedAt)
  }
}

/**
 * Loads a path and reloads it when the path or `pulse` changes, and every `every` milliseconds. With `announced`, events
 * announce all its changes, so it is reloaded less often while there are none.
 */
export const useResource = <A>(
  path: string | undefined,
  options: { every?: number; pulse?: unknown; announced?: boolean } = {}
): Resource<A> => {
  const [answer, setAnswer] = useState<{ path: string; data: A; at: number }>()
  const [error, setError] = useState<ApiError>()
  const [turn, setTurn] = useState(0)
  const { announced = false, every, pulse } = options
  const [loader] = useState(() =>
    makeLoader<A>((path, data) => {
      setAnswer({ path, data, at: Date.now() })
      setError(undefined)
    }, setError)
  )

  useEffect(() => {
    if (path === undefined) return
    loader.load(path)
    return loader.stop
  }, [path, turn])

  const lastPulse = useRef(pulse)
  useEffect(() => {
    if (lastPulse.current !== pulse) loader.refresh()
    lastPulse.current = pulse
  }, [pulse])

  useEffect(() => {
    if (every === undefined) return
    // A hidden tab does not poll, and catches up when it is shown.
    const refreshIfStale = () => isVisible() && loader.isOlderThan(every) && loader.refresh()
    const isDue = () => !announced || !loader.isUnchanged() || loader.isOlderThan(idlePoll)
    const timer = setInterval(() => isVisible() && isDue() && loader.refresh(), every)
    document.addEventListener("visibilitychange", refreshIfStale)
    return () => {
      clearInterval(timer)
      document.removeEventListener("visibilitychange", refreshIfStale)
    }
  }, [every])

  useEffect(() => {
    addEventListener("login", loader.refresh)
    return () => removeEventListener("login", loader.refresh)
  }, [])

  const reload = useCallback(() => setTurn((n) => n + 1), [])
  useReloadAll(reload)
  const isOther = path !== undefined && answer !== undefined && answer.path !== path
  return { data: answer?.data, path: answer?.path, isOther, error, at: answer?.at ?? 0, reload }
}
