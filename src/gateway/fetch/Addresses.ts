import { BlockList, isIPv4, isIPv6 } from "node:net"

// Tells public IP addresses from private and reserved ones, which lead to this machine, its network, the cloud's
// metadata service, or nowhere.

const inwardV4 = new BlockList()
for (const range of [
  "0.0.0.0/8", // this network
  "10.0.0.0/8",
  "100.64.0.0/10", // carrier-grade NAT
  "127.0.0.0/8",
  "169.254.0.0/16", // link-local: cloud metadata
  "172.16.0.0/12",
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16",
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4" // reserved, broadcast
]) {
  const [network = "", prefix = ""] = range.split("/")
  inwardV4.addSubnet(network, Number(prefix), "ipv4")
}

/** Parses any valid notation of an IPv6 address into its eight groups. Returns undefined for anything else. */
export const groupsOf = (address: string): ReadonlyArray<number> | undefined => {
  if (!isIPv6(address) || address.includes("%")) return undefined
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address)
  const [, front = "", a, b, c, d] = dotted ?? []
  const hex = (high: string | undefined, low: string | undefined) => (Number(high) * 256 + Number(low)).toString(16)
  const plain = dotted === null ? address : `${front}${hex(a, b)}:${hex(c, d)}`
  const parse = (half: string) => (half === "" ? [] : half.split(":").map((group) => Number.parseInt(group, 16)))
  const [left = "", right] = plain.split("::")
  const head = parse(left)
  if (right === undefined) return head
  const tail = parse(right)
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => 0), ...tail]
}

const embedded = (high = 0, low = 0) => `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`

const startsWith = (groups: ReadonlyArray<number>, ...prefix: ReadonlyArray<number>) =>
  prefix.every((group, index) => groups[index] === group)

/** Only global unicast is public, except reserved ranges. An embedded IPv4 address is checked itself. */
const isPublicV6 = (groups: ReadonlyArray<number>): boolean => {
  const [first = 0, second = 0, third = 0] = groups
  // IPv4-mapped, NAT64 and 6to4 addresses lead to the embedded IPv4 address.
  if (startsWith(groups, 0, 0, 0, 0, 0, 0xffff)) return isPublic(embedded(groups[6], groups[7]))
  if (startsWith(groups, 0x64, 0xff9b, 0, 0, 0, 0)) return isPublic(embedded(groups[6], groups[7]))
  if (first === 0x2002) return isPublic(embedded(second, third))
  if (first < 0x2000 || first > 0x3fff) return false
  // 2001::/23 is reserved for protocols (Teredo, benchmarks, ORCHID), 2001:db8::/32 and 3fff::/20 for documentation.
  if (first === 0x2001 && (second < 0x200 || second === 0xdb8)) return false
  return !(first === 0x3fff && second < 0x1000)
}

/** Whether a text is a public IP address. */
export const isPublic = (address: string): boolean => {
  if (isIPv4(address)) return !inwardV4.check(address, "ipv4")
  const groups = groupsOf(address)
  return groups !== undefined && isPublicV6(groups)
}
