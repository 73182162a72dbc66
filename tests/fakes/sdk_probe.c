// A plugin that tries ozzie.h of the template in C.

#include "ozzie.h"

/** Of an object with these members: what `text` says, the number `int`, and the raw value `key` in the JSON text
 * `document`. */
TOOL(probe) {
    text given = input();
    text document = json_text(json_get(given, "document"));
    builder made = {0};
    add(&made, T("{\"text\":"));
    add_json(&made, json_text(json_get(given, "text")));
    add(&made, T(",\"int\":"));
    add_int(&made, json_int(json_get(given, "int"), -7));
    add(&made, T(",\"member\":"));
    add_json(&made, json_get(document, "schlüssel \"1\""));
    add(&made, T(",\"item\":"));
    add_json(&made, json_item(document, 2));
    add(&made, T(",\"escaped\":"));
    builder escaped = {0};
    add_escaped(&escaped, json_text(json_get(given, "text")));
    add_json(&made, built(&escaped));
    add(&made, T(",\"beginning\":"));
    add_json(&made, beginning(json_text(json_get(given, "text")), 3));
    add(&made, T("}"));
    return output(built(&made));
}

/** Keep the text, read it again, and write it into the log. */
TOOL(keep) {
    text given = json_text(input());
    kv_set(T("klüfte"), given);
    log_line(T("info"), given);
    builder made = {0};
    add_json(&made, kv_get(T("klüfte")));
    return output(built(&made));
}

static void item(builder *made, text json) {
    add(made, made->size == 0 ? T("[") : T(","));
    add(made, json);
}

static text as_json(text content) {
    builder made = {0};
    add_json(&made, content);
    return built(&made);
}

/** Ask the host for one of all that it has. */
TOOL(reach) {
    builder made = {0};
    file_write(T("a/ü.txt"), json_text(input()));
    text got = http_get(T("https://a.example/"));
    text sent = http_send(T("{\"method\":\"PUT\",\"url\":\"https://a.example/put\",\"body\":\"grüezi\","
                            "\"headers\":{\"X-Key\":\"${secret:KEY}\"}}"));
    item(&made, as_json(file_read(T("a/ü.txt"))));
    item(&made, as_json(get_env(T("LANG"))));
    item(&made, get_config(T("limits")));
    item(&made, as_json(get_secret(T("KEY"))));
    item(&made, json_text(json_get(got, "body")));
    item(&made, json_get(json_get(sent, "headers"), "x-answer"));
    item(&made, json_get(sent, "status"));
    add(&made, T("]"));
    return output(built(&made));
}

TOOL(secret) {
    builder made = {0};
    add_json(&made, get_secret(T("NOT_SET")));
    return output(built(&made));
}
