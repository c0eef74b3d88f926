// Checks Kubernetes manifests against the APIs of Kubernetes and KEDA, with npm packages: values by JSON schemas, field
// names by TypeScript types.
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { parseAllDocuments } from "yaml"
import { fromNpm } from "./servers.mjs"

const packages = ["kubernetes-models@5.1.0", "@kubernetes-models/keda@2.0.0"]
const models = {
  "apps/v1 Deployment": "kubernetes-models/apps/v1/Deployment",
  "v1 Service": "kubernetes-models/v1/Service",
  "policy/v1 PodDisruptionBudget": "kubernetes-models/policy/v1/PodDisruptionBudget",
  "keda.sh/v1alpha1 ScaledObject": "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject"
}

const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc")
const strict = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", ""]

/** The schemas accept unknown fields, so a misspelt one would be ignored. The types do not. */
const checkFields = (folder, documents) => {
  const lines = documents.map(
    ({ model, value }, index) =>
      `import type { I${value.kind} } from "${model}"\nexport const document${index}: I${value.kind} = ${JSON.stringify(value)}`
  )
  const file = join(folder, "manifests.mts")
  writeFileSync(file, `${lines.join("\n")}\n`)
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...strict, file], { cwd: folder, encoding: "utf8" })
  if (status !== 0) throw new Error(stdout)
}

/** Checks every document of a file and returns their kinds. */
export const checkManifests = async (file) => {
  const folder = fromNpm("kubernetes", packages)
  const documents = parseAllDocuments(readFileSync(file, "utf8")).map((document) => {
    const value = document.toJS()
    const model = models[`${value.apiVersion} ${value.kind}`]
    if (model === undefined) throw new Error(`no schema is known for ${value.apiVersion} ${value.kind}`)
    return { model, value }
  })
  for (const { model, value } of documents) {
    const { [value.kind]: Model } = await import(pathToFileURL(join(folder, "node_modules", `${model}.js`)))
    new Model(value).validate()
  }
  checkFields(folder, documents)
  return documents.map(({ value }) => value.kind)
}
