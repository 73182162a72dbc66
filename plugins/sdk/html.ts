// HTML, read as a row of tags and texts. A page may be broken in any way; nothing here fails.

import { Builder, isSpace, lower } from "./text";

export enum Token { End, Text, Open, Close }

/** Elements whose content is no HTML, up to their end tag. */
const RAW: string[] = ["script", "style", "textarea", "title", "iframe", "noembed", "noframes", "xmp"];

/** Attributes of one tag; others are left out. */
const MAX_ATTRIBUTES: i32 = 100;

export class Html {
  /** Of a tag, its name in small letters. */
  name: string = "";
  /** Of a text, the text as a reader sees it. */
  text: string = "";
  /** What stands in a tag behind its name, and what was read of it. */
  private written: string = "";
  private attributes: Map<string, string> | null = null;
  private at: i32 = 0;
  private raw: string = "";

  constructor(private readonly source: string) {}

  /** Go to the next token. */
  next(): Token {
    while (this.at < this.source.length) {
      if (this.raw.length > 0) {
        const start = this.at;
        this.at = this.endOfRaw();
        const isCode = this.raw == "script" || this.raw == "style";
        this.raw = "";
        if (this.at > start) return this.textOf(start, this.at, isCode);
        continue;
      }
      const open = this.tagAt(this.at);
      if (open > this.at) {
        const start = this.at;
        this.at = open;
        return this.textOf(start, open, false);
      }
      const unit = this.unitAt(open + 1);
      if (unit == 0x21 || unit == 0x3f) { // <! or <?
        const isComment = this.source.startsWith("<!--", open);
        this.at = this.after(isComment ? "-->" : ">", open + 2);
        continue;
      }
      return this.tag(open, unit == 0x2f);
    }
    return Token.End;
  }

  /** An attribute of the tag as a reader sees it; empty if there is none. */
  attribute(name: string): string {
    return this.has(name) ? decoded(this.attributes!.get(name)) : "";
  }

  has(name: string): bool {
    if (this.attributes === null) this.attributes = this.read();
    return this.attributes!.has(name);
  }

  /** Whether the tag has this class. */
  hasClass(name: string): bool {
    return (" " + this.attribute("class") + " ").includes(" " + name + " ");
  }

  private textOf(start: i32, end: i32, isCode: bool): Token {
    const written = this.source.substring(start, end);
    this.text = isCode ? "" : decoded(written);
    return Token.Text;
  }

  private unitAt(at: i32): i32 {
    return at < this.source.length ? this.source.charCodeAt(at) : 0;
  }

  /** The place of the next tag, comment or declaration, or the end. */
  private tagAt(from: i32): i32 {
    let at = this.source.indexOf("<", from);
    while (at >= 0) {
      const unit = this.unitAt(at + 1);
      if (isLetter(unit) || unit == 0x21 || unit == 0x3f) return at;
      if (unit == 0x2f && isLetter(this.unitAt(at + 2))) return at;
      at = this.source.indexOf("<", at + 1);
    }
    return this.source.length;
  }

  private tag(open: i32, isEnd: bool): Token {
    let at = isEnd ? open + 2 : open + 1;
    const start = at;
    while (at < this.source.length && !isSpace(this.unitAt(at)) && this.unitAt(at) != 0x3e && this.unitAt(at) != 0x2f) at++;
    this.name = lower(this.source.substring(start, at));
    const end = this.endOfTag(at);
    this.written = this.source.substring(at, end);
    this.attributes = null;
    this.at = end + 1;
    if (isEnd) return Token.Close;
    if (RAW.includes(this.name)) this.raw = this.name;
    return Token.Open;
  }

  /** The place of a tag's `>`, which is none within quotes. */
  private endOfTag(from: i32): i32 {
    let quote = 0;
    let isValue = false;
    for (let at = from; at < this.source.length; at++) {
      const unit = this.unitAt(at);
      if (quote != 0) {
        if (unit == quote) quote = 0;
      } else if (unit == 0x3e) {
        return at;
      } else if (isValue && (unit == 0x22 || unit == 0x27)) {
        quote = unit;
      }
      if (!isSpace(unit)) isValue = unit == 0x3d; // =
    }
    return this.source.length;
  }

  private endOfRaw(): i32 {
    let at = this.source.indexOf("</", this.at);
    while (at >= 0) {
      const end = at + 2 + this.raw.length;
      if (lower(this.source.substring(at + 2, end)) == this.raw && !isLetter(this.unitAt(end))) return at;
      at = this.source.indexOf("</", at + 2);
    }
    return this.source.length;
  }

  private after(mark: string, from: i32): i32 {
    const at = this.source.indexOf(mark, from);
    return at < 0 ? this.source.length : at + mark.length;
  }

