import { BaseSequencer, type TestSpecification } from "vitest/node"

// A fresh clone has no recorded durations, and a slow file that starts last keeps one worker busy alone.
const slow = [
  /\/long\/Simulation/,
  /MissionControl/,
  /\/journeys\//,
  /\/(Environments|Examples|Compiled)/,
  /\/embedded\//,
  /\/cli\//,
  // Files of laws are short, and short files run last, but each runs hundreds of tests.
  /\/(Simulat|Order|Gateway|laws\/)/,
  /\/(handlers|http)\//
]

const rank = ({ moduleId }: TestSpecification) => {
  const index = slow.findIndex((pattern) => pattern.test(moduleId))
  return index === -1 ? slow.length : index
}

/** Runs the files that start processes and browsers first. */
export default class SlowFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const sorted = await super.sort(files)
    return sorted.sort((one, other) => rank(one) - rank(other))
  }
}
