import { useState } from "preact/hooks"
import { ApiError } from "../Api"
import { Failure } from "../parts/Failure"
import { Mark } from "../parts/Mark"
import { logIn, type Session } from "../Session"

export const Login = ({ onEnter }: { readonly onEnter: (session: Session) => void }) => {
  const [token, setToken] = useState("")
  const [refusal, setRefusal] = useState<string>()
  const [busy, setBusy] = useState(false)
  const submit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    try {
      onEnter(await logIn(token.trim()))
    } catch (error) {
      setRefusal(error instanceof ApiError && error.status === 401 ? "Wrong token" : (error as Error).message)
    }
    setBusy(false)
  }
  return (
    <div class="login">
      <form class="card" onSubmit={submit}>
        <header>
          <Mark />
          <h1>Mission Control</h1>
        </header>
        <div class="body stack">
          <label class="field">
            Token
            <input
              type="password"
              name="token"
              autocomplete="current-password"
              required
              value={token}
              onInput={(event) => setToken(event.currentTarget.value)}
            />
          </label>
          <Failure text={refusal} />
          <button type="submit" class="primary" disabled={busy}>
            Log in
          </button>
          <p class="quiet small">
            Use <code>NIGHTSHIFT_ADMIN_TOKEN</code>, or <code>NIGHTSHIFT_VIEWER_TOKEN</code> for read-only access. With
            an embedded database, <code>nightshift serve</code> prints a token.
          </p>
        </div>
      </form>
    </div>
  )
}
