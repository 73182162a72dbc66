// Texts: made in pieces, and cut.

/** Makes a long text of pieces: adding strings with + would copy all of it each time. */
export class Builder {
  private units: StaticArray<u16> = new StaticArray<u16>(64);
  length: i32 = 0;

  add(text: string): void {
    this.reserve(text.length);
    memory.copy(this.place(this.length), changetype<usize>(text), <usize>text.length << 1);
    this.length += text.length;
  }

  /** Add one UTF-16 unit. */
  unit(unit: i32): void {
    this.reserve(1);
    unchecked(this.units[this.length++] = <u16>unit);
  }

  toString(): string {
    return String.UTF16.decodeUnsafe(this.place(0), <usize>this.length << 1);
  }

  private place(at: i32): usize {
    return changetype<usize>(this.units) + (<usize>at << 1);
  }

  private reserve(more: i32): void {
    const needed = this.length + more;
    if (needed <= this.units.length) return;
    const larger = new StaticArray<u16>(max(needed, this.units.length * 2));
    memory.copy(changetype<usize>(larger), this.place(0), <usize>this.length << 1);
    this.units = larger;
  }
}

/** The beginning of a text: at most this many UTF-16 units, and no half of a pair at the end. */
export function beginning(text: string, most: i32): string {
  if (text.length <= most) return text;
  const isPair = most > 0 && (text.charCodeAt(most - 1) & 0xfc00) == 0xd800;
  return text.substring(0, isPair ? most - 1 : most);
}

/** A text in one line: each run of spaces and line breaks becomes one space. */
export function oneLine(text: string): string {
  const out = new Builder();
  let isGap = false;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (isSpace(unit)) {
      isGap = out.length > 0;
      continue;
    }
    if (isGap) out.unit(0x20);
    isGap = false;
    out.unit(unit);
  }
  return out.toString();
}

export function isSpace(unit: i32): bool {
  return unit == 0x20 || (unit >= 0x09 && unit <= 0x0d) || unit == 0xa0;
}

/** A text with small letters in place of A to Z; all others stay. (toLowerCase() brings tables of 10 kB.) */
export function lower(text: string): string {
  let at = 0;
  while (at < text.length && !isCapital(text.charCodeAt(at))) at++;
  if (at == text.length) return text;
  const out = new Builder();
  out.add(text.substring(0, at));
  for (; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    out.unit(isCapital(unit) ? unit + 0x20 : unit);
  }
  return out.toString();
}

function isCapital(unit: i32): bool {
  return unit >= 0x41 && unit <= 0x5a;
}
