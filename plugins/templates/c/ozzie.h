// What a plugin in C gets from Ozzie and gives to it, and the JSON and texts that it needs for that. Texts are UTF-8 and
// don't end with a zero. A host function that refuses ends the call, with the host's words.

#ifndef OZZIE_H
#define OZZIE_H

typedef unsigned char byte;
typedef unsigned long long u64;

typedef struct {
    const byte *at;
    int size;
} text;

/** A text in the source: T("words"). */
#define T(words) ((text){(const byte *)("" words), sizeof(words) - 1})

/** A function that Ozzie calls for the tool with this name. */
#define TOOL(name) __attribute__((export_name(#name))) int name(void)

#define UNUSED __attribute__((unused))
#define EXTISM(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern
#define OZZIE(name) __attribute__((import_module("extism:host/user"), import_name(#name))) extern

// Extism's memory, which plugin and host share.
EXTISM(input_length) u64 extism_input_length(void);
EXTISM(input_load_u8) int extism_input_load_u8(u64 at);
EXTISM(alloc) u64 extism_alloc(u64 size);
EXTISM(length) u64 extism_length(u64 offset);
EXTISM(load_u8) int extism_load_u8(u64 offset);
EXTISM(store_u8) void extism_store_u8(u64 offset, int value);
EXTISM(output_set) void extism_output_set(u64 offset, u64 size);
EXTISM(error_set) void extism_error_set(u64 offset);

// Ozzie's functions: each takes and returns such texts.
OZZIE(http_request) u64 host_http_request(u64 url, u64 method, u64 body);
OZZIE(http_send) u64 host_http_send(u64 request);
OZZIE(kv_get) u64 host_kv_get(u64 key);
OZZIE(kv_set) u64 host_kv_set(u64 key, u64 value);
OZZIE(log) u64 host_log(u64 level, u64 message);
OZZIE(get_secret) u64 host_get_secret(u64 name);
OZZIE(get_env) u64 host_get_env(u64 name);
OZZIE(get_config) u64 host_get_config(u64 name);
OZZIE(file_read) u64 host_file_read(u64 path);
OZZIE(file_write) u64 host_file_write(u64 path, u64 content);

// --- memory and texts -------------------------------------------------------------------------------------------------

extern byte __heap_base; // the linker's: where nothing lies yet

/** New memory. It is freed with the instance, at the end of the call. */
static UNUSED byte *allocate(int size) {
    static unsigned long next;
    if (next == 0) next = (unsigned long)&__heap_base;
    unsigned long start = (next + 7) & ~7ul;
    unsigned long there = __builtin_wasm_memory_size(0) << 16;
    if (size < 0 || start + (unsigned long)size < start) __builtin_trap();
    if (start + (unsigned long)size > there) {
        unsigned long pages = (start + (unsigned long)size - there + 0xffff) >> 16;
        if (__builtin_wasm_memory_grow(0, pages) == (unsigned long)-1) __builtin_trap();
    }
    next = start + (unsigned long)size;
    return (byte *)start;
}

/** A text that is made in pieces: `builder made = {0};`, then add, at last built. */
typedef struct {
    byte *at;
    int size, room;
} builder;

static UNUSED void add_byte(builder *made, int value) {
    if (made->size == made->room) {
        int room = made->room ? made->room * 2 : 256;
        byte *larger = allocate(room);
        for (int i = 0; i < made->size; i++) larger[i] = made->at[i];
        made->at = larger;
        made->room = room;
    }
    made->at[made->size++] = (byte)value;
}

static UNUSED void add(builder *made, text piece) {
    for (int i = 0; i < piece.size; i++) add_byte(made, piece.at[i]);
}

static UNUSED void add_int(builder *made, long long value) {
    u64 left = value < 0 ? 0 - (u64)value : (u64)value;
    byte digits[20];
    int count = 0;
    do {
        digits[count++] = (byte)('0' + left % 10);
    } while ((left /= 10) > 0);
    if (value < 0) add_byte(made, '-');
    while (count > 0) add_byte(made, digits[--count]);
}

static UNUSED text built(const builder *made) { return (text){made->at, made->size}; }

static UNUSED int same(text one, text other) {
    if (one.size != other.size) return 0;
    for (int i = 0; i < one.size; i++)
        if (one.at[i] != other.at[i]) return 0;
    return 1;
}

/** The beginning of a text: at most so many characters. */
static UNUSED text beginning(text whole, int most) {
    int size = 0;
    for (; size < whole.size; size++)
        if ((whole.at[size] & 0xc0) != 0x80 && most-- == 0) break;
    return (text){whole.at, size};
}

