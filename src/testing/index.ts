export * as TestShift from "./TestShift.js"
