import * as EffectVitest from "@effect/vitest"

// Test files share a process, because loading everything once per file took half of the time of the whole run. The one
// thing they would share in earnest is `it`: `layer` of @effect/vitest hangs methods on it that run on its layer, and
// leaves them there. Each file begins with the methods as they were.

const { effect, live, prop, scoped, scopedLive } = EffectVitest
Object.assign(EffectVitest.it, { effect, live, prop, scoped, scopedLive })
