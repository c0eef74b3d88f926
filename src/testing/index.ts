export { NonDeterministicError } from "./NonDeterministicError.js"
export { type PromiseTestShift, type PromiseTestShiftOptions, testShift } from "./PromiseTestShift.js"
