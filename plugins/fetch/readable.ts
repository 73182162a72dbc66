// A page's text as a person reads it: headings, lists and paragraphs, without the scripts.

import { Html, Token } from "../sdk/html";
import { beginning, Builder, isSpace, lower, oneLine } from "../sdk/text";

export class Readable {
  constructor(readonly title: string, readonly text: string) {}
}

const MAX_TITLE: i32 = 300;

/** Left out with all that is in them. */
const SKIPPED: string[] = [
  "script", "style", "template", "noscript", "iframe", "object", "svg", "math", "canvas", "audio", "video", "select",
  "textarea", "button", "noembed", "noframes",
];

/** End tags that never come. */
const VOID: string[] = [
  "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
];

const PARAGRAPHS: string[] = [
  "p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "ul", "ol", "dl", "table", "pre",
  "blockquote", "figure", "form", "fieldset", "address", "details", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
];

const LINES: string[] = ["br", "li", "tr", "dt", "dd", "option", "summary", "figcaption", "caption"];

export function readable(html: string): Readable {
  const page = new Html(html);
  const out = new Lines();
  let title = "";
  let preformatted = 0;
  while (true) {
    const token = page.next();
    if (token == Token.End) break;
    const name = page.name;
    if (token == Token.Text) {
      out.add(page.text, preformatted > 0);
      continue;
    }
    const isOpen = token == Token.Open;
    if (isOpen && name == "title") {
      if (page.next() == Token.Text && title.length == 0) title = beginning(oneLine(page.text), MAX_TITLE);
      continue;
    }
    if (isOpen && (SKIPPED.includes(name) || (isHidden(page) && !VOID.includes(name)))) {
      skip(page, name);
      continue;
    }
    if (name == "pre") preformatted = max(0, preformatted + (isOpen ? 1 : -1));
    if (PARAGRAPHS.includes(name)) out.breakLine(2);
    else if (LINES.includes(name)) out.breakLine(1);
    else if (name == "td" || name == "th") out.add(" ", false);
    if (isOpen && name == "li") out.start("- ");
    if (isOpen && isHeading(name)) out.start("#".repeat(name.charCodeAt(1) - 0x30) + " ");
  }
  return new Readable(title, out.toString());
}

function isHeading(name: string): bool {
  return name.length == 2 && name.charCodeAt(0) == 0x68 && name.charCodeAt(1) >= 0x31 && name.charCodeAt(1) <= 0x36;
}

function isHidden(page: Html): bool {
  return page.has("hidden") || page.attribute("aria-hidden") == "true"
    || lower(page.attribute("style").replaceAll(" ", "")).includes("display:none");
}

/** Go behind the end of an element, which may hold others with its name. */
function skip(page: Html, name: string): void {
  let depth = 1;
  while (depth > 0) {
    const token = page.next();
    if (token == Token.End) return;
    if (page.name != name) continue;
    if (token == Token.Open) depth++;
    if (token == Token.Close) depth--;
  }
}

/** Puts a text together: single spaces, at most one empty line, none at the beginning. */
class Lines {
  private readonly out: Builder = new Builder();
  private breaks: i32 = 0;
  private isGap: bool = false;
  private mark: string = "";

  /** Begin a new line before the next text; with 2, leave a line empty. */
  breakLine(lines: i32): void {
    this.breaks = max(this.breaks, lines);
    this.isGap = false;
    this.mark = "";
  }

  /** Write this before the next text, if it begins a line. */
  start(mark: string): void {
    this.mark = mark;
  }

  add(text: string, isPreformatted: bool): void {
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (isPreformatted && unit == 0x0a) {
        this.breaks = min(this.breaks + 1, 2);
        this.isGap = false;
      } else if (isSpace(unit) && !isPreformatted) {
        this.isGap = true;
      } else if (unit >= 0x20 || unit == 0x09) {
        this.put(unit);
      }
    }
  }

  private put(unit: i32): void {
    const isStart = this.out.length == 0;
    if (!isStart && this.breaks > 0) this.out.add(this.breaks > 1 ? "\n\n" : "\n");
    else if (!isStart && this.isGap) this.out.unit(0x20);
    this.out.add(this.mark);
    this.out.unit(unit);
    this.breaks = 0;
    this.isGap = false;
    this.mark = "";
  }

  toString(): string { return this.out.toString(); }
}
