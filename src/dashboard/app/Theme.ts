export type Theme = "light" | "dark" | "auto"

const key = "nightshift.theme"
const night = matchMedia("(prefers-color-scheme: dark)")

export const chosen = (): Theme => {
  const kept = localStorage.getItem(key)
  return kept === "light" || kept === "dark" ? kept : "auto"
}

const isDark = (): boolean => (chosen() === "auto" ? night.matches : chosen() === "dark")

const apply = () => {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light"
  dispatchEvent(new Event("themechange"))
}

export const choose = (theme: Theme): void => {
  localStorage.setItem(key, theme)
  apply()
}

night.addEventListener("change", apply)
apply()
