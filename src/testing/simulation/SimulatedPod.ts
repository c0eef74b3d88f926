import {
  Context,
  Deferred,
  Duration,
  Effect,
  Exit,
  type Fiber,
  Layer,
  Logger,
  type LogLevel,
  type Option,
  Runtime,
  Scope
} from "effect"
import { LockTable } from "../../cluster/ClusterMemory.js"
import { Pods } from "../../cluster/Pods.js"
import * as ProcessBoot from "../../core/Boot.js"
import { makeGenerator, type PodId } from "../../core/Ids.js"
import { WebhookIntake } from "../../gateway/WebhookIntake.js"
import type { Handler } from "../../handlers/Handler.js"
import * as MetricsFlush from "../../history/MetricsFlush.js"
import { DirectHandoff } from "../../queue/handoff/DirectHandoff.js"
import { Queue } from "../../queue/Queue.js"
import type * as RateLimitsMemory from "../../rate-limits/RateLimitsMemory.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Tally } from "../../telemetry/Tally.js"
import * as PodLoops from "../../worker/PodLoops.js"
import { RemoteWorkers } from "../../worker/remote/RemoteWorkers.js"
import * as Worker from "../../worker/Worker.js"
import type { Actor } from "./Actor.js"
import { FaultInjector } from "./FaultInjector.js"
import type { Faults } from "./Faults.js"
import type { HistoryChecker } from "./HistoryChecker.js"
import * as PodSettings from "./PodSettings.js"
import * as ProcessQueue from "./ProcessQueue.js"
import { drawn } from "./Seed.js"
import type { SimulationScheduler } from "./SimulationScheduler.js"
import * as Tables from "./Tables.js"

/** State shared by all pods of a simulation. */
export interface Site<R> {
  readonly seed: number
  readonly scheduler: SimulationScheduler
  readonly faults: Faults
  readonly checker: HistoryChecker
  readonly tables: Context.Context<Tables.Stored>
  readonly buckets: RateLimitsMemory.Table
  /** Provides the handlers' other requirements. */
  readonly runtime: Runtime.Runtime<R>
  readonly worker: Omit<Worker.WorkerOptions<R>, "handlers" | "loops">
  readonly handlersFor: (pod: SimulatedPod<R>, actor: Actor) => ReadonlyArray<Handler<R>>
  readonly logLevel: LogLevel.LogLevel
  /** Whether the clocks of some pods run slow. */
  readonly slowClocks: boolean
  /** Whether some pods have the next release of the workflows. */
  readonly releases: boolean
}

interface Boot {
  readonly actor: Actor
  readonly wire: FaultInjector
  readonly stop: Deferred.Deferred<void>
  readonly down: Deferred.Deferred<void>
  id: PodId | undefined
  /** The pod whose lock the process has taken. */
  lock: PodId | undefined
  /** Whether the pod was asked to stop while faults were active, which may have hit its last writes. */
  isStoppedInTrouble: boolean
  /** Runs a request of a remote worker in the process, until the process stops. Undefined while the pod starts. */
  work: (<A, E>(request: RemoteRequest<A, E>) => Fiber.RuntimeFiber<A, E>) | undefined
  /** Runs an effect in the process, with its services. Undefined while the pod starts. */
  run: (<A, E>(effect: Effect.Effect<A, E, Served>) => Fiber.RuntimeFiber<A, E>) | undefined
}

/** A request to the service behind the HTTP routes of remote workers. */
type RemoteRequest<A, E> = (
  remote: typeof RemoteWorkers.Service,
  untilDraining: Effect.Effect<void>
) => Effect.Effect<A, E>

/** Services that a pod's HTTP server uses. */
export type Served = Tables.Ports | WebhookIntake

/** Trace event of a pod that starts with a slow clock. */
export const slowClock = "has a slow clock"

/** How often a frozen process that lost its lock is checked. */
const lockRetryMillis = 500

/** How long clients wait for an answer. */
const requestTimeout = Duration.seconds(5)

/** A pod that is restarted under a new name whenever it ends. */
export class SimulatedPod<R> {
  private boot: Boot | undefined
  private boots = 0
  private retired = false
  /**
   * Boots that stopped gracefully. `isAnnounced` is false if faults were active, so that the cluster may not have been
   * notified.
   */
  readonly stopped: Array<{ readonly actor: Actor; readonly id: PodId | undefined; readonly isAnnounced: boolean }> = []

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

