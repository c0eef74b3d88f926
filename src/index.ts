export { Lifecycle } from "./core/Lifecycle.js"
export { Database } from "./database/Database.js"
export { DatabaseConfig } from "./database/DatabaseConfig.js"
export { Metrics } from "./telemetry/Metrics.js"
