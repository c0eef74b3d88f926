import { useState } from "preact/hooks"
import * as Api from "./Api"
import * as JobFilter from "./JobFilter"
import { Dialog } from "./parts/Dialog"
import { SaveForm } from "./parts/SaveForm"
import { showError, showToast } from "./parts/Toasts"
import { useResource } from "./Resource"
import { useMayAct } from "./Session"
import { announce } from "./Undo"
import type { SavedView } from "./Views"

// A saved view is a named filter, visible to all users. Admins can save, rename and delete views.

type Views = ReadonlyArray<SavedView>

/** Views loaded last, so that a new page shows them without a layout shift. */
let known: Views = []

const NameForm = (props: {
  readonly title: string
  readonly name: string
  /** Hint shown for the typed name. */
  readonly hint: (name: string) => string
  readonly save: (name: string) => Promise<void>
  readonly onClose: () => void
}) => {
  const [name, setName] = useState(props.name)
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <SaveForm label={props.title} save={() => props.save(name.trim())} onCancel={props.onClose}>
        <label class="field">
          Name
          <input value={name} maxLength={60} required onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <span class="quiet small">{props.hint(name.trim())}</span>
      </SaveForm>
    </Dialog>
  )
}

/** Buttons of admins: save the current filter, or rename and delete the open view. */
const ViewActs = (props: {
  readonly page: string
  readonly filter: JobFilter.JobFilter
  readonly views: Views
  readonly open: SavedView | undefined
  readonly onChange: () => void
}) => {
  const { filter, open, page, views } = props
  const [asked, setAsked] = useState<"save" | "rename">()
  const done = (text: string) => {
    showToast(text)
    setAsked(undefined)
    props.onChange()
  }
  const namesake = (name: string) => views.find((view) => view.name === name)
  const save = async (name: string) => {
    const standing = namesake(name)
    const looked = { page, filter: JobFilter.kept(filter) }
    await (standing === undefined ? Api.post("views", { name, ...looked }) : Api.patch(`views/${standing.id}`, looked))
    done(`View ${name} saved`)
  }
  const rename = async (name: string) => {
    await Api.patch(`views/${open?.id}`, { name })
    done(`View renamed to ${name}`)
  }
  const remove = async ({ id, name }: SavedView) => {
    await Api.remove(`views/${id}`)
    props.onChange()
    announce(`View ${name} deleted`)
  }
  return (
    <>
      {open === undefined ? (
        <button type="button" class="link" title="Save this filter under a name" onClick={() => setAsked("save")}>
          Save view
        </button>
      ) : (
        <>
          <button type="button" class="link" onClick={() => setAsked("rename")}>
            Rename view
          </button>
          <button type="button" class="link" onClick={() => void remove(open).catch(showError)}>
            Delete view
          </button>
        </>
      )}
      {asked === undefined ? null : (
        <NameForm
          title={asked === "save" ? "Save view" : "Rename view"}
          name={asked === "save" ? "" : (open?.name ?? "")}
          hint={(name) =>
            asked === "save" && namesake(name) !== undefined
              ? "A view with this name exists. It will be replaced."
              : "Shown to all users above the job lists."
          }
          save={asked === "save" ? save : rename}
          onClose={() => setAsked(undefined)}
        />
      )}
    </>
  )
}

/** The list of saved views and its buttons. */
export const SavedViews = (props: { readonly page: string; readonly filter: JobFilter.JobFilter }) => {
  const { filter, page } = props
  const mayAct = useMayAct()
  const { data, reload } = useResource<{ views: Views }>("views", { every: 60_000 })
  known = data?.views ?? known
  const here = JobFilter.address(page, filter)
  const addressed = known.map((view) => ({
    view,
    address: JobFilter.address(view.page, JobFilter.ofJson(view.filter))
  }))
  const isSomething = !JobFilter.isEmpty(filter)
  if (known.length === 0 && !(mayAct && isSomething)) return null
  return (
    <div class="row views">
      {known.length === 0 ? null : (
        <nav class="row tight" aria-label="Saved views">
          {addressed.map(({ address, view }) => (
            <a
              key={view.id}
              class="button view"
              href={address}
              title={view.name}
              aria-current={address === here ? "page" : undefined}
            >
              {view.name}
            </a>
          ))}
        </nav>
      )}
      {mayAct && isSomething ? (
        <ViewActs
          page={page}
          filter={filter}
          views={known}
          open={addressed.find(({ address }) => address === here)?.view}
          onChange={reload}
        />
      ) : null}
    </div>
  )
}