  /** Like kill -9. The database frees the lock of the process after `lockedMillis`. */
  kill(why: string, lockedMillis = 0): void {
    const { boot, site } = this
    if (boot === undefined || boot.actor.isGone) return
    site.checker.trace.note(boot.actor.name, why)
    site.checker.history.killed.add(boot.actor.name)
    site.scheduler.kill(boot.actor)
    boot.wire.break()
    if (lockedMillis === 0) this.setLock(boot, false)
    else site.scheduler.clock.after("database", lockedMillis, () => this.setLock(boot, false))
    Deferred.unsafeDone(boot.down, Effect.void)
  }

  /** The session that holds the lock of the process ends. A process that runs takes it again after this long. */
  loseLock(millis: number): void {
    const { boot, site } = this
    if (boot?.lock === undefined || boot.actor.isGone) return
    const { clock } = site.scheduler
    const takeAgain = () => {
      if (boot.actor.isPaused) clock.after("database", lockRetryMillis, takeAgain)
      else if (!boot.actor.isGone) this.setLock(boot, true)
    }
    site.checker.trace.note(boot.actor.name, "loses its lock")
    this.setLock(boot, false)
    clock.after("database", millis, takeAgain)
  }

  private setLock({ actor, lock }: Boot, isHeld: boolean): void {
    const { checker, tables } = this.site
    if (lock === undefined) return
    checker.history.processes.setLock(actor.name, isHeld)
    Context.get(tables, LockTable).setHeld(lock, isHeld)
  }

