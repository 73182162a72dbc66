// The plugin: each TOOL is a function that Ozzie can call. A call gets an instance of its own, so nothing is kept in
// variables, and memory is never freed.

#include "ozzie.h"

static const text QUERY = T("https://en.wikipedia.org/w/api.php"
                            "?action=query&prop=extracts&exintro=1&explaintext=1&redirects=1&format=json&formatversion=2"
                            "&titles=");

TOOL(look_up) {
    text arguments = input();
    text title = json_text(json_get(arguments, "title"));
    long long most = json_int(json_get(arguments, "max_chars"), 1000);
    // The words of an error reach the model: say what to do instead.
    if (title.size == 0) fail(T("The title is empty: say what to look up."));
    if (most < 1 || most > 5000) fail(T("max_chars is between 1 and 5000."));

    builder url = {0};
    add(&url, QUERY);
    add_escaped(&url, title);
    text answer = http_get(built(&url));
    long long status = json_int(json_get(answer, "status"), 0);
    if (status != 200) {
        builder words = {0};
        add(&words, T("Wikipedia answers HTTP "));
        add_int(&words, status);
        add(&words, T(". Try again later."));
        fail(built(&words));
    }

    text body = json_text(json_get(answer, "body"));
    text page = json_item(json_get(json_get(body, "query"), "pages"), 0);
    if (page.size == 0 || same(json_get(page, "missing"), T("true"))) {
        fail(T("Wikipedia has no article with this title. Try other words."));
    }

    builder result = {0};
    add(&result, T("{\"title\":"));
    add_json(&result, json_text(json_get(page, "title")));
    add(&result, T(",\"text\":"));
    add_json(&result, beginning(json_text(json_get(page, "extract")), (int)most));
    add(&result, T("}"));
    return output(built(&result));
}
