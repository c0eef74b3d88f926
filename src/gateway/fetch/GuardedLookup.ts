import { type LookupAddress, lookup as resolve } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import type { Allowance } from "../config/Allowance.js"
import { AddressRefused } from "./UpstreamErrors.js"

// The name is resolved once, by the socket that then dials: a second look-up could give another address than the one that was
// checked (DNS rebinding).

/** The host of a url as an address, where it is one: node dials it without any look-up. */
const literalOf = (url: URL): string | undefined => {
  const host = url.hostname.replace(/^\[|\]$/g, "")
  return isIP(host) === 0 ? undefined : host
}

const portOf = (url: URL) => Number(url.port || (url.protocol === "https:" ? 443 : 80))

/** Why a url must not be asked, as far as its text tells. */
export const refusalOf = (url: URL, allowance: Allowance): AddressRefused | undefined => {
  const address = literalOf(url)
  return address === undefined || allowance.allowsAddress(address, portOf(url))
    ? undefined
    : new AddressRefused({ host: url.hostname, address })
}

/** A look-up that gives a socket only addresses it may dial. One bad address among good ones spoils them all. */
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
