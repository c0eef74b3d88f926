import * as Screen from "./Screen.js"

/** Text and how a screen shows it. */
type Cells = ReadonlyArray<string>

/** How a table that is too wide is made to fit. */
export interface TableOptions {
  /** The last column continues on further lines instead of being cut. */
  readonly wraps?: boolean
}

const gap = 2

/** A column that is cut keeps at least this many characters. */
const narrowest = 10

const id = /^[0-9a-f]{8}-[0-9a-f]{4}-/

/** Columns with these headings have states. */
const stateHeadings = new Set(["", "STATE", "OUTCOME"])

/** The width below which a column is useless: ids and numbers are never cut. */
const leastOf = (heading: string, cells: Cells): number => {
  const needed = cells.filter((cell) => id.test(cell) || cell.length <= narrowest).map((cell) => cell.length)
  return Math.max(heading.length, Math.min(narrowest, Math.max(0, ...cells.map((cell) => cell.length))), ...needed)
}

const total = (widths: ReadonlyArray<number>) => widths.reduce((sum, width) => sum + width, gap * (widths.length - 1))

/** Widths that fit, found by narrowing the widest column again and again. Undefined if there are none. */
const fitted = (
  widths: ReadonlyArray<number>,
  least: ReadonlyArray<number>,
  columns: number
): ReadonlyArray<number> | undefined => {
  if (total(least) > columns) return undefined
  const fit = [...widths]
  while (total(fit) > columns) {
    const spare = fit.map((width, place) => width - (least[place] ?? 0))
    const widest = fit.reduce(
      (best, width, place) => ((spare[place] ?? 0) > 0 && width > (fit[best] ?? 0) ? place : best),
      spare.findIndex((each) => each > 0)
    )
    fit[widest] = Math.max(least[widest] ?? 0, (fit[widest] ?? 0) - Math.max(1, Math.min(total(fit) - columns, 8)))
  }
  return fit
}

const cut = (cell: string, width: number) => (cell.length <= width ? cell : `${cell.slice(0, Math.max(0, width - 1))}…`)

/** The text on lines of this width, broken at spaces where there are some. */
const wrapped = (text: string, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let rest = text
  while (rest.length > width) {
    const space = rest.lastIndexOf(" ", width)
    const end = space > width / 3 ? space : width
    lines.push(rest.slice(0, end))
    rest = rest.slice(end).trimStart()
  }
  return [...lines, rest]
}

/** Every row as a block of lines, for a screen that is too narrow for columns. */
const stacked = (heading: Cells, rows: ReadonlyArray<Cells>, screen: Screen.Screen): string => {
  const width = Math.max(...heading.map((title) => title.length))
  const block = (row: Cells) =>
    row.flatMap((cell, place) => {
      const title = heading[place] ?? ""
      const shown = stateHeadings.has(title) ? Screen.state(screen, cell) : cell
      return cell === "" ? [] : [`${Screen.styled(screen, "dim", title.padEnd(width))}  ${shown}`]
    })
  return rows.map((row) => block(row).join("\n")).join("\n\n")
}

/** Renders rows as aligned columns under a heading, not wider than the screen. */
export const render = (
  heading: Cells,
  rows: ReadonlyArray<Cells>,
  screen: Screen.Screen,
  options: TableOptions = {}
): string => {
  const cellsOf = (column: number) => rows.map((row) => row[column] ?? "")
  const widths = heading.map((title, column) => Math.max(title.length, ...cellsOf(column).map((cell) => cell.length)))
  const least = heading.map((title, column) =>
    options.wraps === true && column === heading.length - 1 ? 30 : leastOf(title, cellsOf(column))
  )
  const fit = total(widths) <= screen.columns ? widths : fitted(widths, least, screen.columns)
  if (fit === undefined) return stacked(heading, rows, screen)
  const last = heading.length - 1
  const line = (cells: Cells, style: (cell: string, column: number) => string) =>
    cells
      .map((cell, column) => {
        const padded = column === last ? cell : cell.padEnd(fit[column] ?? 0)
        return style(padded, column)
      })
      .join(" ".repeat(gap))
      .trimEnd()
  const inState = (cell: string, column: number) =>
    stateHeadings.has(heading[column] ?? "") ? Screen.state(screen, cell) : cell
  const linesOf = (row: Cells): ReadonlyArray<string> => {
    const cells = row.map((cell, column) =>
      options.wraps === true && column === last ? cell : cut(cell, fit[column] ?? 0)
    )
    const [first = "", ...more] =
      options.wraps === true ? wrapped(cells[last] ?? "", fit[last] ?? 0) : [cells[last] ?? ""]
    const before = " ".repeat(total(fit) - (fit[last] ?? 0))
    return [line([...cells.slice(0, last), first], inState), ...more.map((text) => `${before}${text}`)]
  }
  const rule = fit.map((width, column) => "-".repeat(column === last ? Math.min(width, 60) : width))
  return [
    line(heading, (cell) => Screen.styled(screen, "bold", cell)),
    line(rule, (cell) => Screen.styled(screen, "dim", cell)),
    ...rows.flatMap(linesOf)
  ].join("\n")
}
