import { ConfigProvider } from "effect"

/** Raw setting values by configuration key. */
export type Texts = Readonly<Record<string, string | undefined>>

export interface Given {
  readonly text: string
  readonly source: "flag" | "env"
}

/** Settings given by flags and environment variables. */
export interface Environment {
  /** Returns a key's value and source. A flag takes precedence over a variable; a blank variable counts as unset. */
  readonly lookUp: (key: string) => Given | undefined
  readonly provider: ConfigProvider.ConfigProvider
  /** All variables and flags that are set, including unknown ones. */
  readonly names: ReadonlyArray<string>
}

/** The only code that reads `process.env`. */
export const make = (flags: Texts, variables: Texts = process.env): Environment => {
  const lookUp = (key: string): Given | undefined => {
    const flag = flags[key]
    if (flag !== undefined) return { text: flag, source: "flag" }
    const variable = variables[key]?.trim()
    return variable === undefined || variable === "" ? undefined : { text: variable, source: "env" }
  }
  const keys = new Set([...Object.keys(flags), ...Object.keys(variables)])
  const texts = new Map<string, string>()
  for (const key of keys) {
    const given = lookUp(key)
    if (given !== undefined) texts.set(key, given.text)
  }
  return { lookUp, provider: ConfigProvider.fromMap(texts), names: [...texts.keys()] }
}
