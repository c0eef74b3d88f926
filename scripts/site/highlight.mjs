import { tool } from "./tools.mjs"

const { getLanguage, highlight: colour } = await tool("highlight.js")

export const escape = (text) =>
  text.replace(/[&<>"]/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[char])

/** Returns a block of code as HTML with classes for its colours. Text in an unknown language is only escaped. */
export const highlight = (code, language) =>
  getLanguage(language) === undefined ? escape(code) : colour(code, { language }).value
