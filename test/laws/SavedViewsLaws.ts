import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { limits, type SavedView, SavedViews } from "../../src/access/SavedViews.js"
import type { ViewId } from "../../src/core/Ids.js"

type Law = (title: string, story: Effect.Effect<void, unknown, SavedViews>) => void

const view = (name: string): Pick<SavedView, "name" | "page" | "filter"> => ({
  name,
  page: "dead",
  filter: { queue: ["mail", "attic"], payload: { "a'b": [null, 1.5, "ü"] } }
})

const nobody = "0198c0de-0000-7000-8000-000000000000" as ViewId

/** Deletes all views. */
const emptied = Effect.gen(function* () {
  const views = yield* SavedViews
  for (const { id } of yield* views.list) yield* views.remove(id)
  return views
})

export const savedViewsLaws = (law: Law): void => {
  law(
    "views are listed whole, oldest first",
    Effect.gen(function* () {
      const views = yield* emptied
      const first = yield* views.create(view("zebra"))
      const second = yield* views.create({ name: "<b>ant</b>", page: "jobs", filter: {} })
      expect(first).toMatchObject(view("zebra"))
      expect(first.createdAt).toBeGreaterThan(-1)
      expect(yield* views.list).toEqual([first, second])
    })
  )

  law(
    "names are unique, on creation and on rename",
    Effect.gen(function* () {
      const views = yield* emptied
      const [one, other] = [yield* views.create(view("one")), yield* views.create(view("other"))]
      const taken = { _tag: "ViewExists", name: "one" }
      expect(yield* Effect.flip(views.create(view("one")))).toMatchObject(taken)
      expect(yield* Effect.flip(views.change(other.id, { name: "one", page: "jobs" }))).toMatchObject(taken)
      expect(yield* views.list).toEqual([one, other])
      expect((yield* views.change(one.id, { name: "one" })).after).toEqual(one)
    })
  )

  law(
    "a change updates only the named fields, and returns the previous view",
    Effect.gen(function* () {
      const views = yield* emptied
      const before = yield* views.create(view("before"))
      const renamed = { ...before, name: "after" }
      expect(yield* views.change(before.id, { name: "after" })).toEqual({ before, after: renamed })
      const turned: SavedView = { ...renamed, page: "jobs", filter: { state: "done" } }
      const answer = yield* views.change(before.id, { page: "jobs", filter: { state: "done" } })
      expect(answer).toEqual({ before: renamed, after: turned })
      expect(yield* views.list).toEqual([turned])
    })
  )

  law(
    "a removed view is gone, and its name is free",
    Effect.gen(function* () {
      const views = yield* emptied
      const lost = yield* views.create(view("lost"))
      expect(yield* views.remove(lost.id)).toEqual(lost)
      expect(yield* views.list).toEqual([])
      for (const id of [lost.id, nobody]) {
        expect(yield* Effect.flip(views.remove(id))).toMatchObject({ _tag: "ViewNotFound", id })
        expect(yield* Effect.flip(views.change(id, { name: "x" }))).toMatchObject({ _tag: "ViewNotFound", id })
      }
      yield* views.create(view("lost"))
    })
  )

  law(
    "the number of views is limited to a page",
    Effect.gen(function* () {
      const views = yield* emptied
      const names = Array.from({ length: limits.views }, (_, n) => `view ${n}`)
      yield* Effect.forEach(names, (name) => views.create(view(name)))
      expect(yield* Effect.flip(views.create(view("one more")))).toMatchObject({ _tag: "TooManyViews" })
      // A duplicate name is reported before the limit.
      expect(yield* Effect.flip(views.create(view("view 0")))).toMatchObject({ _tag: "ViewExists" })
      expect(yield* views.list).toHaveLength(limits.views)
      yield* emptied
    })
  )
}
