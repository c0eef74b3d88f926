const accepted = (tag: string): boolean => {
  try {
    return Intl.NumberFormat.supportedLocalesOf(tag).length > 0
  } catch {
    return false
  }
}

// Chromium started with LANG=C reports `en-US@posix`, which Intl rejects. uPlot passes navigator.language to Intl when it
// loads, so main.tsx imports this module first: an unusual tag would otherwise leave the page blank.
if (!accepted(navigator.language)) {
  Object.defineProperty(navigator, "language", { value: "en-US", configurable: true })
}
