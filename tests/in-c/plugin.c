/* The plugin `in-c`: a plugin without Rust, the SDK or abi_stable, written from plugin-abi/README.md and
 * plugin-abi/src/layout.txt alone. LAYOUT_HASH comes from the command line. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes { const uint8_t *ptr; size_t len; void *owner; void (*free)(void *, const uint8_t *, size_t); };
struct slice { const uint8_t *ptr; size_t len; };
struct error { uint32_t code, flags; struct bytes message, details; };
struct fut { void *data; uint8_t (*poll)(void *, const void *, void *, struct error *); uint8_t (*drop)(void *); };
struct stream { void *data; uint8_t (*poll)(void *, const void *, struct bytes *, struct error *); uint8_t (*drop)(void *); };
struct request { struct bytes head, headers, params, body; struct stream stream; };
struct reply { uint16_t status; struct bytes headers, body; struct stream stream; struct bytes extra; };
struct answer { uint64_t number; struct bytes extra; };
struct id { uint8_t bytes[16]; };

/* A table: a bit for each field that is there, a pointer that no host needs, the fields. */
struct host_api {
    uint64_t present;
    const void *unused;
    void (*log)(uint64_t, uint64_t, uint32_t, struct slice, struct slice, struct slice);
    /* The rest is not called here. */
};
struct module {
    uint64_t present;
    const void *unused;
    struct bytes (*describe)(void);
    uint8_t (*create)(const struct host_api *, uint64_t, struct slice, const void **, struct error *);
    struct bytes (*exports)(const void *);
    struct fut (*call)(const void *, uint32_t, uint64_t, struct request);
    struct fut (*shutdown)(const void *);
    uint8_t (*destroy)(const void *);
    const void *(*get_extension)(uint32_t);
};
struct entry {
    uint32_t size, api, minor, checker;
    uint64_t layout_hash;
    const void *(*layouts)(void);
    uint8_t (*open)(const void **, struct error *);
    uint64_t reserved[4];
};

enum { READY = 1, FAILED = 2 };
enum { USER_NAME = 12, TOOL = 28 };

struct instance { const struct host_api *host; uint64_t ctx; };

static struct slice text(const char *text) { return (struct slice){(const uint8_t *)text, strlen(text)}; }
static struct bytes constant(const char *text) {
    return (struct bytes){(const uint8_t *)text, strlen(text), NULL, NULL};
}
static void free_owned(void *owner, const uint8_t *ptr, size_t len) {
    (void)ptr, (void)len;
    free(owner);
}
static struct bytes owned(char *text) {
    return (struct bytes){(const uint8_t *)text, strlen(text), text, free_owned};
}
static void drop_bytes(struct bytes *bytes) {
    if (bytes->free) bytes->free(bytes->owner, bytes->ptr, bytes->len);
}

/* A field of a record: count, then {number, offset, length} for each, then the values. */
static struct slice field(const struct bytes *record, uint32_t number) {
    uint32_t count = 0, entry[3];
    if (record->len >= 4) memcpy(&count, record->ptr, 4);
    for (uint32_t i = 0; i < count && 4 + 12 * ((size_t)i + 1) <= record->len; i++) {
        memcpy(entry, record->ptr + 4 + 12 * (size_t)i, 12);
        if (entry[0] == number && (size_t)entry[1] + entry[2] <= record->len)
            return (struct slice){record->ptr + entry[1], entry[2]};
    }
    return (struct slice){NULL, 0};
}

/* A future that is ready: what it answers, until somebody takes it. */
static uint8_t poll_reply(void *data, const void *waker, void *out, struct error *err) {
    (void)waker, (void)err;
    memcpy(out, data, sizeof(struct reply));
    memset(data, 0, sizeof(struct reply));
    return READY;
}
static uint8_t drop_reply(void *data) {
    drop_bytes(&((struct reply *)data)->body);
    free(data);
    return READY;
}
static uint8_t poll_answer(void *data, const void *waker, void *out, struct error *err) {
    (void)data, (void)waker, (void)err;
    memset(out, 0, sizeof(struct answer));
    return READY;
}
static uint8_t drop_nothing(void *data) {
    (void)data;
    return READY;
}

static struct bytes describe(void) {
    return constant("{\"name\": \"in-c\", \"version\": \"1.0.0\", \"sdk\": \"none\", \"rustc\": \"none\"}");
}
static uint8_t create(const struct host_api *host, uint64_t ctx, struct slice about, const void **out, struct error *err) {
    struct instance *instance = malloc(sizeof *instance);
    if (!instance) {
        *err = (struct error){1, 0, constant("no memory"), constant("")};
        return FAILED;
    }
    *instance = (struct instance){host, ctx};
    *out = instance;
    (void)about;
    return READY;
}
static struct bytes exports(const void *instance) {
    (void)instance;
    return constant("[{\"name\": \"hello\", \"method\": \"GET\", \"path\": \"/hello\"}]");
}
static struct fut call(const void *data, uint32_t handler, uint64_t number, struct request request) {
    const struct instance *instance = data;
    struct slice name = field(&request.head, USER_NAME), tool = field(&request.head, TOOL);
    struct reply *reply = calloc(1, sizeof *reply);
    char *body = malloc(name.len + tool.len + 100);
    sprintf(body, "{\"hello\": \"%.*s\", \"tool\": \"%.*s\", \"from\": \"C\"}", (int)name.len, (const char *)name.ptr,
            (int)tool.len, (const char *)tool.ptr);
    reply->status = handler == 0 ? 200 : 404;
    /* Pairs: count, the lengths of each name and value, then all of them. */
    static const uint8_t headers[] = "\1\0\0\0\14\0\0\0\20\0\0\0content-typeapplication/json";
    reply->headers = (struct bytes){headers, sizeof headers - 1, NULL, NULL};
    reply->body = owned(body);
    instance->host->log(instance->ctx, number, 3, text("called in C"), text(""), text(""));
    drop_bytes(&request.head);
    drop_bytes(&request.headers);
    drop_bytes(&request.params);
    drop_bytes(&request.body);
    if (request.stream.drop) request.stream.drop(request.stream.data);
    return (struct fut){reply, poll_reply, drop_reply};
}
static struct fut shutdown(const void *instance) {
    (void)instance;
    return (struct fut){NULL, poll_answer, drop_nothing};
}
static uint8_t destroy(const void *instance) {
    free((void *)instance);
    return READY;
}
static const void *get_extension(uint32_t number) {
    (void)number;
    return NULL;
}

static const struct module MODULE = {0x7f, NULL, describe, create, exports, call, shutdown, destroy, get_extension};

static uint8_t open_module(const void **out, struct error *err) {
    (void)err;
    *out = &MODULE;
    return READY;
}

__attribute__((visibility("default"))) const struct entry cardinal_plugin_1 = {
    sizeof(struct entry), 1, 0, 0, LAYOUT_HASH, NULL, open_module, {0, 0, 0, 0},
};

struct header {
    char magic[8];
    uint32_t format, api, minor, panic, flags, reserved;
    uint64_t layout_hash;
    char target[24];
};
/* Nothing unwinds out of C: the panic strategy is the one that is let in. */
__attribute__((used, section(".crd_hdr"))) static const struct header HEADER = {
    {'C', 'R', 'D', 'P', 'L', 'U', 'G', '\n'}, 1, 1, 0, 1, 0, 0, LAYOUT_HASH, TARGET,
};
