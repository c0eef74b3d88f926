import { BlockList, isIP, isIPv4 } from "node:net"
import { groupsOf, isPublic } from "../fetch/Addresses.js"

/** Hosts and addresses that `handler: http` and pushed jobs may reach. */
export interface Allowance {
  /** Whether a host is allowed regardless of its address. */
  readonly allowsHost: (host: string, port: number) => boolean
  /** Whether an address is public or allowed by a rule. */
  readonly allowsAddress: (address: string, port: number) => boolean
}

interface Rule {
  readonly host: string
  readonly prefix: number | undefined
  readonly port: number | undefined
}

const hostName = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*\.?$/i

const parse = (text: string): Rule | undefined => {
  const match = /^(?:\[([^\]]+)\]|([^[\]/]+?))(?:\/(\d{1,3}))?(?::(\d{1,5}))?$/.exec(text)
  if (match === null) return undefined
  const [, bracketed, bare = "", prefix, port] = match
  // Without brackets, the last group of an IPv6 address would be parsed as a port.
  const whole = bracketed === undefined && isIP(text.split("/")[0] ?? "") === 6
  const host = (whole ? (text.split("/")[0] ?? "") : (bracketed ?? bare)).toLowerCase()
  const bits = whole ? text.split("/")[1] : prefix
  const rule = {
    host,
    prefix: bits === undefined ? undefined : Number(bits),
    port: whole || port === undefined ? undefined : Number(port)
  }
  if (rule.port !== undefined && (rule.port < 1 || rule.port > 65_535)) return undefined
  const version = isIP(host)
  if (version === 0)
    return rule.prefix === undefined && hostName.test(host) && !/^[\d.]+$/.test(host) ? rule : undefined
  return rule.prefix === undefined || rule.prefix <= (version === 4 ? 32 : 128) ? rule : undefined
}

/** Whether a text is a host name, address or range, with an optional port. */
export const isRule = (text: string): boolean => parse(text) !== undefined

const addressRule = ({ host, port, prefix }: Rule) => {
  const list = new BlockList()
  const family = isIPv4(host) ? "ipv4" : "ipv6"
  list.addSubnet(host, prefix ?? (family === "ipv4" ? 32 : 128), family)
  return {
    port,
    matches: (address: string) =>
      isIPv4(address) ? list.check(address, "ipv4") : groupsOf(address) !== undefined && list.check(address, "ipv6")
  }
}

const fits = (port: number | undefined, actual: number) => port === undefined || port === actual

/** Allows public addresses and those that match a rule. */
export const make = (texts: ReadonlyArray<string>): Allowance => {
  const rules = texts.flatMap((text) => parse(text) ?? [])
  const hosts = rules.filter(({ host }) => isIP(host) === 0)
  const addresses = rules.filter(({ host }) => isIP(host) !== 0).map(addressRule)
  return {
    allowsHost: (host, port) => hosts.some((rule) => rule.host === host.toLowerCase() && fits(rule.port, port)),
    allowsAddress: (address, port) =>
      isPublic(address) || addresses.some((rule) => fits(rule.port, port) && rule.matches(address))
  }
}
