import { type LookupAddress, lookup as resolve } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import type { Allowance } from "../config/Allowance.js"
import { AddressRefused } from "./UpstreamErrors.js"

// Checks addresses in the socket's own lookup. Checking in a separate lookup would allow DNS rebinding: the second
// lookup could return another address.

/** Returns the URL's host if it is an IP address. Node connects to it without a lookup. */
const literalOf = (url: URL): string | undefined => {
  const host = url.hostname.replace(/^\[|\]$/g, "")
  return isIP(host) === 0 ? undefined : host
}

const portOf = (url: URL) => Number(url.port || (url.protocol === "https:" ? 443 : 80))

/** Returns why a URL with an IP address as its host is refused, or undefined. */
export const refusalOf = (url: URL, allowance: Allowance): AddressRefused | undefined => {
  const address = literalOf(url)
  return address === undefined || allowance.allowsAddress(address, portOf(url))
    ? undefined
    : new AddressRefused({ host: url.hostname, address })
}

/** Makes a lookup that fails if any of the resolved addresses is not allowed. */
export const make = (url: URL, allowance: Allowance): LookupFunction => {
  const port = portOf(url)
  return (host, options, callback) => {
    const answer = (addresses: ReadonlyArray<LookupAddress>) => {
      const refused = allowance.allowsHost(host, port)
        ? undefined
        : addresses.find(({ address }) => !allowance.allowsAddress(address, port))
      const [first] = addresses
      if (refused !== undefined) return callback(new AddressRefused({ host, address: refused.address }), "", 0)
      if (first === undefined) return callback(Object.assign(new Error("no address"), { code: "ENOTFOUND" }), "", 0)
      if (options.all === true) callback(null, [...addresses])
      else callback(null, first.address, first.family)
    }
    resolve(host, { ...options, all: true }, (error, addresses) =>
      error === null ? answer(addresses) : callback(error, "", 0)
    )
  }
}
