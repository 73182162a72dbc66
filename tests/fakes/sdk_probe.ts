// A plugin that tries the SDK of plugins/: each function takes a list and returns one, item by item.

import { decoded, Html, Token } from "./sdk/html";
import { Json } from "./sdk/json";
import {
  fileRead, fileWrite, getConfig, getEnv, getSecret, httpGet, httpSend, input, kvGet, kvSet, log, output,
} from "./sdk/ozzie";
import { beginning, oneLine } from "./sdk/text";
import { joined, unescaped } from "./sdk/url";

/** Documents, as they are written after having been read; null for what is no JSON. */
export function rewrite(): i32 {
  const documents = input().list();
  const written = Json.list();
  for (let i = 0; i < documents.length; i++) {
    const read = Json.read(documents[i].str());
    written.push(read === null ? new Json() : Json.text(read.toString()));
  }
  return output(written);
}

export function echo(): i32 { return output(input()); }

export function ints(): i32 {
  return each((value) => Json.int(value.int(-7)));
}

export function floats(): i32 {
  return each((value) => Json.float(value.float()));
}

export function entities(): i32 {
  return each((value) => Json.text(decoded(value.str())));
}

/** Pages as their tokens: a text, `<name title class>` or `</name>`. */
export function tokens(): i32 {
  return each((value) => {
    const page = new Html(value.str());
    const found = Json.list();
    while (true) {
      const token = page.next();
      if (token == Token.End) return found;
      if (token == Token.Text) found.push(Json.text(page.text));
      else if (token == Token.Close) found.push(Json.text(`</${page.name}>`));
      else found.push(Json.text(`<${page.name}|${page.attribute("title")}|${page.has("hidden")}|${page.hasClass("a")}>`));
    }
  });
}

export function unquote(): i32 {
  return each((value) => Json.text(unescaped(value.str())));
}

export function lines(): i32 {
  return each((value) => Json.text(oneLine(value.str())));
}

export function cut(): i32 {
  return each((value) => Json.text(beginning(value.get("text").str(), <i32>value.get("most").int())));
}

export function links(): i32 {
  return each((value) => Json.text(joined("https://a.example:8443/b/c?d#e", value.str())));
}

/** Keep the text, read it again, and write it into the log. */
export function keep(): i32 {
  const text = input().str();
  kvSet("klüfte", text);
  log("info", text);
  return output(Json.text(kvGet("klüfte")));
}

/** Ask the host for one of all that it has. */
export function reach(): i32 {
  fileWrite("a/ü.txt", input().str());
  const got = httpGet("https://a.example/");
  const headers = Json.object().set("X-Key", Json.text("${secret:KEY}"));
  const sent = httpSend("PUT", "https://a.example/put", "grüezi", headers);
  return output(
    Json.list()
      .push(Json.text(fileRead("a/ü.txt")))
      .push(Json.text(getEnv("LANG")))
      .push(getConfig("limits"))
      .push(Json.text(getSecret("KEY")))
      .push(got.json())
      .push(Json.text(sent.header("x-answer")))
      .push(Json.int(sent.status))
  );
}

export function fail(): i32 { throw new Error(input().str()); }

export function beyond(): i32 { return output(input().list()[3]); }

function each(turned: (value: Json) => Json): i32 {
  const values = input().list();
  const result = Json.list();
  for (let i = 0; i < values.length; i++) result.push(turned(values[i]));
  return output(result);
}
