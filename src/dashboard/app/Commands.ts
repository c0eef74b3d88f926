import { useEffect, useRef } from "preact/hooks"

/** An action that the command palette offers while its page is shown. */
export interface Command {
  readonly name: string
  readonly run: () => void
}

const sources = new Set<() => ReadonlyArray<Command>>()

/** Offers the actions of a component in the command palette while it is mounted. */
export const useCommands = (commands: ReadonlyArray<Command>): void => {
  const latest = useRef(commands)
  latest.current = commands
  useEffect(() => {
    const read = () => latest.current
    sources.add(read)
    return () => void sources.delete(read)
  }, [])
}

/** The actions of the components on the page. */
export const pageCommands = (): ReadonlyArray<Command> => [...sources].flatMap((read) => read())
