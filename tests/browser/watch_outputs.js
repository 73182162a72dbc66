// Looks at all that ever stands in an output of a cell, however briefly, and keeps what should never be there.
(() => {
  const OUTPUT = '.jp-OutputArea-output';
  const ELEMENTS = new Set(
    'script iframe frame object embed applet form input button meta base link img image picture video audio source track use foreignobject animate set marquee'
      .split(' ')
  );
  const ADDRESSES = 'href src srcset action formaction data poster background ping xlink:href'.split(' ');
  const found = new Set();
  const turns = new Set();
  let parts = 0;

  const safe = value => {
    const address = new URL(value, location.href);
    return ['http:', 'https:', 'mailto:'].includes(address.protocol);
  };

  const look = element => {
    const name = element.localName.toLowerCase();
    if (ELEMENTS.has(name)) found.add(`<${name}>`);
    if (name === 'style' && /url\(|@import/i.test(element.textContent)) found.add('<style> that loads');
    for (const { name: attribute, value } of element.attributes) {
      if (attribute.startsWith('on') || attribute === 'srcdoc') found.add(`${attribute} of <${name}>`);
      if (attribute === 'style' && /url\(/i.test(value)) found.add(`style of <${name}> that loads`);
      if (ADDRESSES.includes(attribute) && !safe(value)) found.add(`${attribute}=${value}`);
    }
  };

  new MutationObserver(records => {
    const roots = new Set();
    for (const { target } of records) {
      const element = target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement;
      const root = element?.closest(OUTPUT);
      if (root) roots.add(root);
      else element?.querySelectorAll(OUTPUT).forEach(output => roots.add(output));
    }
    for (const root of roots) {
      root.querySelectorAll('*').forEach(look);
      root.querySelectorAll('.oz').forEach(turn => {
        const texts = turn.querySelectorAll('.oz-md').length;
        if (texts) turns.add(root.closest('.jp-Cell'));
        parts = Math.max(parts, texts);
      });
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });

  // `turns`: how many cells showed text of a live turn. `parts`: the texts of the one that showed most.
  window.watched = () => ({ found: [...found].sort(), turns: turns.size, parts });
})();
