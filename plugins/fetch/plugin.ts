// Fetches a page or a text file of the web.

import { Json } from "../sdk/json";
import { httpGet, input, output, Response } from "../sdk/ozzie";
import { beginning, lower } from "../sdk/text";
import { hostOf, joined } from "../sdk/url";
import { readable } from "./readable";

const MAX_URL: i32 = 2000;
const MAX_CHARS: i64 = 200_000;
const MAX_REDIRECTS: i32 = 3;

export function fetch(): i32 {
  const args = input();
  let url = args.get("url").str().trim();
  const most = args.get("max_chars").int(16_000);
  if (hostOf(url).length == 0 || url.length > MAX_URL) {
    throw new Error("This is no address of a page: give one with https:// or http://, without a user name.");
  }
  if (most < 100 || most > MAX_CHARS) throw new Error(`max_chars is between 100 and ${MAX_CHARS}.`);

  let response = httpGet(url);
  for (let i = 0; response.location.length > 0; i++) {
    const next = joined(url, response.location);
    if (hostOf(next) != hostOf(url)) return output(redirect(url, response.status, next));
    if (i == MAX_REDIRECTS) throw new Error(`It redirects more than ${MAX_REDIRECTS} times.`);
    url = next;
    response = httpGet(url);
  }
  if (!response.isOk) throw new Error(`The page answers HTTP ${response.status}: it was not read.`);
  return output(page(url, response, <i32>most));
}

function page(url: string, response: Response, most: i32): Json {
  const type = lower(response.header("content-type").split(";")[0].trim());
  if (!isText(type)) throw new Error(`The content is of the type ${beginning(type, 60)}: only text can be fetched.`);
  const result = Json.object()
    .set("url", Json.text(url))
    .set("status", Json.int(response.status))
    .set("type", Json.text(type));
  let text = response.body;
  if (type == "text/html" || type == "application/xhtml+xml" || (type == "" && looksLikeHtml(text))) {
    const read = readable(text);
    result.set("title", Json.text(read.title));
    text = read.text;
  }
  return result.set("text", Json.text(beginning(text, most))).set("cut", Json.bool(text.length > most));
}

function redirect(url: string, status: i32, to: string): Json {
  return Json.object()
    .set("url", Json.text(url))
    .set("status", Json.int(status))
    .set("location", Json.text(beginning(to, MAX_URL)))
    .set("note", Json.text("It redirects to another host, which was not followed. Fetch that address if you want it."));
}

function isText(type: string): bool {
  return type == "" || type.startsWith("text/") || type.endsWith("json") || type.endsWith("xml")
    || type.endsWith("javascript") || type.endsWith("yaml");
}

function looksLikeHtml(text: string): bool {
  const start = lower(text.substring(0, 500).trimStart());
  return start.startsWith("<!doctype html") || start.startsWith("<html");
}
