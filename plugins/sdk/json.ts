// JSON, read and written. A number keeps the digits that it was written with, so that none gets lost on the way through.

import { Builder } from "./text";

export enum Kind { Null, Bool, Number, Text, List, Object }

/** How deep lists and objects may be nested. */
const MAX_DEPTH: i32 = 64;

/** Up to here, a number with a fraction can tell whole numbers apart. */
const MAX_EXACT: f64 = 9007199254740992.0;

export class Json {
  /** Of a text, the text; of a number, its digits; else empty. */
  private content: string = "";
  private truth: bool = false;
  private items: Json[] | null = null;
  private members: Map<string, Json> | null = null;

  constructor(public readonly kind: Kind = Kind.Null) {}

  static text(value: string): Json {
    const made = new Json(Kind.Text);
    made.content = value;
    return made;
  }

  static int(value: i64): Json {
    return Json.digits(value.toString());
  }

  /** A number with a fraction. JSON has no infinity and no NaN: these become null. */
  static float(value: f64): Json {
    return isFinite(value) ? Json.digits(value.toString()) : new Json();
  }

  static bool(value: bool): Json {
    const made = new Json(Kind.Bool);
    made.truth = value;
    return made;
  }

  static list(): Json {
    const made = new Json(Kind.List);
    made.items = [];
    return made;
  }

  static object(): Json {
    const made = new Json(Kind.Object);
    made.members = new Map<string, Json>();
    return made;
  }

  /** A number by its digits, which have to be JSON. */
  static digits(written: string): Json {
    const made = new Json(Kind.Number);
    made.content = written;
    return made;
  }

  /** Read a document. Null if it is no JSON, or nested more than 64 deep. */
  static read(document: string): Json | null {
    return new Reader(document).document();
  }

  get isNull(): bool { return this.kind == Kind.Null; }

  /** The member with this name, or null (the JSON value) if there is none, and for anything but an object. */
  get(name: string): Json {
    const members = this.members;
    return members !== null && members.has(name) ? members.get(name) : new Json();
  }

  has(name: string): bool {
    const members = this.members;
    return members !== null && members.has(name);
  }

  /** The names of an object's members, in their order. */
  names(): string[] {
    const members = this.members;
    return members !== null ? members.keys() : [];
  }

  /** The items of a list; none for anything else. */
  list(): Json[] {
    const items = this.items;
    return items !== null ? items : [];
  }

  str(otherwise: string = ""): string {
    return this.kind == Kind.Text ? this.content : otherwise;
  }

  bool(otherwise: bool = false): bool {
    return this.kind == Kind.Bool ? this.truth : otherwise;
  }

  /** A number: exact with up to 15 digits and 22 places, else right to 15 digits. */
  float(otherwise: f64 = NaN): f64 {
    return this.kind == Kind.Number ? valueOf(this.content) : otherwise;
  }

  /** A whole number, also if it is written as 5.0 or 5e3; `otherwise` for a fraction and for one beyond 64 bits. */
  int(otherwise: i64 = 0): i64 {
    if (this.kind != Kind.Number) return otherwise;
    const exact = I64.parseInt(this.content);
    if (exact.toString() == this.content) return exact;
    const value = valueOf(this.content);
    return Math.abs(value) <= MAX_EXACT && Math.trunc(value) == value ? <i64>value : otherwise;
  }

  set(name: string, value: Json): Json {
    this.members!.set(name, value);
    return this;
  }

  push(value: Json): Json {
    this.items!.push(value);
    return this;
  }

  /** Write it, without spaces. */
  toString(): string {
    const out = new Builder();
    this.write(out);
    return out.toString();
  }

  private write(out: Builder): void {
    switch (this.kind) {
      case Kind.Null: out.add("null"); break;
      case Kind.Bool: out.add(this.truth ? "true" : "false"); break;
      case Kind.Number: out.add(this.content); break;
      case Kind.Text: writeText(this.content, out); break;
      case Kind.List: {
        const items = this.items!;
        out.unit(0x5b); // [
        for (let i = 0; i < items.length; i++) {
          if (i > 0) out.unit(0x2c); // ,
          items[i].write(out);
        }
        out.unit(0x5d); // ]
        break;
      }
      case Kind.Object: {
        const names = this.members!.keys();
        out.unit(0x7b); // {
        for (let i = 0; i < names.length; i++) {
          if (i > 0) out.unit(0x2c); // ,
          writeText(names[i], out);
          out.unit(0x3a); // :
          this.members!.get(names[i]).write(out);
        }
        out.unit(0x7d); // }
        break;
      }
    }
  }
}

/** Up to here, powers of ten are exact. */
const POWERS: f64[] = [
  1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
  1e21, 1e22,
];

/** The value of a number in JSON. (parseFloat of AssemblyScript 0.28 reads 1.2109321954233146e+39 as e+38.) */
function valueOf(written: string): f64 {
  let digits: u64 = 0;
  let exponent = 0;
  let at = written.startsWith("-") ? 1 : 0;
  let isFraction = false;
  for (; at < written.length; at++) {
    const unit = written.charCodeAt(at);
    if (unit == 0x2e) { // .
      isFraction = true;
      continue;
    }
    if (!isDigit(unit)) break;
    const fits = digits < 100_000_000_000_000_000; // 10^17: with one more digit, it is still exact
    if (fits) digits = digits * 10 + (unit - 0x30);
    if (fits == isFraction) exponent += fits ? -1 : 1;
  }
  let power = 0;
  const isSmall = written.charCodeAt(at + 1) == 0x2d; // e-
  for (at++; at < written.length; at++) {
    if (isDigit(written.charCodeAt(at))) power = min(power * 10 + written.charCodeAt(at) - 0x30, 1_000_000);
  }
  exponent += isSmall ? -power : power;
  let value = <f64>digits;
  for (; exponent > 22 && value < Infinity && value > 0; exponent -= 22) value *= 1e22;
  for (; exponent < -22 && value > 0; exponent += 22) value /= 1e22;
  if (value > 0) value = exponent >= 0 ? value * POWERS[min(exponent, 22)] : value / POWERS[min(-exponent, 22)];
  return written.startsWith("-") ? -value : value;
}

