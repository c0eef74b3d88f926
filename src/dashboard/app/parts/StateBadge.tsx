import type { State } from "../Views"

export const StateBadge = ({ state }: { readonly state: State }) => <span class={`state ${state}`}>{state}</span>
