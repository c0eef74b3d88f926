import { createHmac, timingSafeEqual } from "node:crypto"

// A stand-in for the login of your app.

export interface User {
  readonly name: string
  readonly role: "admin" | "viewer"
}

const users: Readonly<Record<string, { readonly password: string; readonly role: User["role"] }>> = {
  ada: { password: "analytical", role: "admin" },
  bob: { password: "builder", role: "viewer" }
}

/** Next.js may load this module once per route, so a session is a signed name instead of an entry in a map. */
const signed = (name: string): string =>
  `${name}.${createHmac("sha256", process.env.SESSION_SECRET ?? "for development only")
    .update(name)
    .digest("hex")}`

export const logIn = (name: unknown, password: unknown): string | undefined => {
  const user = typeof name === "string" && Object.hasOwn(users, name) ? users[name] : undefined
  return user === undefined || user.password !== password ? undefined : signed(String(name))
}

export const userOf = ({ headers }: Request): User | undefined => {
  const [session, name] = /(?:^|; )session=((\w+)\.\w+)/.exec(headers.get("cookie") ?? "")?.slice(1) ?? []
  const user = name !== undefined && Object.hasOwn(users, name) ? users[name] : undefined
  if (session === undefined || name === undefined || user === undefined) return undefined
  const [given, wanted] = [Buffer.from(session), Buffer.from(signed(name))]
  return given.length === wanted.length && timingSafeEqual(given, wanted) ? { name, role: user.role } : undefined
}
