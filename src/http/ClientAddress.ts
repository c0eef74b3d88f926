import { BlockList, isIP, isIPv4 } from "node:net"
import { Either } from "effect"
import { groupsOf } from "../gateway/fetch/Addresses.js"

/** Returns the client's address from the peer address and the `X-Forwarded-For` header. */
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

/** Validates the NIGHTSHIFT_TRUST_PROXY setting. */
export const readProxies = (text: string): Either.Either<string, string> =>
  wordsOf(text).every(isProxy)
    ? Either.right(text)
    : Either.left("comma-separated addresses or ranges of proxies like 10.0.0.0/8")

/** Whether a range includes half of all addresses or more, so that clients can forge their address. */
export const trustsEveryone = (proxies: string): boolean =>
  wordsOf(proxies).some((word) => Number(word.split("/")[1] ?? "128") <= 1)

export const trustsEveryoneText =
  "NIGHTSHIFT_TRUST_PROXY includes half of all addresses or more, so every client can choose its own address with X-Forwarded-For and evade the limits per address."

export const trustsEveryoneRemedy = "Set NIGHTSHIFT_TRUST_PROXY to the addresses of your proxies."

/** Strips port and brackets, which some proxies add, and unwraps IPv4-mapped IPv6 addresses. */
const plain = (text: string): string => {
  const trimmed = text.trim()
  const bare = /^\[([^\]]{1,64})\](?::\d{1,5})?$/.exec(trimmed)?.[1] ?? /^([\d.]{7,15}):\d{1,5}$/.exec(trimmed)?.[1]
  return (bare ?? trimmed).replace(/^::ffff:(?=\d+\.)/i, "")
}

/**
 * Reads `X-Forwarded-For` from its end and stops at the first address that is not a trusted proxy, because clients can
 * forge everything before it. Without trusted proxies the header is ignored.
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

/**
 * The throttling key of an address: the IPv4 address, or the /64 prefix of an IPv6 address, which one customer usually
 * has.
 */
export const group = (address: string): string => groupsOf(address)?.slice(0, 4).join(":") ?? address
