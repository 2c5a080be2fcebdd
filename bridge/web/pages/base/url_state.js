// The state of a page is in its address: the back button and links to others work.

/** @returns {URLSearchParams} */
export function readState() {
  return new URLSearchParams(location.search);
}

/**
 * @param {Record<string, string | string[] | null | undefined>} changes null and "" take a parameter out
 * @param {{ push?: boolean }} [options] push: the back button comes back here
 */
export function writeState(changes, { push = false } = {}) {
  const query = readState();
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(name, one);
  }
  const text = query.toString();
  const next = `${location.pathname}${text ? `?${text}` : ""}${location.hash}`;
  if (next === location.pathname + location.search + location.hash) return;
  if (push) history.pushState(null, "", next);
  else history.replaceState(null, "", next);
}