/** Add a text for a part of an address, with %20 for a space. */
static UNUSED void add_escaped(builder *made, text part) {
    for (int i = 0; i < part.size; i++) {
        int value = part.at[i];
        int lower = value | 0x20;
        if ((lower >= 'a' && lower <= 'z') || (value >= '0' && value <= '9') || value == '-' || value == '.' ||
            value == '_' || value == '~') {
            add_byte(made, value);
        } else {
            add_byte(made, '%');
            add_byte(made, "0123456789ABCDEF"[value >> 4]);
            add_byte(made, "0123456789ABCDEF"[value & 15]);
        }
    }
}

// --- JSON: a value is the text that it is written with; one that is not there is empty -----------------------------------

static UNUSED int json_space(text json, int at) {
    while (at < json.size && (json.at[at] == ' ' || (json.at[at] >= 9 && json.at[at] <= 13))) at++;
    return at;
}

/** The place behind the value that begins here. */
static UNUSED int json_skip(text json, int at) {
    int depth = 0;
    for (; at < json.size; at++) {
        int value = json.at[at];
        if (value == '"') {
            for (at++; at < json.size && json.at[at] != '"'; at++)
                if (json.at[at] == '\\') at++;
            if (at >= json.size) return json.size;
            if (depth == 0) return at + 1;
        } else if (value == '{' || value == '[') {
            depth++;
        } else if (value == '}' || value == ']') {
            if (depth == 0) return at;
            if (--depth == 0) return at + 1;
        } else if (depth == 0 && (value <= ' ' || value == ',' || value == ':')) {
            return at;
        }
    }
    return json.size;
}

static UNUSED void add_utf8(builder *made, unsigned code) {
    if (code < 0x80) {
        add_byte(made, (int)code);
    } else if (code < 0x800) {
        add_byte(made, (int)(0xc0 | code >> 6));
        add_byte(made, (int)(0x80 | (code & 63)));
    } else if (code < 0x10000) {
        add_byte(made, (int)(0xe0 | code >> 12));
        add_byte(made, (int)(0x80 | (code >> 6 & 63)));
        add_byte(made, (int)(0x80 | (code & 63)));
    } else {
        add_byte(made, (int)(0xf0 | code >> 18));
        add_byte(made, (int)(0x80 | (code >> 12 & 63)));
        add_byte(made, (int)(0x80 | (code >> 6 & 63)));
        add_byte(made, (int)(0x80 | (code & 63)));
    }
}

/** The number of four hexadecimal digits, or -1. */
static UNUSED int json_hex(text json, int at) {
    int found = 0;
    if (at + 4 > json.size) return -1;
    for (int i = 0; i < 4; i++) {
        int value = json.at[at + i], lower = value | 0x20;
        if (value >= '0' && value <= '9') found = found * 16 + value - '0';
        else if (lower >= 'a' && lower <= 'f') found = found * 16 + lower - 'a' + 10;
        else return -1;
    }
    return found;
}

/** What a JSON text says; empty for any other value. Half of a surrogate pair becomes U+FFFD. */
static UNUSED text json_text(text json) {
    builder made = {0};
    if (json.size < 2 || json.at[0] != '"' || json.at[json.size - 1] != '"') return T("");
    for (int i = 1; i < json.size - 1; i++) {
        if (json.at[i] != '\\') {
            add_byte(&made, json.at[i]);
            continue;
        }
        int value = json.at[++i];
        if (value != 'u') {
            const char *from = "bfnrt", *to = "\b\f\n\r\t";
            int found = value;
            for (int k = 0; from[k]; k++)
                if (from[k] == value) found = to[k];
            add_byte(&made, found);
            continue;
        }
        int code = json_hex(json, i + 1);
        i += 4;
        if ((code & 0xfc00) == 0xd800 && i + 2 < json.size && json.at[i + 1] == '\\' && json.at[i + 2] == 'u') {
            int low = json_hex(json, i + 3);
            if (low >= 0 && (low & 0xfc00) == 0xdc00) {
                add_utf8(&made, 0x10000u + ((unsigned)(code & 0x3ff) << 10) + (unsigned)(low & 0x3ff));
                i += 6;
                continue;
            }
        }
        add_utf8(&made, code < 0 || (code & 0xf800) == 0xd800 ? 0xfffd : (unsigned)code);
    }
    return built(&made);
}

/** The member of an object with this name. */
static UNUSED text json_get(text object, const char *name) {
    int length = 0;
    while (name[length]) length++;
    int at = json_space(object, 0);
    if (at >= object.size || object.at[at] != '{') return T("");
    at = json_space(object, at + 1);
    while (at < object.size && object.at[at] == '"') {
        int end = json_skip(object, at);
        text key = json_text((text){object.at + at, end - at});
        at = json_space(object, end);
        if (at >= object.size || object.at[at] != ':') return T("");
        at = json_space(object, at + 1);
        end = json_skip(object, at);
        if (same(key, (text){(const byte *)name, length})) return (text){object.at + at, end - at};
        at = json_space(object, end);
        if (at >= object.size || object.at[at] != ',') return T("");
        at = json_space(object, at + 1);
    }
    return T("");
}

