"""The style of a live turn: Lab's own variables, so that it follows any theme; everything scoped below `.oz`.

The text of a reply takes Lab's own Markdown style; what `:where` gives counts only where there is none. The widget's
own margin is taken back, or the text would jump aside when the static form replaces it.
"""

STYLE = (
    "<style>"
    + " ".join(
        line.strip()
        for line in """
.oz { --oz-run: var(--jp-brand-color1, #1976d2); --oz-ok: var(--jp-success-color1, #388e3c);
  --oz-ask: var(--jp-warn-color0, #e65100); --oz-bad: var(--jp-error-color1, #d32f2f);
  --oz-idle: var(--jp-ui-font-color2, #757575); container-type: inline-size; padding: 0 0 2px;
  margin: 0 calc(-1 * var(--jp-widgets-margin, 0px));
  font: 13px/20px var(--jp-ui-font-family, system-ui, sans-serif); color: var(--jp-ui-font-color1, inherit);
  white-space: normal; }
.oz * { box-sizing: border-box; }
.oz .oz-i { width: 16px; height: 16px; flex: none; display: block; fill: none; stroke: currentColor; stroke-width: 1.5;
  stroke-linecap: round; stroke-linejoin: round; }
.oz .oz-run { color: var(--oz-run); }
.oz .oz-ok { color: var(--oz-ok); }
.oz .oz-ask { color: var(--oz-ask); }
.oz .oz-bad { color: var(--oz-bad); }
.oz .oz-idle { color: var(--oz-idle); }
@keyframes oz-turn { to { transform: rotate(360deg); } }
.oz .oz-spin { animation: oz-turn 1.2s linear infinite; transform-origin: 50% 50%; }
@media (prefers-reduced-motion: reduce) { .oz .oz-spin { animation: none; } }
.oz .oz-grow { flex: 1 1 auto; min-width: 0; }
.oz .oz-cut { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-width: 0; }
.oz .oz-status { display: flex; align-items: center; gap: 6px; height: 28px; margin: 0 0 2px; white-space: nowrap;
  overflow: hidden; }
.oz .oz-status b { font-weight: 600; }
.oz .oz-meta { color: var(--jp-ui-font-color2, inherit); font-size: 12px; font-variant-numeric: tabular-nums;
  display: flex; align-items: center; margin-left: 4px; }
.oz .oz-meta > * + *::before { content: "·"; margin: 0 6px; color: var(--jp-ui-font-color3, inherit); }
.oz .oz-work { margin: 4px 0 10px; border-left: 1px solid var(--jp-border-color1, #bdbdbd); padding-left: 8px; }
.oz .oz-row { display: flex; align-items: center; gap: 6px; height: 24px; padding: 0 6px 0 2px; white-space: nowrap;
  border-radius: var(--jp-border-radius, 2px); }
.oz .oz-tool, .oz .oz-arg, .oz .oz-err code { font-family: var(--jp-code-font-family, monospace); font-size: 12px; }
.oz .oz-arg, .oz .oz-res, .oz .oz-dur, .oz .oz-mut { color: var(--jp-ui-font-color2, inherit); }
.oz .oz-tool { flex: none; }
.oz .oz-arg { flex: 0 1 auto; }
.oz .oz-res { font-size: 12px; flex: 0 1 auto; }
.oz .oz-dur { font-size: 12px; font-variant-numeric: tabular-nums; min-width: 46px; text-align: right; flex: none; }
.oz .oz-tag { font-size: 11px; line-height: 16px; padding: 0 5px; flex: none; border-radius: 2px;
  border: 1px solid var(--jp-border-color1, #bdbdbd); color: var(--jp-ui-font-color2, inherit); }
.oz .oz-md { font: var(--jp-content-font-size1, 14px)/var(--jp-content-line-height, 1.6)
  var(--jp-content-font-family, system-ui, sans-serif); color: var(--jp-content-font-color1, inherit);
  overflow-wrap: anywhere; padding-right: 0; }
:where(.oz-md) p, :where(.oz-md) ul, :where(.oz-md) ol { margin: 0 0 10px; }
:where(.oz-md) table { border-collapse: collapse; font-size: 13px; line-height: 18px; margin: 0 0 12px; }
:where(.oz-md) th, :where(.oz-md) td { padding: 5px 12px; text-align: left; }
:where(.oz-md) thead { border-bottom: 1px solid var(--jp-border-color1, #bdbdbd); }
:where(.oz-md) tbody tr:nth-child(odd) { background: var(--jp-rendermime-table-row-background, transparent); }
:where(.oz-md) code { font-family: var(--jp-code-font-family, monospace); font-size: 13px; }
.oz .oz-md table { margin-inline: 0 auto; }
.oz .oz-md > :first-child { margin-top: 0; }
.oz .oz-md pre { white-space: pre-wrap; }
.oz .oz-md .oz-right { text-align: right; }
.oz .oz-md .oz-center { text-align: center; }
.oz .oz-md a { color: var(--jp-content-link-color, #0d47a1); }
.oz .oz-caret { display: inline-block; width: 7px; height: 15px; background: var(--jp-ui-font-color2, currentColor);
  vertical-align: -2px; margin-left: 2px; }
.oz .oz-closing, .oz .oz-note, .oz .oz-do { color: var(--jp-ui-font-color2, inherit); margin: 4px 0; }
.oz .oz-ask-card { border-left: 3px solid var(--oz-ask); margin: 4px 0 8px; padding: 2px 0 2px 10px; }
.oz .oz-kick { display: flex; align-items: center; gap: 6px; font-size: 12px;
  color: var(--jp-ui-font-color2, inherit); }
.oz .oz-kick b { font-size: 12px; }
.oz .oz-ask-card .oz-say { font-size: 15px; font-weight: 600; }
.oz .oz-out { margin: 0 0 4px 24px; }
.oz .oz-out pre { margin: 0; padding: 2px 8px; overflow: auto; max-height: 220px; white-space: pre;
  border-left: 1px solid var(--jp-border-color2, #ccc); font-family: var(--jp-code-font-family, monospace);
  font-size: 12px; line-height: 17px; background: transparent; color: var(--jp-ui-font-color2, inherit); }
.oz .oz-ask-card .oz-proof { margin: 4px 0; padding: 4px 8px; overflow: auto; max-height: 420px; white-space: pre-wrap;
  overflow-wrap: anywhere; background: var(--jp-layout-color2, transparent);
  font: 12px/17px var(--jp-code-font-family, monospace); }
.oz .oz-line { display: block; }
.oz .oz-plus { background: rgba(56, 142, 60, .14); }
.oz .oz-minus { background: rgba(211, 47, 47, .12); }
.oz .oz-ask-card p { margin: 0 0 4px; }
.oz .oz-ask-card b { font-size: 15px; font-weight: 600; }
.oz .oz-ask-card ul { margin: 0; padding-left: 20px; }
.oz .oz-ask-card code { font-family: var(--jp-code-font-family, monospace); font-size: 12px; }
.oz .oz-err { margin: 4px 0 8px; }
.oz .oz-err p { margin: 0; }
.oz .oz-err b { font-weight: 600; }
@container (max-width: 460px) { .oz .oz-tok { display: none; } .oz .oz-tag { display: none; } }
@container (max-width: 380px) { .oz .oz-cost { display: none; } .oz .oz-res { display: none; } }
@container (max-width: 300px) { .oz .oz-t { display: none; } .oz .oz-t + *::before { display: none; } }
@media (forced-colors: active) { .oz .oz-caret { background: CanvasText; } }
""".splitlines()
    )
    + "</style>"
)
