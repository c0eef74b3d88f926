// The reference of the API as Markdown: every name that programs can import, from the declarations of the package.
import { dirname, join } from "node:path"
import { anchors } from "./links.mjs"
import { root } from "./markdown.mjs"
import { tool } from "./tools.mjs"

const ts = await tool("typescript")

/** What each entry point of package.json is for. */
const purposes = {
  ".": "Programs with Effect.",
  "./client": "Programs with promises.",
  "./testing": "Tests of programs with promises: virtual time, without a database.",
  "./effect/testing": "Tests of programs with Effect, the simulation, and an emulator of Telegram.",
  "./workflow": "Workflows of `@effect/workflow`."
}

/** Reads declarations without those of other packages: their types are shown by name, so they need not be known. */
const programOf = (files) => {
  const options = { module: ts.ModuleKind.NodeNext, noLib: true, types: [] }
  const host = ts.createCompilerHost(options)
  host.resolveModuleNameLiterals = (names, from) =>
    names.map(({ text }) => ({
      resolvedModule: text.startsWith(".")
        ? { resolvedFileName: join(dirname(from), text.replace(/\.js$/, ".d.ts")), extension: ts.Extension.Dts }
        : undefined
    }))
  return ts.createProgram(files, options, host)
}

/** The class that a class extends, which the compiler declares under a name with _base, in its place. */
const withBase = (text, declaration) => {
  const [, name] = /extends (\w+_base)\b/.exec(text) ?? []
  if (name === undefined) return text
  const declared = declaration
    .getSourceFile()
    .statements.filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => [...declarationList.declarations])
  const base = declared.find((one) => one.name.text === name).type.getText()
  const tag = /^new <[\s\S]*readonly _tag: ("\w+")/.exec(base)
  return text.replace(name, () => (tag === null ? base : `Data.TaggedError(${tag[1]})`))
}