/** The item of a list; the first is 0. */
static UNUSED text json_item(text list, int index) {
    int at = json_space(list, 0);
    if (at >= list.size || list.at[at] != '[') return T("");
    for (at = json_space(list, at + 1); at < list.size && list.at[at] != ']'; at = json_space(list, at + 1)) {
        int end = json_skip(list, at);
        if (index-- == 0) return (text){list.at + at, end - at};
        at = json_space(list, end);
        if (at >= list.size || list.at[at] != ',') return T("");
    }
    return T("");
}

/** A whole number, or `otherwise` for any other value. */
static UNUSED long long json_int(text json, long long otherwise) {
    int start = json.size > 0 && json.at[0] == '-' ? 1 : 0;
    long long found = 0;
    if (json.size == start || json.size > 18) return otherwise;
    for (int i = start; i < json.size; i++) {
        if (json.at[i] < '0' || json.at[i] > '9') return otherwise;
        found = found * 10 + json.at[i] - '0';
    }
    return start ? -found : found;
}

/** Add a text as JSON, in quotation marks. */
static UNUSED void add_json(builder *made, text content) {
    add_byte(made, '"');
    for (int i = 0; i < content.size; i++) {
        int value = content.at[i];
        if (value == '"' || value == '\\') {
            add_byte(made, '\\');
            add_byte(made, value);
        } else if (value < ' ') {
            add(made, T("\\u00"));
            add_byte(made, '0' + (value >> 4));
            add_byte(made, "0123456789abcdef"[value & 15]);
        } else {
            add_byte(made, value);
        }
    }
    add_byte(made, '"');
}

// --- the host ------------------------------------------------------------------------------------------------------------

static UNUSED u64 shared(text content) {
    u64 offset = extism_alloc((u64)content.size);
    for (int i = 0; i < content.size; i++) extism_store_u8(offset + (u64)i, content.at[i]);
    return offset;
}

/** End the call as a failure. */
static UNUSED __attribute__((noreturn)) void fail(text words) {
    extism_error_set(shared(words));
    __builtin_trap();
}

/** The arguments of the call: a JSON object, checked against the manifest, with defaults filled in. */
static UNUSED text input(void) {
    int size = (int)extism_input_length();
    byte *at = allocate(size);
    for (int i = 0; i < size; i++) at[i] = (byte)extism_input_load_u8((u64)i);
    return (text){at, size};
}

/** Give the result of the call, which is JSON: `return output(result);` */
static UNUSED int output(text json) {
    extism_output_set(shared(json), (u64)json.size);
    return 0;
}

/** The value in what a host function returned, as JSON. */
static UNUSED text ok(u64 offset) {
    int size = offset ? (int)extism_length(offset) : 0;
    byte *at = allocate(size);
    for (int i = 0; i < size; i++) at[i] = (byte)extism_load_u8(offset + (u64)i);
    text answer = {at, size};
    text value = json_get(answer, "ok");
    if (value.size == 0) fail(json_text(json_get(answer, "error")));
    return value;
}

/** Each answer has `status`, `headers` and `body`: json_get(answer, "status"). */
static UNUSED text http_get(text url) { return ok(host_http_request(shared(url), shared(T("GET")), shared(T("")))); }

/** Send a request, a JSON object with method, url, headers and body. The host puts a secret in place of
 * ${secret:NAME} in the last three. */
static UNUSED text http_send(text request) { return ok(host_http_send(shared(request))); }

/** A note of this plugin, or empty. */
static UNUSED text kv_get(text key) { return json_text(ok(host_kv_get(shared(key)))); }

/** Keep a note until a later call. An empty text removes it. */
static UNUSED void kv_set(text key, text value) { ok(host_kv_set(shared(key), shared(value))); }

/** Write a line into Ozzie's log. `level` is debug, info, warning or error. */
static UNUSED void log_line(text level, text message) { ok(host_log(shared(level), shared(message))); }

/** A secret. A request does not need it: see `http_send`. */
static UNUSED text get_secret(text name) { return json_text(ok(host_get_secret(shared(name)))); }

static UNUSED text get_env(text name) { return json_text(ok(host_get_env(shared(name)))); }

/** A value of the plugin's configuration, as JSON. */
static UNUSED text get_config(text name) { return ok(host_get_config(shared(name))); }

/** A file of the project, by its path in it. */
static UNUSED text file_read(text path) { return json_text(ok(host_file_read(shared(path)))); }

static UNUSED void file_write(text path, text content) { ok(host_file_write(shared(path), shared(content))); }

#endif
