import { Context, type Effect, Schema } from "effect"
import type { ViewId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** The lists of jobs that a view can open. */
export const pages = ["jobs", "scheduled", "retries", "dead"] as const
export type Page = (typeof pages)[number]

/** How long a name may be, and how many views there may be: they stand side by side at the top of a page. */
export const limits = { nameCharacters: 60, views: 100 } as const

/** What a view is called, which list it opens, and what it looks for there. */
export interface NewView {
  readonly name: string
  readonly page: Page
  /** As the HTTP API writes it; what it means is for the doors to say. */
  readonly filter: Readonly<Record<string, unknown>>
}

export interface SavedView extends NewView {
  readonly id: ViewId
  /** Epoch milliseconds. */
  readonly createdAt: number
}

/** There is no such view, or not any more. */
export class ViewNotFound extends Schema.TaggedError<ViewNotFound>()("ViewNotFound", { id: Schema.String }) {
  override get message(): string {
    return `There is no view ${this.id.slice(0, 64)}.`
  }
}

/** Another view has this name. */
export class ViewExists extends Schema.TaggedError<ViewExists>()("ViewExists", { name: Schema.String }) {
  override get message(): string {
    return `There is a view ${JSON.stringify(this.name)} already. Change that one, or choose another name.`
  }
}

/** There are as many views as there may be. */
export class TooManyViews extends Schema.TaggedError<TooManyViews>()("TooManyViews", { most: Schema.Int }) {
  override get message(): string {
    return `There are ${this.most} views already, and that is the most. Delete one that nobody uses.`
  }
}

/** Filters of jobs that somebody gave a name. They are everybody's. */
export class SavedViews extends Context.Tag("nightshift/access/SavedViews")<
  SavedViews,
  {
    /** All of them, oldest first: a name stays where people are used to find it. */
    readonly list: Effect.Effect<ReadonlyArray<SavedView>, DatabaseError>

    /** Stores a view under a name that no other has. */
    readonly create: (view: NewView) => Effect.Effect<SavedView, ViewExists | TooManyViews | DatabaseError>

    /** Changes what is named and no more. Answers how it was and how it became. */
    readonly change: (
      id: ViewId,
      patch: Partial<NewView>
    ) => Effect.Effect<
      { readonly before: SavedView; readonly after: SavedView },
      ViewNotFound | ViewExists | DatabaseError
    >

    /** Answers what it was. */
    readonly remove: (id: ViewId) => Effect.Effect<SavedView, ViewNotFound | DatabaseError>
  }
>() {}
