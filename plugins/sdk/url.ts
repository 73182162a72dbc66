// Addresses, taken apart. The host decides what is allowed; this is for plugins that look at parts.

import { Builder, lower } from "./text";

/** The host of an http(s) address in small letters, without port; empty for another address, or one with a user in it. */
export function hostOf(url: string): string {
  const from = authorityAt(url);
  if (from < 0) return "";
  const authority = url.substring(from, endOf(url, from));
  const colon = authority.lastIndexOf(":");
  if (authority.includes("@")) return "";
  return lower(colon >= 0 ? authority.substring(0, colon) : authority);
}

/** The path, "/" for an empty one. */
export function pathOf(url: string): string {
  const from = authorityAt(url);
  const start = from < 0 ? 0 : endOf(url, from);
  let end = start;
  while (end < url.length && url.charCodeAt(end) != 0x3f && url.charCodeAt(end) != 0x23) end++; // ? #
  return end > start ? url.substring(start, end) : "/";
}

/** Scheme, host and port: what a path is put behind. */
export function originOf(url: string): string {
  const from = authorityAt(url);
  return from < 0 ? "" : url.substring(0, endOf(url, from));
}

/** Where a link on a page leads. */
export function joined(base: string, link: string): string {
  if (hasScheme(link)) return link;
  if (link.startsWith("//")) return base.substring(0, base.indexOf(":") + 1) + link;
  if (link.startsWith("/")) return originOf(base) + link;
  const path = pathOf(base);
  if (link.startsWith("?")) return originOf(base) + path + link;
  return originOf(base) + path.substring(0, path.lastIndexOf("/") + 1) + link;
}

/** A value of the query, decoded; empty if it is not there. */
export function queryValue(url: string, name: string): string {
  const start = url.indexOf("?");
  if (start < 0) return "";
  const end = url.indexOf("#", start);
  const pairs = url.substring(start + 1, end < 0 ? url.length : end).split("&");
  for (let i = 0; i < pairs.length; i++) {
    if (pairs[i].startsWith(name + "=")) return unescaped(pairs[i].substring(name.length + 1));
  }
  return "";
}

/** A text with bytes in place of %41. Unlike decodeURIComponent, it takes any text: wrong bytes become U+FFFD. */
export function unescaped(written: string): string {
  const bytes = Uint8Array.wrap(String.UTF8.encode(written));
  let size = 0;
  for (let i = 0; i < bytes.length; i++) {
    const isEscape = bytes[i] == 0x25 && i + 2 < bytes.length && digit(bytes[i + 1]) >= 0 && digit(bytes[i + 2]) >= 0;
    if (isEscape) {
      bytes[size++] = <u8>(digit(bytes[i + 1]) * 16 + digit(bytes[i + 2]));
      i += 2;
    } else {
      bytes[size++] = bytes[i] == 0x2b ? 0x20 : bytes[i]; // +
    }
  }
  return utf8(bytes, size);
}

/** Decode UTF-8. A wrong byte becomes U+FFFD; AssemblyScript's own function would stop there. */
function utf8(bytes: Uint8Array, size: i32): string {
  const out = new Builder();
  for (let i = 0; i < size;) {
    const first = <i32>bytes[i];
    const length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3
      : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    let code = length == 1 ? first : first & (0x7f >> length);
    let isWhole = length > 0 && i + length <= size;
    for (let k = 1; isWhole && k < length; k++) {
      if ((bytes[i + k] & 0xc0) != 0x80) isWhole = false;
      code = (code << 6) | (bytes[i + k] & 0x3f);
    }
    const isLong = (length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10ffff));
    if (!isWhole || isLong || (code & 0xfffff800) == 0xd800) {
      out.unit(0xfffd);
      i++;
    } else {
      out.add(String.fromCodePoint(code));
      i += length;
    }
  }
  return out.toString();
}

function digit(unit: i32): i32 {
  const lower = unit | 0x20;
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/** Whether a link is an address by itself, such as mailto:a@example.org. */
function hasScheme(link: string): bool {
  for (let at = 0; at < link.length; at++) {
    const unit = link.charCodeAt(at);
    if (unit == 0x3a) return at > 0; // :
    if (unit == 0x2f || unit == 0x3f || unit == 0x23) return false; // / ? #
  }
  return false;
}

/** Where the host begins, or -1 for anything but http(s). */
function authorityAt(url: string): i32 {
  const scheme = lower(url.substring(0, 8));
  return scheme == "https://" ? 8 : scheme.startsWith("http://") ? 7 : -1;
}

function endOf(url: string, from: i32): i32 {
  let end = from;
  while (end < url.length) {
    const unit = url.charCodeAt(end);
    if (unit == 0x2f || unit == 0x3f || unit == 0x23 || unit == 0x5c) break; // / ? # and \, which browsers take for /
    end++;
  }
  return end;
}