function isDigit(unit: i32): bool { return unit >= 0x30 && unit <= 0x39; }

function writeText(text: string, out: Builder): void {
  out.unit(0x22); // "
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit == 0x22 || unit == 0x5c) {
      out.unit(0x5c);
      out.unit(unit);
    } else if (unit == 0x0a) {
      out.add("\\n");
    } else if (unit < 0x20) {
      out.add("\\u00");
      out.unit(hexDigit(unit >> 4));
      out.unit(hexDigit(unit & 15));
    } else {
      out.unit(unit);
    }
  }
  out.unit(0x22);
}

function hexDigit(value: i32): i32 { return value < 10 ? 0x30 + value : 0x57 + value; }

/** Reads one document. A method that returns null has met what is no JSON. */
class Reader {
  private at: i32 = 0;

  constructor(private readonly source: string) {}

  document(): Json | null {
    const value = this.value(0);
    this.space();
    return this.at == this.source.length ? value : null;
  }

  /** The next unit, or -1 at the end. */
  private peek(): i32 {
    return this.at < this.source.length ? this.source.charCodeAt(this.at) : -1;
  }

  private space(): void {
    let unit = this.peek();
    while (unit == 0x20 || unit == 0x0a || unit == 0x0d || unit == 0x09) {
      this.at++;
      unit = this.peek();
    }
  }

  /** Whether the next unit was this one, which is then behind us. */
  private skips(unit: i32): bool {
    if (this.peek() != unit) return false;
    this.at++;
    return true;
  }

  private word(word: string, value: Json): Json | null {
    if (!this.source.startsWith(word, this.at)) return null;
    this.at += word.length;
    return value;
  }

  private value(depth: i32): Json | null {
    this.space();
    switch (this.peek()) {
      case 0x6e: return this.word("null", new Json());
      case 0x74: return this.word("true", Json.bool(true));
      case 0x66: return this.word("false", Json.bool(false));
      case 0x22: {
        const text = this.text();
        return text === null ? null : Json.text(text);
      }
      case 0x5b: return depth == MAX_DEPTH ? null : this.list(depth + 1);
      case 0x7b: return depth == MAX_DEPTH ? null : this.object(depth + 1);
      default: return this.number();
    }
  }

  private list(depth: i32): Json | null {
    const made = Json.list();
    this.at++;
    this.space();
    if (this.skips(0x5d)) return made;
    while (true) {
      const item = this.value(depth);
      if (item === null) return null;
      made.push(item);
      this.space();
      if (this.skips(0x5d)) return made;
      if (!this.skips(0x2c)) return null;
    }
  }

  private object(depth: i32): Json | null {
    const made = Json.object();
    this.at++;
    this.space();
    if (this.skips(0x7d)) return made;
    while (true) {
      this.space();
      const name = this.text();
      if (name === null) return null;
      this.space();
      if (!this.skips(0x3a)) return null;
      const member = this.value(depth);
      if (member === null) return null;
      made.set(name, member);
      this.space();
      if (this.skips(0x7d)) return made;
      if (!this.skips(0x2c)) return null;
    }
  }

  private number(): Json | null {
    const start = this.at;
    this.skips(0x2d); // -
    if (!this.skips(0x30) && !this.digits()) return null;
    if (this.skips(0x2e) && !this.digits()) return null; // .
    if (this.skips(0x65) || this.skips(0x45)) { // e E
      if (!this.skips(0x2b)) this.skips(0x2d); // + -
      if (!this.digits()) return null;
    }
    return Json.digits(this.source.substring(start, this.at));
  }

  private digits(): bool {
    const start = this.at;
    while (isDigit(this.peek())) this.at++;
    return this.at > start;
  }

  private text(): string | null {
    if (!this.skips(0x22)) return null;
    const start = this.at;
    let unit = this.peek();
    while (unit >= 0x20 && unit != 0x22 && unit != 0x5c) {
      this.at++;
      unit = this.peek();
    }
    const plain = this.source.substring(start, this.at);
    if (this.skips(0x22)) return plain;
    const out = new Builder();
    out.add(plain);
    while (true) {
      unit = this.peek();
      if (unit < 0x20) return null; // a control character, or the end
      this.at++;
      if (unit == 0x22) return out.toString();
      if (unit == 0x5c) unit = this.escaped();
      if (unit < 0) return null;
      out.unit(unit);
    }
  }

  /** The unit behind a backslash, or -1. */
  private escaped(): i32 {
    const unit = this.peek();
    this.at++;
    switch (unit) {
      case 0x22: case 0x5c: case 0x2f: return unit;
      case 0x62: return 0x08;
      case 0x66: return 0x0c;
      case 0x6e: return 0x0a;
      case 0x72: return 0x0d;
      case 0x74: return 0x09;
      case 0x75: return this.hex();
      default: return -1;
    }
  }

  private hex(): i32 {
    if (this.at + 4 > this.source.length) return -1;
    let value = 0;
    for (let i = 0; i < 4; i++) {
      const unit = this.source.charCodeAt(this.at++);
      const lower = unit | 0x20;
      if (isDigit(unit)) value = value * 16 + unit - 0x30;
      else if (lower >= 0x61 && lower <= 0x66) value = value * 16 + lower - 0x57;
      else return -1;
    }
    return value;
  }
}
