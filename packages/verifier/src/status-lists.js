// A source of statuses that fetches lists (Token Status List 8). As sdcard/io/status_lists.py.
import { DATA } from "./data.js";
import { Refused } from "./json.js";
import { refusalOf } from "./keys.js";
import { parseStatusListToken, verifyStatusListToken } from "./status.js";
import { mayHaveSecrets } from "./urls.js";

/** @import { Limits } from "./sd-jwt.js" */
/** @import { StatusSource } from "./status.js" */
/** @import { TrustedIssuers } from "./trust.js" */

const MOST_LISTS = 64;
const [DEFAULT_TTL, MOST_TTL, PAUSE] = [300, 43_200, 5];

/**
 * Fetches status lists and caches them as their `ttl` and `exp` permit. Concurrent callers share one request. Only lists
 * of Issuers with `status_keys` are fetched, by https, or by http from this machine. No redirect is followed.
 */
export class FetchedStatusLists {
  /**
   * @param {TrustedIssuers} issuers
   * @param {typeof fetch} fetcher
   * @param {Limits} [limits]
   */
  constructor(issuers, fetcher, limits = DATA.limits) {
    this.issuers = issuers;
    this.fetcher = fetcher;
    this.limits = limits;
    /** @type {Map<string, { from: number, until: number, found: Promise<Awaited<ReturnType<typeof verifyStatusListToken>> | Refused> }>} */
    this.kept = new Map();
  }

  /** @type {StatusSource["status"]} */
  async status(reference, issuer, now) {
    const found = await this.list(reference.uri, issuer, now);
    if (found instanceof Refused) throw new Refused("status.unavailable", "status-list", found.message);
    const value = found.status(reference.index);
    if (value === null) throw new Refused("status.unavailable", "status-list", "The list has no such entry.");
    return value;
  }

  /**
   * @param {string} uri
   * @param {string} issuer
   * @param {number} now
   */
  list(uri, issuer, now) {
    const name = JSON.stringify([issuer, uri]);
    const known = this.kept.get(name);
    if (known && known.from <= now && now < known.until) return known.found;
    this.kept.delete(name);
    while (this.kept.size >= MOST_LISTS) this.kept.delete(/** @type {string} */ (this.kept.keys().next().value));
    const entry = { from: now, until: now + PAUSE, found: this.bring(uri, issuer, now).catch(refusalOf) };
    this.kept.set(name, entry);
    entry.found = entry.found.then((found) => {
      if (found instanceof Refused) return found;
      entry.until = Math.min(now + Math.min(found.ttl ?? DEFAULT_TTL, MOST_TTL), found.expiresAt ?? Infinity, this.issuers.expiresAt ?? Infinity);
      return found;
    });
    return entry.found;
  }

  /**
   * @param {string} uri
   * @param {string} issuer
   * @param {number} now
   */
  async bring(uri, issuer, now) {
    this.issuers.checkCurrent(now);
    this.issuers.checkHasStatusKeys(issuer);
    const text = await readAll(this.fetcher, uri, DATA.status_media_type, 2 * this.limits.status_list_bytes);
    const { header } = parseStatusListToken(text, this.limits);
    const key = await this.issuers.statusKeyFor(issuer, header, now);
    return verifyStatusListToken(text, uri, key, now, { limits: this.limits, clockSkew: DATA.max_skew });
  }
}

/**
 * The text at a URL, in ASCII or with replacement characters, and at most `most` bytes.
 * @param {typeof fetch} fetcher
 * @param {string} url
 * @param {string} type
 * @param {number} most
 */
async function readAll(fetcher, url, type, most) {
  if (!mayHaveSecrets(url)) throw new Refused("status.unavailable", "status-list", "The list is not at an https URL.");
  try {
    const response = await fetcher(url, { headers: { accept: type }, redirect: "manual", credentials: "omit", signal: AbortSignal.timeout(10_000) });
    if (response.status !== 200 || !response.body) throw new Error();
    const reader = response.body.getReader();
    let text = "";
    const decoder = new TextDecoder("latin1");
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text;
      text += decoder.decode(value, { stream: true });
      if (text.length > most) {
        await reader.cancel();
        throw new Error();
      }
    }
  } catch {
    throw new Refused("status.unavailable", "status-list", "The list cannot be fetched.");
  }
}
