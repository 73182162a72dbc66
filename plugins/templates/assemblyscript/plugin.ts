// The plugin: each exported function is a tool. A call gets an instance of its own, so nothing is kept in variables.

import { Json } from "./sdk/json";
import { httpGet, input, output } from "./sdk/ozzie";
import { beginning } from "./sdk/text";

const QUERY: string = "action=query&prop=extracts&exintro=1&explaintext=1&redirects=1&format=json&formatversion=2";

export function look_up(): i32 {
  const args = input();
  const title = args.get("title").str();
  const most = args.get("max_chars").int(1000);
  // The words of an error reach the model: say what to do instead.
  if (title.length == 0) throw new Error("The title is empty: say what to look up.");
  if (most < 1 || most > 5000) throw new Error("max_chars is between 1 and 5000.");

  const response = httpGet(`https://en.wikipedia.org/w/api.php?${QUERY}&titles=${encodeURIComponent(title)}`);
  if (!response.isOk) throw new Error(`Wikipedia answers HTTP ${response.status}. Try again later.`);
  const pages = response.json().get("query").get("pages").list();
  if (pages.length == 0 || pages[0].get("missing").bool()) {
    throw new Error("Wikipedia has no article with this title. Try other words.");
  }
  return output(
    Json.object()
      .set("title", pages[0].get("title"))
      .set("text", Json.text(beginning(pages[0].get("extract").str(), <i32>most)))
  );
}
