import { useEnvironment } from "./Session"

// The name of the installation, from NIGHTSHIFT_ENVIRONMENT. Its colour follows from the name.

const colours: ReadonlyArray<readonly [name: RegExp, colour: string]> = [
  [/^pre|(^|[ ._-])(stag|test|qa|uat)/i, "amber"],
  [/(^|[ ._-])(prod|live)/i, "red"],
  [/(^|[ ._-])(dev|local|demo|sandbox)/i, "green"]
]

const colourOf = (name: string) => colours.find(([pattern]) => pattern.test(name))?.[1] ?? "blue"

/** The strip above every page. */
export const EnvironmentStrip = () => {
  const name = useEnvironment()
  return name === null ? null : <div class={`environment strip ${colourOf(name)}`}>{name}</div>
}

/** The name beside the title of a dialog. */
export const EnvironmentTag = () => {
  const name = useEnvironment()
  return name === null ? null : <span class={`environment ${colourOf(name)}`}>{name}</span>
}
