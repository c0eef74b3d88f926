import { type LookupAddress, lookup, Resolver } from "node:dns"

// The system's lookup occupies one of two threads of libuv until it ends, 10 seconds and more for a name server that does not answer,
// and nothing can cancel it. Others choose the names of endpoints, so those are asked without a thread. The system still resolves
// names that DNS does not have, such as those of /etc/hosts and of search domains, one at a time.

export type Found = (error: NodeJS.ErrnoException | null, addresses: ReadonlyArray<LookupAddress>) => void

export type NameLookup = (host: string, found: Found) => void

/** Limits of one query, in milliseconds and attempts. */
const query = { timeout: 2_000, tries: 2 }

/** A refused connection: no name server is configured or runs. */
const none = new Set(["ENOTFOUND", "ENODATA", "ECONNREFUSED"])
const hasNone = (error: NodeJS.ErrnoException | null) => none.has(error?.code ?? "")

/** Resolves a name as the system does. */
export const bySystem: NameLookup = (host, found) =>
  lookup(host, { all: true }, (error, addresses) => found(error, error === null ? addresses : []))

/** Asks name servers for the addresses of a name, IPv4 first. A new resolver reads the system's configuration again. */
const byServers =
  (servers: ReadonlyArray<string> | undefined): NameLookup =>
  (host, found) => {
    const resolver = new Resolver(query)
    if (servers !== undefined) resolver.setServers(servers)
    const answers: Array<{ error: NodeJS.ErrnoException | null; addresses: ReadonlyArray<LookupAddress> }> = []
    const answered = (family: 4 | 6) => (error: NodeJS.ErrnoException | null, texts: ReadonlyArray<string>) => {
      answers.push({ error, addresses: error === null ? texts.map((address) => ({ address, family })) : [] })
      if (answers.length < 2) return
      const addresses = answers.flatMap((answer) => answer.addresses).sort((one, other) => one.family - other.family)
      const failed = answers.find(({ error }) => error !== null && !hasNone(error)) ?? answers[0]
      found(addresses.length > 0 ? null : (failed?.error ?? null), addresses)
    }
    resolver.resolve4(host, answered(4))
    resolver.resolve6(host, answered(6))
  }

/** Resolves names that others choose. `servers` are the addresses of name servers. [those of the system] */
export const make = (servers?: ReadonlyArray<string>): NameLookup => {
  const ask = byServers(servers)
  let last = Promise.resolve()
  return (host, found) =>
    ask(host, (error, addresses) => {
      if (!hasNone(error)) return found(error, addresses)
      last = last.then(
        () =>
          new Promise((resume) =>
            bySystem(host, (...answer) => {
              resume()
              found(...answer)
            })
          )
      )
    })
}