/** A declaration as users see it: without private members, and with types of other files by name. */
const textOf = (declaration) => {
  const node = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration
  return withBase(node.getText(), declaration)
    .replace(/^export (declare )?/, "")
    .replace(/^ +(private .*|#private;)\n/gm, "")
    .replace(/(typeof )?import\("[^"]+"\)\./g, "$1")
    .replace(/^ +/gm, (indent) => indent.slice(Math.floor(indent.length / 2)))
}

const links = (text) => text.replace(/\{@link ([^}]+)\}/g, "`$1`")

const tagsOf = (checker, symbol, name) =>
  symbol
    .getJsDocTags(checker)
    .filter((tag) => tag.name === name)
    .map(({ text }) => links(ts.displayPartsToString(text)))

const commentOf = (checker, symbol) =>
  [
    links(ts.displayPartsToString(symbol.getDocumentationComment(checker))),
    ...tagsOf(checker, symbol, "deprecated").map((text) => `**Deprecated.** ${text}`)
  ].join("\n\n")

/** The comment of an export declaration, such as `export * as Job from "./Job.js"`. */
const commentAbove = (node) =>
  links(
    ts
      .getJSDocCommentsAndTags(node)
      .map((one) => ts.getTextOfJSDocComment(one.comment) ?? "")
      .join("\n")
  )

const groupOf = (text) => {
  if (text.startsWith("export ")) return "From other packages"
  if (!/^(abstract )?class /.test(text)) return /^(const|function) /m.test(text) ? "Functions and values" : "Types"
  return /extends \w*\.?\w*Error\b|ErrorClass<|TaggedError\(/.test(text) ? "Errors" : "Services and classes"
}
const groups = ["Functions and values", "Services and classes", "Types", "Errors", "From other packages"]

/** The exports of a module: namespaces, and everything else with its text. */
const exportsOf = (checker, module) =>
  checker
    .getExportsOfModule(module)
    .map((symbol) => {
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
      const [declaration] = symbol.declarations
      const isNamespace = ts.isNamespaceExport(declaration)
      const outer = isNamespace ? declaration.parent : (declaration.parent.parent ?? declaration)
      const comment = (target.declarations && commentOf(checker, target)) || commentAbove(outer)
      if (target.declarations === undefined) return { name: symbol.name, comment, text: outer.getText() }
      if (isNamespace) return { name: symbol.name, comment, module: target }
      const examples = tagsOf(checker, target, "example").join("\n\n")
      return { name: symbol.name, comment, examples, text: target.declarations.map(textOf).join("\n\n") }
    })
    .sort((a, b) => a.name.localeCompare(b.name))

/** One page. `above` are the links of the page above, for names that this one uses and does not export. */
const pageOf = ({ above, exports, file, intro, prefix, title }) => {
  const anchor = anchors()
  anchor(title)
  const grouped = groups
    .map((name) => ({ name, items: exports.filter(({ text }) => text !== undefined && groupOf(text) === name) }))
    .filter(({ items }) => items.length > 0)
  const known = new Map(above)
  for (const { items, name } of grouped) {
    anchor(name)
    for (const item of items) known.set(item.name, `${file}#${anchor(prefix + item.name)}`)
  }
  const related = ({ name, text }) => {
    const words = new Set(text.replace(/\/\*[\s\S]*?\*\/|"[^"]*"/g, "").match(/\b[A-Z]\w+/g))
    const found = [...words].filter((word) => word !== name && known.has(word))
    return found.length === 0 ? "" : `\nUses ${found.map((word) => `[${word}](${known.get(word)})`).join(", ")}.\n`
  }
  const parts = grouped.map(({ items, name }) => {
    const entries = items.map((item) => {
      const declared = `\`\`\`ts\n${item.text}\n\`\`\`\n${related(item)}`
      return `### ${prefix}${item.name}\n\n${item.comment}\n\n${declared}\n${item.examples ?? ""}\n`
    })
    return `## ${name}\n\n${entries.join("\n")}`
  })
  return { known, markdown: `# ${title}\n\n${intro}\n\n${parts.join("\n")}` }
}

/** Pages of the API by file, as if they were in docs/api, and their part of the navigation. */
export const api = (manifest) => {
  const entries = Object.entries(manifest.exports).filter(([, { types }]) => types !== undefined)
  const fileOf = (types) => join(root, types)
  const program = programOf(entries.map(([, { types }]) => fileOf(types)))
  const checker = program.getTypeChecker()
  const pages = new Map()
  const parts = entries.map(([key, { types }]) => {
    const name = `nightshift${key.slice(1)}`
    const about = purposes[key]
    if (about === undefined) throw new Error(`scripts/site/api.mjs does not say what the entry point ${name} is for.`)
    const base = key === "." ? "effect" : key.slice(2).replaceAll("/", "-")
    const exports = exportsOf(checker, checker.getSymbolAtLocation(program.getSourceFile(fileOf(types))))
    const namespaces = exports
      .filter(({ module }) => module !== undefined)
      .map((one) => ({ ...one, file: `${base}.${one.name}.md` }))
    const table = namespaces.map((one) => `| [${one.name}](${one.file}) | ${one.comment.replaceAll("\n", " ")} |`)
    const list = table.length === 0 ? "" : `\n\n| namespace | what it has |\n| --- | --- |\n${table.join("\n")}`
    const file = `${base}.md`
    const page = pageOf({ above: [], exports, file, intro: `${about}${list}`, prefix: "", title: name })
    pages.set(`docs/api/${file}`, page.markdown)
    for (const { comment, file, module, name: namespace } of namespaces) {
      const intro = `${comment}\n\n\`\`\`ts\nimport { ${namespace} } from "${name}"\n\`\`\``
      const inner = exportsOf(checker, module)
      const options = { above: page.known, exports: inner, file, intro, prefix: `${namespace}.`, title: namespace }
      pages.set(`docs/api/${file}`, pageOf(options).markdown)
    }
    return { about, file, name, namespaces }
  })
  const rows = parts.map(({ about, file, name, namespaces }) => {
    const inner = namespaces.map((one) => `[${one.name}](${one.file})`).join(", ")
    return `| [${name}](${file}) | ${about} | ${inner} |`
  })
  pages.set("docs/api/README.md", overview(rows))
  const item = (file, title) => ({ file: `docs/api/${file}`, page: `api/${file.replace(/md$/, "html")}`, title })
  const group = ({ file, name, namespaces }) => ({
    name,
    items: [item(file, name), ...namespaces.map((one) => item(one.file, one.name))]
  })
  const first = { file: "docs/api/README.md", page: "api/index.html", title: "All references" }
  return { nav: { name: "API", groups: [{ name: "", items: [first] }, ...parts.map(group)] }, pages }
}

const overview = (rows) => `# API reference

Every name that programs can import, from the type declarations of the package. In comments, brackets hold the default of an option.

| import from | for | namespaces |
| --- | --- | --- |
${rows.join("\n")}

Other interfaces have their own pages: the [HTTP API](../operate/http-api.md), its [errors](../operate/errors.md) and its
[live events](../learn/events.md), the [SQL functions](../learn/sql.md), the [commands](../operate/commands.md), the
[settings](../operate/settings.md) and the [metrics](../operate/metrics.md).
`
