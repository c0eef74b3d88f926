import { Context, Effect, Layer } from "effect"

/**
 * Combines layers into one that builds them one after another; each may use the services of the layers before it. For
 * tests that build the same services thousands of times: composed layers start fibers and scopes for each layer, which
 * costs five times as much. The compiler does not check the order.
 */
export const inOrder = <Out, In = never>(
  ...layers: ReadonlyArray<Layer.Layer<never, never, unknown>>
): Layer.Layer<Out, never, In> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const memoMap = yield* Layer.makeMemoMap
      let context = yield* Effect.context<never>()
      let built = Context.empty() as Context.Context<Out>
      for (const layer of layers) {
        const services = yield* Effect.provide(
          Layer.buildWithMemoMap(layer as Layer.Layer<never, never, never> as Layer.Layer<Out>, memoMap, scope),
          context
        )
        context = Context.merge(context, services)
        built = Context.merge(built, services)
      }
      return built
    })
  ) as Layer.Layer<Out, never, In>
