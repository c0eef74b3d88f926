import type { ComponentChildren } from "preact"
import { Mark } from "./Mark"

/** The card in the middle of an empty page, before a user is logged in. */
export const Entrance = ({ children }: { readonly children: ComponentChildren }) => (
  <div class="login">
    <section class="card">
      <header>
        <Mark />
        <h1>Mission Control</h1>
      </header>
      <div class="body stack">{children}</div>
    </section>
  </div>
)
