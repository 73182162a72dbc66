// Posts a text to the address in the secret WEBHOOK_URL, in the form that its service takes.

import { Json } from "../sdk/json";
import { getSecret, httpSend, input, output } from "../sdk/ozzie";
import { beginning, oneLine } from "../sdk/text";
import { hostOf, pathOf } from "../sdk/url";

/** The host puts the secret in its place. */
const ADDRESS: string = "${secret:WEBHOOK_URL}";

class Service {
  constructor(readonly name: string, readonly most: i32) {}
}

export function notify(): i32 {
  const text = input().get("text").str();
  if (text.trim().length == 0) throw new Error("The text is empty: say what to send.");
  const address = getSecret("WEBHOOK_URL");
  const service = serviceAt(address);
  if (text.length > service.most) {
    throw new Error(`${service.name} takes at most ${service.most} characters, and the text has ${text.length}: shorten it.`);
  }

  const isNtfy = service.name == "ntfy";
  const body = isNtfy ? ntfy(text, address) : message(service.name, text);
  const headers = Json.object().set("Content-Type", Json.text("application/json"));
  const response = httpSend("POST", isNtfy ? "https://ntfy.sh/" : ADDRESS, body.toString(), headers);
  if (!response.isOk) throw new Error(refusal(service.name, response.status, response.body));
  return output(Json.object().set("sent", Json.bool(true)).set("service", Json.text(service.name)));
}

/** The service that has this address, with the characters that it takes. */
function serviceAt(address: string): Service {
  const isWhole = address.startsWith("https://") && address.trim() == address; // the host sends it as it is stored
  const host = isWhole ? hostOf(address) : "";
  if (host == "hooks.slack.com") return new Service("Slack", 40_000);
  if (host == "discord.com" || host == "discordapp.com") return new Service("Discord", 2_000);
  if (host == "chat.googleapis.com") return new Service("Google Chat", 4_096);
  if (host == "ntfy.sh") return new Service("ntfy", 4_096);
  if (host.endsWith(".logic.azure.com") || host.endsWith(".api.powerplatform.com")) return new Service("Teams", 20_000);
  throw new Error(
    "The secret WEBHOOK_URL is no https:// address of Slack, Discord, Teams workflows, Google Chat or ntfy.sh. "
    + "Ask the user to store the right one."
  );
}

function message(service: string, text: string): Json {
  if (service == "Discord") {
    // Without this, @everyone in a text would ring for all.
    return Json.object()
      .set("content", Json.text(text))
      .set("allowed_mentions", Json.object().set("parse", Json.list()));
  }
  if (service == "Teams") return teams(text);
  // Slack and Google Chat. In both, <…> is a link or a mention, as <!channel>; these signs keep a text a text in Slack.
  const isSlack = service == "Slack";
  const plain = isSlack ? text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;") : text;
  return Json.object().set("text", Json.text(plain));
}

/** An adaptive card, which is what a workflow that waits for a webhook takes. */
function teams(text: string): Json {
  const block = Json.object()
    .set("type", Json.text("TextBlock"))
    .set("text", Json.text(text))
    .set("wrap", Json.bool(true));
  const card = Json.object()
    .set("$schema", Json.text("http://adaptivecards.io/schemas/adaptive-card.json"))
    .set("type", Json.text("AdaptiveCard"))
    .set("version", Json.text("1.4"))
    .set("body", Json.list().push(block));
  const attachment = Json.object()
    .set("contentType", Json.text("application/vnd.microsoft.card.adaptive"))
    .set("content", card);
  return Json.object().set("type", Json.text("message")).set("attachments", Json.list().push(attachment));
}

/** ntfy takes JSON at its root, with the topic in it. */
function ntfy(text: string, address: string): Json {
  const topic = pathOf(address).substring(1);
  if (topic.length == 0 || topic.includes("/")) {
    throw new Error("The secret WEBHOOK_URL names no topic of ntfy: it is https://ntfy.sh/ and the topic.");
  }
  if (String.UTF8.byteLength(text) > 4_096) throw new Error("ntfy takes at most 4,096 bytes: shorten the text.");
  return Json.object().set("topic", Json.text(topic)).set("message", Json.text(text));
}

function refusal(service: string, status: i32, body: string): string {
  const hint = status == 429 ? " Too many messages: try again later."
    : status == 404 || status == 410 ? " Its webhook is gone: ask the user for a new one."
    : "";
  const said = beginning(oneLine(body), 200);
  return `${service} refused it with HTTP ${status}.${hint}${said.length > 0 ? " It says: " + said : ""}`;
}
