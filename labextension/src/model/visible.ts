/** Characters that could disguise the text around them, made visible: as the gateway does (render/text.py). */

/** What reorders, hides or overwrites, and what only hides or marks a direction. */
const HIDING =
  /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** A text of several lines that somebody says yes to: tabs and line ends stay; whatever ended them, a line feed does. */
export function visibleProof(text: string): string {
  return text
    .replace(/\r\n?/g, '\n')
    .replace(HIDING, character => (/[\t\n]/.test(character) ? character : escaped(character)));
}

/** A sentence, an argument, a name: on one line. */
export function visibleLabel(text: string): string {
  return text
    .replace(/[ \t\r\n]+/g, ' ')
    .replace(/^ | $/g, '') // not by trim, which takes what is to be shown
    .replace(HIDING, escaped);
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`;
}
