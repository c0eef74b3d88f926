import { useState } from "preact/hooks"
import { ApiError } from "../Api"
import { Dialog } from "../parts/Dialog"
import { Failure } from "../parts/Failure"
import { Mark } from "../parts/Mark"
import { logIn, type Session } from "../Session"

interface Given {
  readonly onEnter: (session: Session) => void
}

const TokenForm = ({ onEnter }: Given) => {
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
    <form class="stack" onSubmit={submit}>
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
    </form>
  )
}

export const Login = (given: Given) => (
  <div class="login">
    <section class="card">
      <header>
        <Mark />
        <h1>Mission Control</h1>
      </header>
      <div class="body stack">
        <TokenForm {...given} />
        <p class="quiet small">
          Use <code>NIGHTSHIFT_ADMIN_TOKEN</code>, or <code>NIGHTSHIFT_VIEWER_TOKEN</code> for read-only access. With an
          embedded database, <code>nightshift serve</code> prints a token.
        </p>
      </div>
    </section>
  </div>
)

/** Asks for the token again over the page, which keeps its state. Cannot be closed: the page is hidden meanwhile. */
export const LoginAgain = (given: Given) => {
  const [turn, setTurn] = useState(0)
  return (
    <Dialog key={turn} title="Your login has expired" onClose={() => setTurn(turn + 1)}>
      <div class="stack">
        <p>Log in to continue. What you typed is kept.</p>
        <TokenForm {...given} />
      </div>
    </Dialog>
  )
}
