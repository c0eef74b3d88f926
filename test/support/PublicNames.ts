import { join } from "node:path"
import { type Node, SyntaxKind } from "typescript/unstable/ast"
import { API, type NodeHandle, type Project, type Symbol, SymbolFlags, type Type } from "typescript/unstable/sync"
import { root } from "./Nightshift.js"

// Asks the compiler what editors show about the package. TypeScript 7 calls this API unstable: a new version may need
// changes here.

/** A name that programs can import, or a member of a type with such a name. */
export interface PublicName {
  /** As programs write it: `Job.make`, `ConnectOptions.pool`. */
  readonly name: string
  /** File and line of its declaration. */
  readonly place: string
  /** The doc comment that editors show, without tags. */
  readonly comment: string
  /** Code in `@example` tags. */
  readonly examples: ReadonlyArray<string>
}

const src = join(root, "src/")

/** Effect declares members too, such as `Tag.of` and `_tag` of errors. They are documented there. */
const isOurs = ({ path }: NodeHandle) => path.startsWith(src)

/** Private members are not for programs, and a member that overrides another means the same: `message` of an error. */
const silent: ReadonlySet<SyntaxKind> = new Set([SyntaxKind.PrivateKeyword, SyntaxKind.OverrideKeyword])

const isSilent = (node: Node & { readonly modifiers?: ReadonlyArray<Node> }) =>
  node.modifiers?.some(({ kind }) => silent.has(kind)) ?? false

const memberKinds: ReadonlySet<SyntaxKind> = new Set([SyntaxKind.PropertySignature, SyntaxKind.MethodSignature])

/** Members of type literals in a declaration, at any depth: those of inline options, for example. */
const literalMembers = (declaration: Node): ReadonlyArray<Node> => {
  const found: Array<Node> = []
  const visit = (node: Node): void => {
    if (node.kind === SyntaxKind.Block) return
    if (memberKinds.has(node.kind)) found.push(node)
    node.forEachChild(visit)
  }
  declaration.forEachChild(visit)
  return found
}

/**
 * The comment above `export * as X from` or `export { X } from`. It belongs to the statement, so the symbol does not have it.
 */
const commentOf = (node: Node): string | undefined => {
  const isSpecifier = node.kind === SyntaxKind.ExportSpecifier
  if (!isSpecifier && node.kind !== SyntaxKind.NamespaceExport) return undefined
  const statement = isSpecifier ? node.parent.parent : node.parent
  return statement.jsDoc?.map((comment) => comment.getText()).join("\n")
}

/** `[asyncDispose]` instead of the compiler's name of a symbol. */
const nameOf = (name: string) => name.replace(/__@(\w+)@\d+$/, "[$1]")

class Reader {
  readonly found = new Map<string, PublicName>()
  readonly #visited = new Set<number>()

  constructor(readonly project: Project) {}

  entry(file: string): void {
    const { checker, program } = this.project
    const source = program.getSourceFile(join(root, file))
    const module = source === undefined ? undefined : checker.getSymbolAtLocation(source)
    if (module === undefined) throw new Error(`${file} is not a module of the project.`)
    this.#exportsOf(module, "")
  }

  #exportsOf(module: Symbol, prefix: string): void {
    const { checker } = this.project
    for (const exported of checker.getExportsOfModule(module)) {
      const name = `${prefix}${exported.name}`
      const isAlias = (exported.flags & SymbolFlags.Alias) !== 0
      const target = isAlias ? checker.getAliasedSymbol(exported) : exported
      const isModule = target.declarations.some(({ kind }) => kind === SyntaxKind.SourceFile)
      const isDeclaredHere = !isModule && target.declarations.some(isOurs)
      this.#add(name, isDeclaredHere ? target : exported)
      if (!target.declarations.some(isOurs) || this.#visited.has(target.id)) continue
      this.#visited.add(target.id)
      if (isModule) this.#exportsOf(target, `${name}.`)
      else this.#membersOf(name, target)
    }
  }

  #membersOf(owner: string, symbol: Symbol): void {
    const { checker } = this.project
    if ((symbol.flags & SymbolFlags.Type) !== 0) this.#properties(owner, checker.getDeclaredTypeOfSymbol(symbol))
    if ((symbol.flags & SymbolFlags.Class) !== 0)
      for (const member of symbol.getExports().values()) this.#add(`${owner}.${member.name}`, member)
    const nodes = symbol.declarations.flatMap((handle) => {
      const node = handle.resolve(this.project)
      return node === undefined ? [] : literalMembers(node)
    })
    const names = nodes.map((node) => (node as Node & { readonly name: Node }).name)
    for (const member of checker.getSymbolAtLocation(names))
      if (member !== undefined) this.#add(`${owner}.${member.name}`, member)
  }

  /** Own and inherited properties. Those of a union's alternatives too, unless an alternative has a name and a page itself. */
  #properties(owner: string, type: Type): void {
    if (type.isUnionType()) {
      const unnamed = type.getTypes().filter((each) => ((each.getSymbol()?.flags ?? 0) & SymbolFlags.Class) === 0)
      return unnamed.forEach((each) => this.#properties(owner, each))
    }
    for (const property of this.project.checker.getPropertiesOfType(type))
      this.#add(`${owner}.${property.name}`, property)
  }

  #add(name: string, symbol: Symbol): void {
    const handle = symbol.declarations.find(isOurs)
    // A member that several types inherit is listed once.
    const key = `${handle?.path}#${handle?.index}`
    const node = this.found.has(key) ? undefined : handle?.resolve(this.project)
    if (node === undefined || isSilent(node)) return
    const { checker } = this.project
    const file = node.getSourceFile()
    const line = file.text.slice(0, node.getStart()).split("\n").length
    const place = `${file.fileName.slice(root.length + 1)}:${line}`
    const comment = commentOf(node) ?? checker.getDocumentationCommentOfSymbol(symbol)
    const examples = checker
      .getJsDocTagsOfSymbol(symbol)
      .filter((tag) => tag.name === "example")
      .map((tag) => String(tag.text))
    this.found.set(key, { name: nameOf(name), place, comment, examples })
  }
}

/** All public names of the modules, with their members. */
export const publicNames = (entries: ReadonlyArray<string>): ReadonlyArray<PublicName> => {
  const api = new API({ cwd: root })
  try {
    const config = join(root, "tsconfig.entries.json")
    const [project] = api.updateSnapshot({ openProjects: [config] }).getProjects()
    if (project === undefined) throw new Error(`${config} is not a project.`)
    const reader = new Reader(project)
    for (const entry of entries) reader.entry(entry)
    return [...reader.found.values()]
  } finally {
    api.close()
  }
}
