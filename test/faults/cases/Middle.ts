import type { FaultCase } from "../FaultCase.js"

export const cases: ReadonlyArray<FaultCase> = []
