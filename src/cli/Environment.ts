import { ConfigProvider } from "effect"

/** Text by configuration key; absent where not given. */
export type Texts = Readonly<Record<string, string | undefined>>

export interface Given {
  readonly text: string
  readonly source: "flag" | "env"
}

/** What a person set, on the command line and around it. */
export interface Environment {
  /** The value of a key and who set it: a flag beats a variable, a blank variable counts as absent. */
  readonly lookUp: (key: string) => Given | undefined
  readonly provider: ConfigProvider.ConfigProvider
  /** Every variable and flag that is given, known or not. */
  readonly names: ReadonlyArray<string>
}

/** The one place that reads the process's environment. */
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
