/** The logo. */
export const Mark = () => (
  <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">
    <circle cx="11" cy="11" r="10" fill="var(--accent)" />
    <path d="M15.5 13.2A6 6 0 0 1 8.8 6.5 6 6 0 1 0 15.5 13.2Z" fill="var(--on-accent)" />
  </svg>
)
