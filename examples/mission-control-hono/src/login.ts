import { randomUUID } from "node:crypto"

// A stand-in for the login of your app.

export interface User {
  readonly name: string
  readonly role: "admin" | "viewer"
}

const users: Readonly<Record<string, { readonly password: string; readonly role: User["role"] }>> = {
  ada: { password: "analytical", role: "admin" },
  bob: { password: "builder", role: "viewer" }
}

const sessions = new Map<string, User>()

export const logIn = (name: unknown, password: unknown): string | undefined => {
  const user = typeof name === "string" && Object.hasOwn(users, name) ? users[name] : undefined
  if (user === undefined || user.password !== password) return undefined
  const session = randomUUID()
  sessions.set(session, { name: String(name), role: user.role })
  return session
}

export const userOf = ({ headers }: Request): User | undefined =>
  sessions.get(/(?:^|; )session=([\w-]+)/.exec(headers.get("cookie") ?? "")?.[1] ?? "")

export const form = `<!doctype html>
<title>Log in</title>
<form method="post" action="/login">
  <label>Name <input name="name"></label>
  <label>Password <input name="password" type="password"></label>
  <button>Log in</button>
</form>`
