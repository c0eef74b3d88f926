import { describe, expect, it } from "@effect/vitest"
import { Option } from "effect"
import type { PodId } from "../../src/core/Ids.js"
import { type LabelParts, podLabel } from "../../src/worker/Pod.js"

const pod = "01890a5d-ac96-774b-bcce-b302099a8057" as PodId
const parts = (prefix?: string, version?: string, id?: string): LabelParts => ({
  prefix: Option.fromNullable(prefix),
  version: Option.fromNullable(version),
  id: Option.fromNullable(id)
})

describe("a pod's label", () => {
  it("consists of prefix, worker, version and id", () => {
    expect(podLabel(parts("shop", "1.4.2", "eu-1"), pod)).toBe("shop-worker-1.4.2-eu-1")
  })

  it("omits the version when none is set", () => {
    expect(podLabel(parts("shop", undefined, "eu-1"), pod)).toBe("shop-worker-eu-1")
  })

  it("ends in four digits of a hash of the pod id when no id is set, stable per pod", () => {
    const label = podLabel(parts("shop", "2"), pod)
    expect(label).toMatch(/^shop-worker-2-[0-9a-f]{4}$/)
    expect(podLabel(parts("shop", "2"), pod)).toBe(label)
    expect(podLabel(parts("shop", "2"), pod.replace("8057", "8058") as PodId)).not.toBe(label)
  })

  it("is absent without a prefix", () => {
    expect(podLabel(parts(undefined, "1.4.2", "eu-1"), pod)).toBeUndefined()
  })
})
