import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as PullFolder from "../../src/cli/uploads/PullFolder.js"

it.scopedLive("a folder where none can be created is an error, and does not hang", () =>
  Effect.gen(function* () {
    const error = yield* Effect.flip(PullFolder.take("/proc/nowhere/inbox"))
    expect(error).toMatchObject({ _tag: "FolderUnusable", folder: "/proc/nowhere/inbox" })
  })
)
