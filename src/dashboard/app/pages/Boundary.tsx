import { Component, type ComponentChildren } from "preact"
import { Failure } from "../parts/Failure"
import { Head } from "../parts/Head"
import { Empty } from "../parts/Notice"
import { to } from "../Route"

/** Shows a page, or that it could not be shown: an error of its rendering would leave the place of it blank. */
export class Boundary extends Component<{ readonly children: ComponentChildren }, { readonly failure?: string }> {
  static override getDerivedStateFromError(error: unknown) {
    return { failure: String(error) }
  }

  override componentDidCatch(error: unknown) {
    reportError(error)
  }

  override render() {
    const { failure } = this.state
    if (failure === undefined) return this.props.children
    return (
      <>
        <Head title="Page failed" />
        <Failure text={`This page cannot be shown: ${failure}`} />
        <Empty>
          Reload the page, or <a href={to("overview")}>go to the overview</a>
        </Empty>
      </>
    )
  }
}
