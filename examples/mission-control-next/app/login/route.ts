import { logIn } from "../../lib/login"

const form = `<!doctype html>
<title>Log in</title>
<form method="post" action="/login">
  <label>Name <input name="name"></label>
  <label>Password <input name="password" type="password"></label>
  <button>Log in</button>
</form>`

const page = (status: number) => new Response(form, { status, headers: { "content-type": "text/html" } })

export const GET = () => page(200)

export const POST = async (request: Request) => {
  const fields = await request.formData()
  const session = logIn(fields.get("name"), fields.get("password"))
  if (session === undefined) return page(401)
  const cookie = `session=${session}; Path=/; HttpOnly; SameSite=Lax`
  return new Response(null, { status: 303, headers: { location: "/ops", "set-cookie": cookie } })
}
