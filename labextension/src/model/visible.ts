/** Makes characters visible that could disguise a text, as the gateway does (render/text.py). */

/** Characters that reorder, hide, overwrite or mark a direction. */
const HIDING =
  /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e007f}]/gu;

/** For a text of several lines that somebody approves: tabs stay, and every line end becomes a line feed. */
export function visibleProof(text: string): string {
  return text
    .replace(/\r\n?/g, '\n')
    .replace(HIDING, character => (/[\t\n]/.test(character) ? character : escaped(character)));
}

/** For a sentence, an argument, a name: on one line. */
export function visibleLabel(text: string): string {
  return text
    .replace(/[ \t\r\n]+/g, ' ')
    .replace(/^ | $/g, '') // not by trim, which removes characters to be shown
    .replace(HIDING, escaped);
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`;
}
