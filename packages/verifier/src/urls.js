// URLs that may receive secrets. As sdcard/urls.py.
import { Misuse } from "./json.js";

const URL_TEXT = /^(https?):\/\/(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?((?:\/[!$-;=?-Z_a-z~]*)?(?:\?[!$-;=?-Z_a-z~]*)?)$/i;
const MOST_CHARACTERS = 8192;

/**
 * The origin of a URL in lower case, without the default port; null for a URL that two parsers could read differently.
 * @param {string} url
 */
export function canonicalOrigin(url) {
  const match = url.length <= MOST_CHARACTERS ? URL_TEXT.exec(url) : null;
  if (!match) return null;
  const [, scheme, host, port] = match;
  try {
    const { origin, hostname, protocol } = new URL(`${scheme}://${host}${port ? `:${port}` : ""}`);
    return hostname === host.toLowerCase() && protocol === `${scheme.toLowerCase()}:` && port !== "0" ? origin : null;
  } catch {
    return null;
  }
}

/** Whether secrets may go there: by https, or by http to this machine. @param {string} url */
export function mayHaveSecrets(url) {
  const origin = canonicalOrigin(url);
  return origin !== null && (origin.startsWith("https:") || /^http:\/\/(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]+)?$/.test(origin));
}

/**
 * @param {string} url
 * @param {string} what
 */
export function checkSecretUrl(url, what) {
  if (typeof url !== "string" || !mayHaveSecrets(url)) throw new Misuse(`${what} is an https URL; http is for localhost, 127.0.0.0/8 and [::1]`);
}

/** @param {string} origin */
export function checkOrigin(origin) {
  checkSecretUrl(origin, "an origin");
  if (canonicalOrigin(origin) !== origin) throw new Misuse("an origin is https://host:port, in lower case, without a default port");
}
