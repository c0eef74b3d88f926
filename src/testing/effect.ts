export { NonDeterministicError } from "./NonDeterministicError.js"
export type { Coverage, FaultKind, Hit, OperationCoverage } from "./simulation/Coverage.js"
export type { Fault } from "./simulation/Faults.js"
export type { History } from "./simulation/History.js"
export type { Violation } from "./simulation/HistoryChecker.js"
export type { Call, Change, Run } from "./simulation/HistoryEntry.js"
export type { Finding, Invariant } from "./simulation/Invariant.js"
export type { FaultPlan, Plan, RemoteAct, Step } from "./simulation/Plan.js"
export type { Report, SimulationOptions } from "./simulation/Simulation.js"
/** Runs a simulated cluster with faults from a seed, and checks your handlers and invariants. */
export * as Simulation from "./simulation/Simulation.js"
export type { TraceEvent } from "./simulation/Trace.js"
export { type TestServices, TestShift, type TestShiftOptions } from "./TestShift.js"
export type { BotCall, DeliveryTry } from "./telegram/EmulatedBot.js"
export { EmulatedFault } from "./telegram/EmulatedFault.js"
export {
  type FaultRule,
  type Spoken,
  TelegramEmulator,
  type TelegramEmulatorOptions
} from "./telegram/TelegramEmulator.js"
