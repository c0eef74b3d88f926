/** Reads a list that the browser remembers. Undefined if there is none, or if the browser blocks storage. */
export const storedList = (storage: "localStorage" | "sessionStorage", key: string): Array<never> | undefined => {
  try {
    const kept: unknown = JSON.parse(window[storage].getItem(key) ?? "null")
    return Array.isArray(kept) ? (kept as Array<never>) : undefined
  } catch {
    return undefined
  }
}
