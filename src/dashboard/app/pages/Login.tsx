import { useState } from "preact/hooks"
import { ApiError } from "../Api"
import { Dialog } from "../parts/Dialog"
import { Entrance } from "../parts/Entrance"
import { Failure } from "../parts/Failure"
import { appLogin, enterAgain, logIn, type Session } from "../Session"

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

/** The login is that of the app around these pages. It opens in another tab, so that this page keeps its state. */
const AppLoginForm = ({ onEnter }: Given) => {
  const [refusal, setRefusal] = useState<string>()
  const submit = (event: Event) => {
    event.preventDefault()
    enterAgain().then(onEnter, (error: Error) =>
      setRefusal(
        error instanceof ApiError && error.status === 401
          ? "You are not logged in, or your account may not use Mission Control. Log in to the application, then select Continue."
          : error.message
      )
    )
  }
  return (
    <form class="stack" onSubmit={submit}>
      {appLogin === undefined || appLogin === "" ? (
        <p>Log in to the application in another tab.</p>
      ) : (
        <a href={appLogin} target="_blank" rel="noreferrer">
          Open the login page in another tab
        </a>
      )}
      <Failure text={refusal} />
      <button type="submit" class="primary">
        Continue
      </button>
    </form>
  )
}

const LoginForm = appLogin === undefined ? TokenForm : AppLoginForm

export const Login = (given: Given) => (
  <Entrance>
    <LoginForm {...given} />
    <p class="quiet small" hidden={appLogin !== undefined}>
      Use <code>NIGHTSHIFT_ADMIN_TOKEN</code>, or <code>NIGHTSHIFT_VIEWER_TOKEN</code> for read-only access. With an
      embedded database, <code>nightshift serve</code> prints a token.
    </p>
  </Entrance>
)

/** Asks for the token again over the page, which keeps its state. Cannot be closed: the page is hidden meanwhile. */
export const LoginAgain = (given: Given) => {
  const [turn, setTurn] = useState(0)
  return (
    <Dialog key={turn} title="Your login has expired" onClose={() => setTurn(turn + 1)}>
      <div class="stack">
        <p>Log in to continue. What you typed is kept.</p>
        <LoginForm {...given} />
      </div>
    </Dialog>
  )
}
