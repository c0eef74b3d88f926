import { readFileSync } from "node:fs"
import type { ConnectionOptions } from "node:tls"

// Encryption of connections, by the parameters of libpq.

export const parameters = ["ssl", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword"] as const

type Parameters = ReadonlyMap<string, string>

const modes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify"]

/** Certificates of public authorities instead of those in a file. */
const system = "system"

/** The mode. A certificate without a mode means `verify-full`. Undefined if no parameter asks for TLS. */
const sslMode = (given: Parameters): string | undefined => {
  const ssl = given.get("ssl")
  if (given.has("sslmode")) return given.get("sslmode")
  if (ssl === "0" || ssl === "false") return "disable"
  if (ssl === "no-verify") return "no-verify"
  return ssl !== undefined || given.has("sslrootcert") || given.has("sslcert") ? "verify-full" : undefined
}

const contents = new Map<string, string>()

/** Reads a file for each connection, because certificates are renewed. While the file is missing, returns its last content. */
const read = (path: string): string => {
  try {
    const content = readFileSync(path, "utf8")
    contents.set(path, content)
    return content
  } catch (error) {
    const known = contents.get(path)
    if (known === undefined) throw error
    return known
  }
}

const textOf = (given: Parameters, name: string): string | undefined => {
  const path = given.get(name)
  return path === undefined || path === "" || path === system ? undefined : read(path)
}

/** Returns what is wrong with the parameters, or undefined. */
export const faultOf = (given: Parameters): string | undefined => {
  const mode = sslMode(given)
  if (mode !== undefined && !modes.includes(mode)) return `sslmode to be one of ${modes.join(", ")}`
  const root = given.get("sslrootcert")
  if (root === system && mode !== "verify-full") return "sslmode=verify-full with sslrootcert=system"
  if (mode === "verify-ca" && root === undefined)
    return "sslrootcert with sslmode=verify-ca: the file with the certificate of your authority"
  if (given.has("sslcert") !== given.has("sslkey")) return "sslcert and sslkey together"
  for (const name of ["sslrootcert", "sslcert", "sslkey"]) {
    try {
      textOf(given, name)
    } catch (error) {
      return `${name} to be a readable file (${(error as Error).message})`
    }
  }
  return undefined
}

/** The ways to connect, in order: `false` is without encryption. Empty if no parameter asks for TLS. */
export const attempts = (given: Parameters): ReadonlyArray<false | ConnectionOptions> => {
  const mode = sslMode(given)
  if (mode === undefined) return []
  const ca = textOf(given, "sslrootcert")
  const cert = textOf(given, "sslcert")
  const key = textOf(given, "sslkey")
  const passphrase = given.get("sslpassword")
  const certificate = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(passphrase === undefined ? {} : { passphrase })
  }
  const unverified = { ...certificate, rejectUnauthorized: false }
  const byAuthority = { ...certificate, checkServerIdentity: () => undefined }
  switch (mode) {
    case "disable":
      return [false]
    case "allow":
      return [false, unverified]
    case "prefer":
      return [unverified, false]
    case "require":
      return [ca === undefined ? unverified : byAuthority]
    case "no-verify":
      return [unverified]
    case "verify-ca":
      return [byAuthority]
    default:
      return [certificate]
  }
}
