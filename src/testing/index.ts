export { TestShift, type TestShiftOptions } from "./TestShift.js"
export type { BotCall, DeliveryTry } from "./telegram/EmulatedBot.js"
export { EmulatedFault } from "./telegram/EmulatedFault.js"
export {
  type FaultRule,
  type Spoken,
  TelegramEmulator,
  type TelegramEmulatorOptions
} from "./telegram/TelegramEmulator.js"