  /** The attributes by their names in small letters, as they are written. Of two with one name, the first counts. */
  private read(): Map<string, string> {
    const source = this.written;
    const found = new Map<string, string>();
    let at = 0;
    while (at < source.length && found.size < MAX_ATTRIBUTES) {
      while (at < source.length && (isSpace(source.charCodeAt(at)) || source.charCodeAt(at) == 0x2f)) at++;
      const start = at;
      while (at < source.length && !isSpace(source.charCodeAt(at)) && source.charCodeAt(at) != 0x2f
        && (source.charCodeAt(at) != 0x3d || at == start)) at++;
      const name = lower(source.substring(start, at));
      while (at < source.length && isSpace(source.charCodeAt(at))) at++;
      let value = "";
      if (at < source.length && source.charCodeAt(at) == 0x3d) {
        at++;
        while (at < source.length && isSpace(source.charCodeAt(at))) at++;
        const quote = at < source.length ? source.charCodeAt(at) : 0;
        const isQuoted = quote == 0x22 || quote == 0x27;
        const from = isQuoted ? ++at : at;
        while (at < source.length && (isQuoted ? source.charCodeAt(at) != quote : !isSpace(source.charCodeAt(at)))) at++;
        value = source.substring(from, at);
        if (isQuoted) at++;
      }
      if (name.length > 0 && !found.has(name)) found.set(name, value);
    }
    return found;
  }
}

function isLetter(unit: i32): bool {
  const lower = unit | 0x20;
  return lower >= 0x61 && lower <= 0x7a;
}

const ENTITIES: string[] = [
  "amp", "&", "lt", "<", "gt", ">", "quot", "\"", "apos", "'", "nbsp", " ", "hellip", "…", "mdash", "—", "ndash", "–",
  "lsquo", "‘", "rsquo", "’", "sbquo", "‚", "ldquo", "“", "rdquo", "”", "bdquo", "„", "laquo", "«", "raquo", "»",
  "bull", "•", "middot", "·", "times", "×", "deg", "°", "copy", "©", "reg", "®", "trade", "™", "euro", "€", "pound", "£",
  "sect", "§", "para", "¶", "larr", "←", "rarr", "→", "uarr", "↑", "darr", "↓", "auml", "ä", "ouml", "ö", "uuml", "ü",
  "Auml", "Ä", "Ouml", "Ö", "Uuml", "Ü", "szlig", "ß", "eacute", "é", "egrave", "è", "ecirc", "ê", "euml", "ë",
  "agrave", "à", "aacute", "á", "acirc", "â", "aring", "å", "aelig", "æ", "ccedil", "ç", "iacute", "í", "icirc", "î",
  "ntilde", "ñ", "oacute", "ó", "ocirc", "ô", "oslash", "ø", "uacute", "ú", "ugrave", "ù", "Eacute", "É", "shy", "",
];

/** The longest name of an entity, with its semicolon. */
const MAX_ENTITY: i32 = 10;

/** A text with characters in place of its entities, such as &amp; and &#228;. */
export function decoded(written: string): string {
  let at = written.indexOf("&");
  if (at < 0) return written;
  const out = new Builder();
  let from = 0;
  while (at >= 0) {
    out.add(written.substring(from, at));
    from = at;
    const end = written.substring(at, at + MAX_ENTITY + 1).indexOf(";");
    if (end > 1) {
      const name = written.substring(at + 1, at + end);
      const found = name.charCodeAt(0) == 0x23 ? character(name) : named(name);
      if (found !== null) {
        out.add(found);
        from = at + end + 1;
      }
    }
    at = written.indexOf("&", max(from, at + 1));
  }
  out.add(written.substring(from));
  return out.toString();
}

function named(name: string): string | null {
  for (let i = 0; i < ENTITIES.length; i += 2) {
    if (ENTITIES[i] == name) return ENTITIES[i + 1];
  }
  return null;
}

/** The character of a number such as #228 or #xe4. */
function character(written: string): string | null {
  const isHex = written.length > 1 && (written.charCodeAt(1) | 0x20) == 0x78;
  const digits = written.substring(isHex ? 2 : 1);
  if (digits.length == 0) return null;
  for (let i = 0; i < digits.length; i++) {
    const unit = digits.charCodeAt(i);
    const isHexLetter = (unit | 0x20) >= 0x61 && (unit | 0x20) <= 0x66;
    if (!(unit >= 0x30 && unit <= 0x39) && !(isHex && isHexLetter)) return null;
  }
  const code = I64.parseInt(digits, isHex ? 16 : 10);
  if (code == 0xa0) return " ";
  const isCharacter = code > 0x08 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return isCharacter ? String.fromCodePoint(<i32>code) : "\ufffd";
}
