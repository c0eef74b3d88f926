// Mutants of the product: named mistakes, each of which a test must notice. A mutant is a small edit of the source; the
// text that it replaces occurs exactly once in its file (test/scripts/mutants.test.ts checks it). `npm run test:mutants`
// applies each to a copy of the tree and runs its tests until one fails.
import { queue } from "./queue.mjs"
import { service } from "./service.mjs"

export const mutants = [...queue, ...service]
