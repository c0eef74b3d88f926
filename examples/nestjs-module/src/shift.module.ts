import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from "@nestjs/common"
import { type ConnectOptions, connect, type Shift, type WorkerOptions, worker } from "nightshift/client"

export const SHIFT = Symbol("nightshift/Shift")
/** Injects the shift: `constructor(@InjectShift() private readonly shift: Shift) {}`. */
export const InjectShift = () => Inject(SHIFT)

/** A provider with handlers, which `ShiftModule.worker` runs. */
export interface HasHandlers {
  readonly handlers: WorkerOptions["handlers"]
}

@Module({})
export class ShiftModule implements OnApplicationShutdown {
  constructor(@InjectShift() private readonly shift: Shift) {}

  /** Connects when the application starts. The shift can be injected everywhere. */
  static forRoot(url: string | undefined, options: ConnectOptions = {}): DynamicModule {
    const provider = { provide: SHIFT, useFactory: () => connect(url, options) }
    return { module: ShiftModule, global: true, providers: [provider], exports: [SHIFT] }
  }

  /** Runs the handlers of these providers in this process. */
  static worker(...handlers: ReadonlyArray<new (...args: never) => HasHandlers>): DynamicModule {
    const start = (shift: Shift, ...each: ReadonlyArray<HasHandlers>) =>
      worker(shift, { handlers: each.flatMap((provider) => provider.handlers) })
    const running = { provide: Symbol("nightshift/Worker"), useFactory: start, inject: [SHIFT, ...handlers] }
    return { module: WorkerModule, providers: [...handlers, running] }
  }

  /** Stops the workers, then closes the connections. */
  onApplicationShutdown(): Promise<void> {
    return this.shift.close()
  }
}

@Module({})
class WorkerModule {}
