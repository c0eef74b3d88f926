import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"
import * as fc from "effect/FastCheck"
import * as ClientAddress from "../../src/http/ClientAddress.js"

describe("the address of a client", () => {
  it.each([
    ["", "203.0.113.9", undefined, "203.0.113.9"],
    ["", "203.0.113.9", "198.51.100.1", "203.0.113.9"],
    ["", "::ffff:203.0.113.9", undefined, "203.0.113.9"],
    ["10.0.0.0/8", "10.1.2.3", "198.51.100.1", "198.51.100.1"],
    ["10.0.0.0/8", "::ffff:10.1.2.3", "198.51.100.1", "198.51.100.1"],
    // The client's own entries precede those that the proxy added.
    ["10.0.0.0/8", "10.1.2.3", "127.0.0.1, 198.51.100.1", "198.51.100.1"],
    ["10.0.0.0/8", "10.1.2.3", "198.51.100.1, 10.9.9.9", "198.51.100.1"],
    ["10.0.0.0/8", "203.0.113.9", "198.51.100.1", "203.0.113.9"],
    ["10.0.0.0/8", "10.1.2.3", "nonsense", "10.1.2.3"],
    ["10.0.0.0/8", "10.1.2.3", undefined, "10.1.2.3"],
    ["::1, 127.0.0.1", "::1", "[2001:db8::1]:443", "2001:db8::1"],
    ["127.0.0.1", "127.0.0.1", "198.51.100.1:1234", "198.51.100.1"],
    ["127.0.0.1", undefined, "198.51.100.1", ""]
  ])("behind %j, from %s with %s, is %s", (proxies, peer, forwardedFor, address) => {
    expect(ClientAddress.make(proxies)(peer, forwardedFor)).toBe(address)
  })

  it("ignores headers when no proxy is trusted", () => {
    const addressOf = ClientAddress.make("10.0.0.0/8")
    fc.assert(
      fc.property(fc.ipV4(), fc.oneof(fc.string(), fc.ipV4(), fc.ipV6()), (peer, forwardedFor) => {
        if (!peer.startsWith("10.")) expect(addressOf(peer, forwardedFor)).toBe(peer)
        else addressOf(peer, forwardedFor)
      })
    )
  })

  it("of IPv6 is counted by its first 64 bits", () => {
    expect(ClientAddress.group("2001:db8:1:2::3")).toBe(ClientAddress.group("2001:db8:1:2:ffff::"))
    expect(ClientAddress.group("2001:db8:1:2::3")).not.toBe(ClientAddress.group("2001:db8:1:3::3"))
    expect(ClientAddress.group("192.0.2.1")).toBe("192.0.2.1")
  })

  it("requires proxies that are addresses or ranges", () => {
    for (const text of ["", "127.0.0.1", "10.0.0.0/8, ::1", "fd00::/8"]) {
      expect(Either.isRight(ClientAddress.readProxies(text))).toBe(true)
    }
    for (const text of ["true", "1", "proxy.internal", "10.0.0.0/33", "::1/129", "10.0.0.0/8/8", "10.0.0.0/"]) {
      expect(Either.isLeft(ClientAddress.readProxies(text))).toBe(true)
    }
  })
})
