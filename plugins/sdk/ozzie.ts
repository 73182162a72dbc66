// What a plugin gets from Ozzie and gives to it. Each function fails in words if the host refuses.

import { Json } from "./json";

// Extism's memory, which plugin and host share. Texts in it are UTF-8.
@external("extism:host/env", "input_length") declare function inputLength(): u64;
@external("extism:host/env", "input_load_u8") declare function inputLoad8(at: u64): u32;
@external("extism:host/env", "input_load_u64") declare function inputLoad64(at: u64): u64;
@external("extism:host/env", "alloc") declare function alloc(size: u64): u64;
@external("extism:host/env", "free") declare function free(offset: u64): void;
@external("extism:host/env", "length") declare function lengthOf(offset: u64): u64;
@external("extism:host/env", "load_u8") declare function load8(offset: u64): u32;
@external("extism:host/env", "load_u64") declare function load64(offset: u64): u64;
@external("extism:host/env", "store_u8") declare function store8(offset: u64, value: u32): void;
@external("extism:host/env", "store_u64") declare function store64(offset: u64, value: u64): void;
@external("extism:host/env", "output_set") declare function outputSet(offset: u64, size: u64): void;
@external("extism:host/env", "error_set") declare function errorSet(offset: u64): void;

// Ozzie's functions: each takes and returns such texts.
@external("extism:host/user", "http_request") declare function hostHttpRequest(url: u64, method: u64, body: u64): u64;
@external("extism:host/user", "http_send") declare function hostHttpSend(request: u64): u64;
@external("extism:host/user", "kv_get") declare function hostKvGet(key: u64): u64;
@external("extism:host/user", "kv_set") declare function hostKvSet(key: u64, value: u64): u64;
@external("extism:host/user", "log") declare function hostLog(level: u64, message: u64): u64;
@external("extism:host/user", "get_secret") declare function hostGetSecret(name: u64): u64;
@external("extism:host/user", "get_env") declare function hostGetEnv(name: u64): u64;
@external("extism:host/user", "get_config") declare function hostGetConfig(name: u64): u64;
@external("extism:host/user", "file_read") declare function hostFileRead(path: u64): u64;
@external("extism:host/user", "file_write") declare function hostFileWrite(path: u64, text: u64): u64;

/** The arguments of the call, checked against the manifest, with defaults filled in. */
export function input(): Json {
  const size = <i32>inputLength();
  const bytes = new Uint8Array(size);
  const place = bytes.dataStart;
  let i = 0;
  for (; i + 8 <= size; i += 8) store<u64>(place + i, inputLoad64(i));
  for (; i < size; i++) store<u8>(place + i, inputLoad8(i));
  const read = Json.read(String.UTF8.decodeUnsafe(place, size));
  if (read === null) throw new Error("The arguments are no JSON.");
  return read;
}

/** Give the result of the call. Return it from the tool: `return output(result)`. */
export function output(result: Json): i32 {
  const offset = shared(result.toString());
  outputSet(offset, lengthOf(offset));
  return 0;
}

/** End the call as a failure. The words reach the model: say what to do instead. `throw new Error(words)` does the same. */
export function fail(words: string): void {
  throw new Error(words);
}

/** What AssemblyScript calls for `throw` and for its own errors, such as an index that is out of bounds. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  errorSet(shared(message !== null ? message : "The plugin failed."));
  unreachable();
}

export class Response {
  constructor(private readonly answer: Json) {}

  get status(): i32 { return <i32>this.answer.get("status").int(); }
  get body(): string { return this.answer.get("body").str(); }
  /** The body, which has to be JSON. */
  json(): Json {
    const read = Json.read(this.body);
    if (read === null) throw new Error("The answer is no JSON.");
    return read;
  }

  get isOk(): bool { return this.status >= 200 && this.status < 300; }

  /** Where a redirect leads, or empty. The host follows none: another host may be one that was not granted. */
  get location(): string {
    const isRedirect = this.status >= 300 && this.status < 400;
    return isRedirect ? this.header("location") : "";
  }

  /** A header by its name in small letters, or empty. */
  header(name: string): string { return this.answer.get("headers").get(name).str(); }
}

export function httpGet(url: string): Response {
  return new Response(ok(hostHttpRequest(shared(url), shared("GET"), shared(""))));
}

/** Send a request. In url, headers and body, the host puts a secret in place of `${secret:NAME}`. */
export function httpSend(method: string, url: string, body: string, headers: Json = Json.object()): Response {
  const request = Json.object()
    .set("method", Json.text(method))
    .set("url", Json.text(url))
    .set("headers", headers)
    .set("body", Json.text(body));
  return new Response(ok(hostHttpSend(shared(request.toString()))));
}

/** A note of this plugin, or empty. */
export function kvGet(key: string): string {
  return ok(hostKvGet(shared(key))).str();
}

/** Keep a note until a later call. An empty text removes it. */
export function kvSet(key: string, value: string): void {
  ok(hostKvSet(shared(key), shared(value)));
}

/** Write a line into Ozzie's log. `level` is debug, info, warning or error. */
export function log(level: string, message: string): void {
  ok(hostLog(shared(level), shared(message)));
}

/** A secret. A request does not need it: see `httpSend`. */
export function getSecret(name: string): string {
  return ok(hostGetSecret(shared(name))).str();
}

export function getEnv(name: string): string {
  return ok(hostGetEnv(shared(name))).str();
}

export function getConfig(name: string): Json {
  return ok(hostGetConfig(shared(name)));
}

/** A file of the project, by its path in it. */
export function fileRead(path: string): string {
  return ok(hostFileRead(shared(path))).str();
}

export function fileWrite(path: string, text: string): void {
  ok(hostFileWrite(shared(path), shared(text)));
}

/** Read what a host function returned: `{"ok": value}`, or `{"error": words}`, which ends the call. */
function ok(offset: u64): Json {
  const size = offset == 0 ? 0 : <i32>lengthOf(offset);
  const bytes = new Uint8Array(size);
  const place = bytes.dataStart;
  let i = 0;
  for (; i + 8 <= size; i += 8) store<u64>(place + i, load64(offset + i));
  for (; i < size; i++) store<u8>(place + i, load8(offset + i));
  if (offset != 0) free(offset);
  const answer = Json.read(String.UTF8.decodeUnsafe(place, size));
  if (answer === null) throw new Error("The host's answer is no JSON.");
  if (!answer.has("ok")) throw new Error(answer.get("error").str("The host's answer has neither ok nor error."));
  return answer.get("ok");
}

/** Put a text into the shared memory, as UTF-8. Half of a surrogate pair becomes U+FFFD. */
function shared(text: string): u64 {
  const bytes = Uint8Array.wrap(String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE));
  const size = bytes.length;
  const place = bytes.dataStart;
  const offset = alloc(size);
  let i = 0;
  for (; i + 8 <= size; i += 8) store64(offset + i, load<u64>(place + i));
  for (; i < size; i++) store8(offset + i, load<u8>(place + i));
  return offset;
}
