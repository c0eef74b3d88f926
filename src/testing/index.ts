export { TestShift, type TestShiftOptions } from "./TestShift.js"
