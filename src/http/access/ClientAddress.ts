import { BlockList, isIP, isIPv4 } from "node:net"
import { Either } from "effect"
import { groupsOf } from "../../gateway/fetch/Addresses.js"

/** The address of the client, as its connection and its `X-Forwarded-For` header say. */
export type ClientAddress = (peer: string | undefined, forwardedFor: string | undefined) => string

const wordsOf = (text: string): ReadonlyArray<string> =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "")

const isProxy = (word: string): boolean => {
  const [address = "", prefix, ...more] = word.split("/")
  const version = isIP(address)
  if (version === 0 || more.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128))
}

/** For the setting that names the proxies. */
export const readProxies = (text: string): Either.Either<string, string> =>
  wordsOf(text).every(isProxy)
    ? Either.right(text)
    : Either.left("addresses or ranges of proxies like 10.0.0.0/8, separated by commas")

/** Without the port and brackets that some proxies add, and IPv4 as itself where a socket shows it as IPv6. */
const plain = (text: string): string => {
  const trimmed = text.trim()
  const bare = /^\[([^\]]{1,64})\](?::\d{1,5})?$/.exec(trimmed)?.[1] ?? /^([\d.]{7,15}):\d{1,5}$/.exec(trimmed)?.[1]
  return (bare ?? trimmed).replace(/^::ffff:(?=\d+\.)/i, "")
}

/**
 * Believes `X-Forwarded-For` only as far as it was written by these proxies: from its end, as long as the address before is
 * a proxy's. With no proxies the connection's own address counts, whatever a header says.
 */
export const make = (proxies: string): ClientAddress => {
  const trusted = new BlockList()
  for (const word of wordsOf(proxies)) {
    const [address = "", prefix] = word.split("/")
    const isFour = isIPv4(address)
    trusted.addSubnet(address, Number(prefix ?? (isFour ? 32 : 128)), isFour ? "ipv4" : "ipv6")
  }
  const isTrusted = (address: string) =>
    isIP(address) !== 0 && trusted.check(address, isIPv4(address) ? "ipv4" : "ipv6")
  return (peer, forwardedFor) => {
    let address = plain(peer ?? "")
    if (forwardedFor === undefined || !isTrusted(address)) return address
    for (const hop of forwardedFor.split(",").reverse()) {
      const before = plain(hop)
      if (isIP(before) === 0) return address
      address = before
      if (!isTrusted(address)) return address
    }
    return address
  }
}

/** What is counted together: an IPv4 address, or the 64 bits of an IPv6 address that one customer usually has. */
export const group = (address: string): string => groupsOf(address)?.slice(0, 4).join(":") ?? address
