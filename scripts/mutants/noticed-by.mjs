// What can notice a mutant.

/** Laws of the queue on PostgreSQL. */
export const law = (tests, file = "QueuePg") => ({ by: "law", files: [`test/laws/${file}.laws.test.ts`], tests })
export const unit = (file, tests) => ({ by: "unit test", files: [`test/${file}.test.ts`], tests })
export const simulation = (tests = "keeps every guarantee") => ({
  by: "simulation",
  files: ["test/testing/Simulation.test.ts"],
  tests
})
export const workflows = {
  by: "simulation",
  files: ["test/testing/SimulatedWorkflows.test.ts"],
  tests: "keep their promises"
}
export const fault = (tests) => ({ by: "fault", files: ["test/faults/Faults.test.ts"], tests })