  /** Like SIGTERM. */
  stop(): void {
    if (this.boot === undefined) return
    this.site.checker.trace.note(this.boot.actor.name, "is asked to stop")
    this.boot.isStoppedInTrouble ||= !this.site.faults.areOver && !this.boot.actor.isPaused
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

  /** The id of the process that runs. Undefined while it starts or is down. */
  get id(): PodId | undefined {
    return this.boot?.id
  }

  /** The name of the process that runs. */
  get processName(): string | undefined {
    return this.boot?.actor.name
  }

  /** Whether the pod's HTTP server accepts requests. */
  get isServing(): boolean {
    return this.boot?.run !== undefined && !this.boot.actor.isGone
  }

  /**
   * Runs a request in the pod's process, as its HTTP server does. None if the process is down, or dies or freezes before
   * it answers.
   */
  request<A, E>(effect: Effect.Effect<A, E, Served>): Effect.Effect<Option.Option<Exit.Exit<A, E>>> {
    return this.answer(() => this.boot?.run?.(effect))
  }

  /** Like `request`, for a remote worker. */
  work<A, E>(request: RemoteRequest<A, E>): Effect.Effect<Option.Option<Exit.Exit<A, E>>> {
    return this.answer(() => this.boot?.work?.(request))
  }

  private answer<A, E>(
    start: () => Fiber.RuntimeFiber<A, E> | undefined
  ): Effect.Effect<Option.Option<Exit.Exit<A, E>>> {
    return Effect.suspend(() => {
      const fiber = start()
      if (fiber === undefined) return Effect.succeedNone
      const answer = Effect.async<Exit.Exit<A, E>>((resume) => {
        fiber.addObserver((exit) => resume(Effect.succeed(exit)))
      })
      return Effect.timeoutOption(answer, requestTimeout)
    })
  }

  /** A rolling deploy: the second pod has the next release from the start, and the others when they restart. */
  private get hasNextRelease(): boolean {
    return this.site.releases && (this.boots > 1 || this.name === "pod-2")
  }

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
      wire: new FaultInjector({ actor, scheduler, faults, checker, kill: (why) => this.kill(why) }),
      stop: yield* Deferred.make<void>(),
      down: yield* Deferred.make<void>(),
      id: undefined,
      lock: undefined,
      isStoppedInTrouble: false,
      work: undefined,
      run: undefined
    }
    this.boot = boot
    checker.trace.note(actor.name, "starts")
    const skew = Math.round((drawn(seed, `skew ${this.name}`) * 2 - 1) * PodSettings.maxClockSkew)
    const pace =
      faults.areOver || !this.site.slowClocks || drawn(seed, `pace ${this.name}`) > 0.2 ? 1 : PodSettings.slowPace
    if (pace < 1) checker.trace.note(actor.name, slowClock)
    scheduler.start(actor, this.site.runtime, this.life(boot), { skew, pace })
    yield* Deferred.await(boot.down)
    this.boot = undefined
  })

  private life(boot: Boot): Effect.Effect<void, never, R> {
    return Effect.flatMap(this.services(boot), (services) => Effect.provide(this.lifeWith(boot), services)).pipe(
      Logger.withMinimumLogLevel(this.site.logLevel)
    ) as Effect.Effect<void, never, R>
  }

  /**
   * Starts and stops the worker in the same context. Otherwise each finalizer would compute the difference between two
   * contexts of fifty services, which took as long as the rest of the stop.
   */
  private lifeWith(boot: Boot) {
    const { checker } = this.site
    return Effect.gen(this, function* () {
      const scope = yield* Scope.make()
      const built = yield* Effect.exit(Scope.extend(this.worker(boot), scope))
      if (Exit.isSuccess(built)) {
        boot.id = built.value.pod
        yield* Deferred.await(boot.stop)
        // A frozen pod begins to stop when it continues.
        boot.isStoppedInTrouble ||= !this.site.faults.areOver
      } else checker.trace.note(boot.actor.name, "cannot start")
      yield* Scope.close(scope, Exit.void)
      checker.trace.note(boot.actor.name, "has stopped")
      this.stopped.push({
        actor: boot.actor,
        id: boot.id,
        isAnnounced: this.site.faults.areOver && !boot.isStoppedInTrouble
      })
      Deferred.unsafeDone(boot.down, Effect.void)
    })
  }

  /** The services of the process. */
  private services(boot: Boot) {
    const { wire } = boot
    const { buckets, checker, tables } = this.site
    return Effect.map(makeGenerator, (ids) => {
      const ports = Tables.over(wire, tables, buckets)
      const pods = Context.get(ports, Pods)
      const holdLock: typeof Pods.Service.holdLock = (id) => {
        boot.lock = id
        checker.history.processes.setLock(boot.actor.name, true)
        const freed = Effect.sync(() => {
          // A process that stops does not take its lock again.
          boot.lock = undefined
          checker.history.processes.setLock(boot.actor.name, false)
        })
        return Effect.zipLeft(
          pods.holdLock(id),
          Effect.addFinalizer(() => freed)
        )
      }
      const handoff = Context.get(ports, DirectHandoff)
      const queue = ProcessQueue.make(wire, tables, Context.get(ports, Queue), ids, handoff)
      const settings = this.hasNextRelease ? PodSettings.ofNextRelease : PodSettings.context
      return Context.mergeAll(ports, settings, Context.make(Metrics, Metrics.make())).pipe(
        Context.add(Queue, queue),
        Context.add(Pods, { ...pods, holdLock })
      )
    })
  }

  /** Builds the worker, mostly with plain effects: a simulation starts several pods, and each layer costs as much as a tick. */
  private worker(boot: Boot) {
    const { actor } = boot
    const { worker, handlersFor } = this.site
    const started = Effect.gen(this, function* () {
      const tally = yield* Effect.provideServiceEffect(MetricsFlush.make, ProcessBoot.Boot, ProcessBoot.Boot.make)
      const built = yield* Effect.provideService(
        Layer.build(Worker.layer({ ...worker, loops: PodLoops.inMemory, handlers: handlersFor(this, actor) })),
        Tally,
        tally
      )
      const runtime = yield* Effect.runtime<Served>()
      boot.run = (effect) => Runtime.runFork(runtime)(effect, { scheduler: actor, immediate: false })
      boot.work = yield* Effect.provideService(this.remoteWork(boot), Tally, tally)
      return Context.get(built, Worker.Worker)
    })
    return Effect.provideServiceEffect(started, WebhookIntake, intake)
  }

  /** The service is built by its first request, because most seeds have no remote workers. */
  private remoteWork({ actor, stop }: Boot) {
    return Effect.gen(function* () {
      const built = Effect.map(Layer.build(RemoteWorkers.layer), Context.get(RemoteWorkers))
      const runtime = yield* Effect.runtime<Effect.Effect.Context<typeof built>>()
      const remote = yield* Effect.cached(built)
      const scope = yield* Effect.scope
      const draining = Deferred.await(stop)
      return <A, E>(request: RemoteRequest<A, E>) =>
        Runtime.runFork(runtime)(
          Effect.flatMap(remote, (service) => request(service, draining)),
          { scheduler: actor, immediate: false, scope }
        )
    })
  }
}

/** The webhook intake of a process. Only bots use sign-ins, and the simulation has none. */
const intake = Effect.map(Layer.build(WebhookIntake.layer), Context.get(WebhookIntake)).pipe(
  Effect.provide(PodSettings.gateway)
)
