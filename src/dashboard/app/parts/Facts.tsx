import { type ComponentChildren, Fragment } from "preact"

/** Names with their values. A fact without a value is left out. */
export const Facts = (props: { readonly of: ReadonlyArray<readonly [name: string, value: ComponentChildren]> }) => (
  <dl class="facts">
    {props.of.map(([name, value]) =>
      value === null || value === undefined ? null : (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Fragment>
      )
    )}
  </dl>
)
