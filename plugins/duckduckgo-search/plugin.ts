// Searches with DuckDuckGo: its page of results, and where that can't be read, its instant answers.

import { Html, Token } from "../sdk/html";
import { Json } from "../sdk/json";
import { httpGet, input, log, output, Response } from "../sdk/ozzie";
import { beginning, oneLine } from "../sdk/text";
import { pathOf, queryValue } from "../sdk/url";

const MAX_RESULTS: i64 = 20;
const MAX_QUERY: i32 = 400;
const MAX_TITLE: i32 = 200;
const MAX_SNIPPET: i32 = 500;
const MAX_URL: i32 = 2000;

export function web_search(): i32 {
  const args = input();
  const query = args.get("query").str().trim();
  const most = args.get("max_results").int(5);
  if (query.length == 0) throw new Error("The query is empty: say what to search for.");
  if (query.length > MAX_QUERY) throw new Error(`The query has more than ${MAX_QUERY} characters: use fewer words.`);
  if (most < 1 || most > MAX_RESULTS) throw new Error(`max_results is between 1 and ${MAX_RESULTS}.`);

  const results = new Results(<i32>most);
  let source = "results";
  const problem = readPage(httpGet("https://html.duckduckgo.com/html/?q=" + encodeURIComponent(query)), results);
  if (problem.length > 0) {
    log("info", problem + " Asking for instant answers instead.");
    source = "instant answers";
    readAnswers(query, results, problem);
  }
  return output(
    Json.object()
      .set("engine", Json.text("DuckDuckGo"))
      .set("source", Json.text(source))
      .set("query", Json.text(query))
      .set("results", results.found)
  );
}

/** Collects results: each address once, up to a number. */
class Results {
  readonly found: Json = Json.list();
  private readonly seen: Set<string> = new Set<string>();

  constructor(private readonly most: i32) {}

  get isFull(): bool { return this.seen.size == this.most; }

  add(title: string, url: string, snippet: string): void {
    const isAddress = url.startsWith("https://") || url.startsWith("http://");
    const shownTitle = beginning(oneLine(title), MAX_TITLE);
    if (this.isFull || !isAddress || url.length > MAX_URL || shownTitle.length == 0 || this.seen.has(url)) return;
    this.seen.add(url);
    this.found.push(
      Json.object()
        .set("title", Json.text(shownTitle))
        .set("url", Json.text(url))
        .set("snippet", Json.text(beginning(oneLine(snippet), MAX_SNIPPET)))
    );
  }
}

/** Read the page of results. Returns the problem in words, or empty. */
function readPage(response: Response, results: Results): string {
  const status = response.status;
  if (response.location.length > 0) return "DuckDuckGo's page of results is at another address, which may not be asked.";
  if (status != 200 && status != 202) return `The page of results answers HTTP ${status}.`;
  const page = new Html(response.body);
  let isKnown = false; // has something that only a page of results has
  let isAd = false;
  let title = "", url = "", snippet = "";
  while (true) {
    const token = page.next();
    if (token == Token.End) break;
    if (token != Token.Open) continue;
    if (page.attribute("id") == "challenge-form" || page.attribute("class").includes("anomaly-modal")) {
      return "DuckDuckGo refuses for now: it wants to know whether a person is searching.";
    }
    if (page.hasClass("no-results") || page.hasClass("result--no-result")) isKnown = true;
    if (page.hasClass("result")) {
      results.add(title, url, snippet);
      title = url = snippet = "";
      isAd = page.hasClass("result--ad");
    } else if (page.hasClass("result__a") && !isAd) {
      isKnown = true;
      url = target(page.attribute("href"));
      title = textWithin(page);
    } else if (page.hasClass("result__snippet") && !isAd) {
      snippet = textWithin(page);
    }
  }
  results.add(title, url, snippet);
  if (isKnown) return "";
  return status == 202
    ? "DuckDuckGo refuses for now: it wants to know whether a person is searching."
    : "DuckDuckGo's page of results has changed and can't be read.";
}

/** The text up to the end tag of the element that was just opened. */
function textWithin(page: Html): string {
  const name = page.name;
  let text = "";
  while (text.length < 4000) {
    const token = page.next();
    if (token == Token.End || (token == Token.Close && page.name == name)) break;
    if (token == Token.Text) text += page.text;
  }
  return text;
}

/** Where a result leads, without the way through DuckDuckGo; empty for an advertisement. */
function target(link: string): string {
  const whole = link.startsWith("//") ? "https:" + link : link;
  const url = pathOf(whole) == "/l/" ? queryValue(whole, "uddg") : whole;
  return pathOf(url) == "/y.js" ? "" : url;
}

/** Read the instant answers. Fails with the first problem if there are none. */
function readAnswers(query: string, results: Results, problem: string): void {
  const options = "&format=json&no_html=1&no_redirect=1&skip_disambig=1";
  const response = httpGet("https://api.duckduckgo.com/?q=" + encodeURIComponent(query) + options);
  const answer = response.isOk ? Json.read(response.body) : null;
  if (answer === null) throw new Error(problem + " Its instant answers can't be read either. Try again in some minutes.");
  results.add(answer.get("Heading").str(), answer.get("AbstractURL").str(), answer.get("AbstractText").str());
  results.add(answer.get("Heading").str(), answer.get("DefinitionURL").str(), answer.get("Definition").str());
  addTopics(answer.get("Results"), results);
  addTopics(answer.get("RelatedTopics"), results);
  if (results.found.list().length == 0) {
    throw new Error(problem + " It has no instant answer to this. Use fewer words, or try again in some minutes.");
  }
}

/** Add topics; some lists group theirs in "Topics". */
function addTopics(topics: Json, results: Results): void {
  const all = topics.list();
  for (let i = 0; i < all.length && !results.isFull; i++) {
    const text = all[i].get("Text").str();
    const end = text.indexOf(" - ");
    results.add(end > 0 ? text.substring(0, end) : text, all[i].get("FirstURL").str(), text);
    addTopics(all[i].get("Topics"), results);
  }
}
