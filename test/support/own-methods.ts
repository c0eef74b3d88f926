import * as EffectVitest from "@effect/vitest"
import { afterEach, expect } from "vitest"

// Test files share a process, because loading every module once per file took half of the run's time. The only shared
// state is `it`: `layer` of @effect/vitest adds methods to it that run on its layer, and leaves them there. This
// restores the original methods for each file.

const { effect, live, prop, scoped, scopedLive } = EffectVitest
Object.assign(EffectVitest.it, { effect, live, prop, scoped, scopedLive })

// Node's default. Effect lowers it while it reads a cause.
afterEach(() => expect(Error.stackTraceLimit).toBe(10))
