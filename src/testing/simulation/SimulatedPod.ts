import { Context, Deferred, Effect, Exit, Layer, Logger, type LogLevel, type Runtime, Scope } from "effect"
import type { PodId } from "../../core/Ids.js"
import * as Crew from "../../crew/Crew.js"
import * as MetricsFlush from "../../crew/loops/MetricsFlush.js"
import type { Handler } from "../../handlers/Handler.js"
import type * as RateLimitsMemory from "../../limits/RateLimitsMemory.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Tally } from "../../telemetry/Tally.js"
import type { Actor } from "./Actor.js"
import { FaultInjector } from "./FaultInjector.js"
import type { Faults } from "./Faults.js"
import type { HistoryChecker } from "./HistoryChecker.js"
import * as PodSettings from "./PodSettings.js"
import { drawn } from "./Seed.js"
import type { SimulationScheduler } from "./SimulationScheduler.js"
import * as Tables from "./Tables.js"

/** State shared by all pods of a simulation. */
export interface Site<R> {
  readonly seed: number
  readonly scheduler: SimulationScheduler
  readonly faults: Faults
  readonly checker: HistoryChecker
  readonly tables: Context.Context<Tables.Shared>
  readonly buckets: RateLimitsMemory.Table
  /** Provides the handlers' other requirements. */
  readonly runtime: Runtime.Runtime<R>
  readonly crew: Omit<Crew.CrewOptions<R>, "handlers">
  readonly handlersFor: (pod: SimulatedPod<R>, actor: Actor) => ReadonlyArray<Handler<R>>
  readonly logLevel: LogLevel.LogLevel
}

interface Boot {
  readonly actor: Actor
  readonly wire: FaultInjector
  readonly stop: Deferred.Deferred<void>
  readonly down: Deferred.Deferred<void>
  id: PodId | undefined
}

/** A pod that is restarted under a new name whenever it ends. */
export class SimulatedPod<R> {
  private boot: Boot | undefined
  private boots = 0
  private retired = false
  /**
   * Boots that stopped gracefully. `heard` is false if faults were active, so that the cluster may not have been
   * notified.
   */
  readonly stopped: Array<{ readonly actor: Actor; readonly id: PodId | undefined; readonly heard: boolean }> = []

  constructor(
    readonly name: string,
    private readonly site: Site<R>
  ) {}

  /** Runs and restarts the pod until it is retired. */
  get kept(): Effect.Effect<void> {
    return Effect.whileLoop({
      while: () => !this.retired,
      body: () => Effect.zipRight(this.once, this.retired ? Effect.void : Effect.sleep(this.untilRestart)),
      step: () => {}
    })
  }

  /** Like kill -9. */
  kill(why: string): void {
    const { boot, site } = this
    if (boot === undefined || boot.actor.isGone) return
    site.checker.trace.note(boot.actor.name, why)
    site.checker.history.killed.add(boot.actor.name)
    site.scheduler.kill(boot.actor)
    boot.wire.break()
    Deferred.unsafeDone(boot.down, Effect.void)
  }

  /** Like SIGTERM. */
  stop(): void {
    if (this.boot === undefined) return
    this.site.checker.trace.note(this.boot.actor.name, "is asked to stop")
    Deferred.unsafeDone(this.boot.stop, Effect.void)
  }

  /** Like SIGSTOP; `thaw` is like SIGCONT. */
  freeze(): void {
    if (this.boot === undefined || this.boot.actor.isPaused) return
    this.site.checker.trace.note(this.boot.actor.name, "freezes")
    this.boot.actor.pause()
  }

  thaw(): void {
    if (this.boot === undefined || !this.boot.actor.isPaused) return
    this.site.checker.trace.note(this.boot.actor.name, "resumes")
    this.boot.actor.resume()
  }

  /** Stops the pod without a restart. Completes when it has stopped. */
  readonly retire: Effect.Effect<void> = Effect.suspend(() => {
    this.retired = true
    this.stop()
    return this.boot === undefined ? Effect.void : Deferred.await(this.boot.down)
  })

  private get untilRestart(): number {
    return 200 + Math.floor(drawn(this.site.seed, `restart ${this.name} ${this.boots}`) * 5_000)
  }

  /** Runs one boot of the pod. */
  private readonly once: Effect.Effect<void> = Effect.gen(this, function* () {
    const { scheduler, faults, seed, checker } = this.site
    this.boots += 1
    const actor = scheduler.actor(`${this.name}.${this.boots}`)
    const boot: Boot = {
      actor,
      wire: new FaultInjector({ actor, scheduler, faults, checker }),
      stop: yield* Deferred.make<void>(),
      down: yield* Deferred.make<void>(),
      id: undefined
    }
    this.boot = boot
    checker.trace.note(actor.name, "starts")
    const skew = Math.round((drawn(seed, `skew ${this.name}`) * 2 - 1) * PodSettings.mostSkew)
    scheduler.start(actor, this.site.runtime, this.life(boot), skew)
    yield* Deferred.await(boot.down)
    this.boot = undefined
  })

  private life(boot: Boot): Effect.Effect<void, never, R> {
    const { logLevel, checker } = this.site
    return Effect.gen(this, function* () {
      const scope = yield* Scope.make()
      const built = yield* Effect.exit(Scope.extend(this.crew(boot), scope))
      if (Exit.isSuccess(built)) {
        boot.id = built.value.pod
        yield* Deferred.await(boot.stop)
      } else checker.trace.note(boot.actor.name, "cannot start")
      yield* Scope.close(scope, Exit.void)
      checker.trace.note(boot.actor.name, "has stopped")
      this.stopped.push({ actor: boot.actor, id: boot.id, heard: this.site.faults.areOver })
      Deferred.unsafeDone(boot.down, Effect.void)
    }).pipe(Logger.withMinimumLogLevel(logLevel))
  }

  /** Builds with plain effects where it can: a simulation starts a dozen pods, and each layer costs as much as a tick. */
  private crew({ actor, wire }: Boot) {
    const { buckets, crew, handlersFor, tables } = this.site
    const around = Context.mergeAll(
      Tables.over(wire, tables, buckets),
      PodSettings.context,
      Context.make(Metrics, Metrics.make())
    )
    return Effect.gen(this, function* () {
      const tally = yield* MetricsFlush.make
      const built = yield* Effect.provideService(
        Layer.build(Crew.layer({ ...crew, handlers: handlersFor(this, actor) })),
        Tally,
        tally
      )
      return Context.get(built, Crew.Crew)
    }).pipe(Effect.provide(around)) as Effect.Effect<typeof Crew.Crew.Service, unknown, R | Scope.Scope>
  }
}
