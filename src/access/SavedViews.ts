import { Context, type Effect, Schema } from "effect"
import { Expected } from "../core/ExpectedError.js"
import type { ViewId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** The job lists a view can open. */
export const pages = ["jobs", "scheduled", "retries", "dead"] as const
export type Page = (typeof pages)[number]

/** Limits that keep the row of views at the top of a page short. */
export const limits = { nameCharacters: 60, views: 100 } as const

/** A named filter on one of the job lists. */
export interface NewView {
  readonly name: string
  readonly page: Page
  /** The filter in the HTTP API's format; only the HTTP layer interprets it. */
  readonly filter: Readonly<Record<string, unknown>>
}

export interface SavedView extends NewView {
  readonly id: ViewId
  /** Epoch milliseconds. */
  readonly createdAt: number
}

/** The view does not exist or was deleted. */
export class ViewNotFound extends Expected<ViewNotFound>(404)("ViewNotFound", { id: Schema.String }) {
  override get message(): string {
    return `View ${this.id.slice(0, 64)} does not exist. It may have been deleted; reload the list.`
  }
}

/** Another view has this name. */
export class ViewExists extends Expected<ViewExists>(409, { field: "name" })("ViewExists", { name: Schema.String }) {
  override get message(): string {
    return `A view named ${JSON.stringify(this.name)} already exists. Change that view or choose another name.`
  }
}

/** The limit on the number of views is reached. */
export class TooManyViews extends Expected<TooManyViews>(409)("TooManyViews", { most: Schema.Int }) {
  override get message(): string {
    return `The limit of ${this.most} views is reached. Delete an unused view first.`
  }
}

/** Named job filters, shared by all operators. */
export class SavedViews extends Context.Tag("nightshift/access/SavedViews")<
  SavedViews,
  {
    /** All views, oldest first, so that their order on the page never changes. */
    readonly list: Effect.Effect<ReadonlyArray<SavedView>, DatabaseError>

    /** Stores a view. Its name must be unique. */
    readonly create: (view: NewView) => Effect.Effect<SavedView, ViewExists | TooManyViews | DatabaseError>

    /** Changes the given fields only. Returns the view before and after. */
    readonly change: (
      id: ViewId,
      patch: Partial<NewView>
    ) => Effect.Effect<
      { readonly before: SavedView; readonly after: SavedView },
      ViewNotFound | ViewExists | DatabaseError
    >

    /** Deletes a view and returns it. */
    readonly remove: (id: ViewId) => Effect.Effect<SavedView, ViewNotFound | DatabaseError>
  }
>() {}
