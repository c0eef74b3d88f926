import { describe, expect, it } from "@effect/vitest"
import * as Allowance from "../../src/gateway/config/Allowance.js"
import { isPublic } from "../../src/gateway/fetch/Addresses.js"

const inward = [
  ...["0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254"],
  ...["172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "203.0.113.9"],
  ...["224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"],
  ...["::", "::1", "0:0:0:0:0:0:0:1", "fc00::1", "fd12:3456::1", "fe80::1", "febf::1", "fec0::1", "ff02::1"],
  // IPv4 addresses in IPv6 notation: mapped, compatible, translated, 6to4, Teredo.
  ...["::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1"],
  ...["64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2002:c0a8:101::1", "2001:0:7f00:1::1"],
  ...["2001:db8::1", "100::1", "3fff::1", "5f00::1", "4000::1", "::1%lo", "fe80::1%eth0"],
  ...["", "localhost", "1", "127.1", "0x7f.0.0.1", "2130706433", "127.0.0.1 ", "::g"]
]

const open = [
  ...[
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.167.1.1",
    "223.255.255.1"
  ],
  ...["2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"]
]

describe("an address", () => {
  it.each(inward)("%s is private or unroutable", (address) => expect(isPublic(address)).toBe(false))
  it.each(open)("%s is public", (address) => expect(isPublic(address)).toBe(true))
})

describe("HTTP_HANDLER_ALLOW", () => {
  it("takes host names, addresses and ranges, with a port or without", () => {
    for (const rule of ["localhost", "hooks.internal:8080", "127.0.0.1", "127.0.0.1:80", "10.0.0.0/8", "::1"]) {
      expect(Allowance.isRule(rule), rule).toBe(true)
    }
    for (const rule of ["[::1]:8080", "fd00::/8", "[fd00::]/8", "host_name"])
      expect(Allowance.isRule(rule), rule).toBe(true)
    for (const rule of [
      "10.0.0.0/33",
      "http://x",
      "a b",
      "127.1",
      "host:0",
      "host:99999",
      "::1/129",
      "host/8",
      "-x",
      "*"
    ]) {
      expect(Allowance.isRule(rule), rule).toBe(false)
    }
  })

  it("allows exactly what it names", () => {
    const { allowsAddress, allowsHost } = Allowance.make([
      "intern",
      "api.intern:8080",
      "10.1.0.0/16",
      "127.0.0.1:9",
      "fd00::/8"
    ])
    expect(allowsHost("INTERN", 1)).toBe(true)
    expect(allowsHost("intern.evil", 1)).toBe(false)
    expect([allowsHost("api.intern", 8080), allowsHost("api.intern", 80)]).toEqual([true, false])
    expect([allowsAddress("10.1.2.3", 1), allowsAddress("10.2.0.1", 1)]).toEqual([true, false])
    expect([allowsAddress("127.0.0.1", 9), allowsAddress("127.0.0.1", 8)]).toEqual([true, false])
    expect([allowsAddress("fd12::1", 1), allowsAddress("fe80::1", 1)]).toEqual([true, false])
    expect(allowsAddress("::ffff:10.1.2.3", 1)).toBe(true)
    expect(allowsAddress("8.8.8.8", 1)).toBe(true)
  })
})
