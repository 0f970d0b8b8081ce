/* streams.v1.Streams in C, and a client of it.
 *
 * streams server ADDRESS DESCRIPTOR_SET   serves until its input ends; prints "ready"
 * streams client ADDRESS                  calls every method, in every way
 * streams fork ADDRESS                    uses in a forked process what its parent has made
 * streams copies LIBRARY                  loads another copy of libnearcall beside its own
 * streams misuse                          what no program should do
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nearcall.h"

#define INTERFACE "streams.v1.Streams"
#define PATIENCE_NS (20 * UINT64_C(1000000000))

enum { OK = 0, INVALID_ARGUMENT = 3, DEADLINE_EXCEEDED = 4, FAILED_PRECONDITION = 9, ABORTED = 10,
       RESOURCE_EXHAUSTED = 8, UNIMPLEMENTED = 12, INTERNAL = 13 };

static void fail(int line, const char *what, nearcall_status *status) {
  fprintf(stderr, "line %d: %s: %s %s\n", line, what,
          nearcall_code_name(nearcall_status_code(status)), nearcall_status_message(status));
  exit(1);
}

#define CHECK(condition) \
  do { if (!(condition)) fail(__LINE__, #condition, NULL); } while (0)

#define MUST(call) \
  do { nearcall_status *must = (call); if (must) fail(__LINE__, #call, must); } while (0)

/* The call fails with a code, and its text has `part`. */
#define REFUSED(call, code, part) \
  do { \
    nearcall_status *refused = (call); \
    if (nearcall_status_code(refused) != (code) || \
        !strstr(nearcall_status_message(refused), part)) \
      fail(__LINE__, #call, refused); \
    nearcall_status_free(refused); \
  } while (0)

/* -- Messages: field 1 is a number, field 2 of an item are bytes. -- */

struct item { uint64_t number; uint8_t bytes[64]; size_t size; };

static void put(struct item *into, uint64_t number) {
  into->size = 0;
  if (!number) return;
  into->bytes[into->size++] = 0x08;
  for (; number >= 0x80; number >>= 7) into->bytes[into->size++] = (uint8_t)(number | 0x80);
  into->bytes[into->size++] = (uint8_t)number;
}

static uint64_t field(const uint8_t *data, size_t size, unsigned wanted) {
  size_t at = 0;
  while (at < size) {
    unsigned key = data[at++], shift = 0;
    uint64_t value = 0;
    do value |= (uint64_t)(data[at] & 0x7f) << shift, shift += 7; while (data[at++] & 0x80);
    if (key == (wanted << 3)) return value;
    if ((key & 7) == 2) at += value;
  }
  return 0;
}

static nearcall_view view(const struct item *item) {
  return (nearcall_view){item->bytes, item->size};
}

static const nearcall_view none = {NULL, 0};

/* -- The service. -- */

static void *exchange(void *data) {
  nearcall_call call = {(uint64_t)(uintptr_t)data};
  for (;;) {
    nearcall_bytes item;
    uint32_t has_item;
    nearcall_status *status = nearcall_call_receive(call, &item, &has_item);
    if (!status && has_item) {
      status = nearcall_call_send(call, (nearcall_view){item.data, item.size});
      nearcall_bytes_free(&item);
    }
    if (!status && has_item) continue;
    if (status) nearcall_call_fail(call, nearcall_status_code(status), "the stream has ended");
    else MUST(nearcall_call_reply(call, none));
    nearcall_status_free(status);
    return NULL;
  }
}

static nearcall_status *count(nearcall_call call, nearcall_view plan) {
  uint64_t items = field(plan.data, plan.size, 1), code = field(plan.data, plan.size, 3);
  for (uint64_t number = 0; number < items; number++) {
    struct item item;
    put(&item, number);
    nearcall_status *status = nearcall_call_send(call, view(&item));
    if (status) return status;
  }
  return code ? nearcall_call_fail(call, (uint32_t)code, "as planned") : nearcall_call_reply(call, none);
}

static nearcall_status *sum(nearcall_call call) {
  uint64_t total = 0;
  for (;;) {
    nearcall_bytes item;
    uint32_t has_item;
    nearcall_status *status = nearcall_call_receive(call, &item, &has_item);
    if (status) return status;
    if (!has_item) break;
    total += field(item.data, item.size, 1);
    nearcall_bytes_free(&item);
  }
  struct item reply;
  put(&reply, total);
  return nearcall_call_reply(call, view(&reply));
}

/* Replies with a message that was written to a loan. */
static nearcall_status *say_lent(nearcall_call call, nearcall_view message) {
  nearcall_loan loan;
  uint8_t *data;
  MUST(nearcall_call_loan(call, message.size + 5, &loan, &data));
  memcpy(data, message.data, message.size);
  MUST(nearcall_call_reply_loan(call, (nearcall_view){data, message.size}, loan));
  REFUSED(nearcall_call_reply_loan(call, none, loan), FAILED_PRECONDITION, "no such loan");
  return NULL;
}

/* Counts the entries that came with the request. */
static size_t count_entries(nearcall_call call) {
  nearcall_view key, value;
  size_t count = 0;
  while (nearcall_call_entry_at(call, count, &key, &value)) {
    CHECK(key.size > 0 && value.size > 0);
    count++;
  }
  return count;
}

static nearcall_status *say(nearcall_call call, nearcall_view message) {
  nearcall_view value;
  if (nearcall_call_entry(call, "loan", &value)) return say_lent(call, message);
  if (nearcall_call_entry(call, "raw-bin", &value)) CHECK(count_entries(call) == 2);
  if (nearcall_call_entry(call, "trailer", &value))
    MUST(nearcall_call_add_trailer(call, "trailer", value));
  if (nearcall_call_entry(call, "raw-bin", &value)) {
    MUST(nearcall_call_add_header(call, "raw-bin", value));
    CHECK(nearcall_call_remaining_ns(call) <= PATIENCE_NS);
  }
  if (nearcall_call_entry(call, "silent", &value)) return NULL;
  if (nearcall_call_entry(call, "fail", &value)) {
    REFUSED(nearcall_call_fail(call, 17, "x"), INVALID_ARGUMENT, "17 is no code");
    return nearcall_call_fail(call, ABORTED, "as asked");
  }
  MUST(nearcall_call_reply(call, message));
  REFUSED(nearcall_call_reply(call, message), FAILED_PRECONDITION, "already");
  REFUSED(nearcall_call_defer(call), FAILED_PRECONDITION, "already");
  return NULL;
}

static void serve(void *data, nearcall_call call, const nearcall_request *request) {
  nearcall_status *status = NULL;
  CHECK(!strcmp(data, "the service") && request->size >= sizeof *request);
  if (!strcmp(request->method, "Say")) {
    CHECK(request->shape == NEARCALL_SHAPE_UNARY && request->index == 5);
    status = say(call, request->message);
  } else if (!strncmp(request->method, "Count", 5)) {
    CHECK(request->shape == NEARCALL_SHAPE_REPLY_STREAM);
    status = count(call, request->message);
  } else if (!strcmp(request->method, "Sum") || !strcmp(request->method, "Drain")) {
    CHECK(request->shape == NEARCALL_SHAPE_REQUEST_STREAM);
    status = sum(call);
  } else {
    CHECK(request->shape == NEARCALL_SHAPE_BOTH_STREAMS);
    MUST(nearcall_call_defer(call));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, exchange, (void *)(uintptr_t)call.id));
    pthread_detach(thread);
  }
  if (status) nearcall_call_fail(call, nearcall_status_code(status), "the stream has ended");
  nearcall_status_free(status);
}

static int released;

static void release(void *data) {
  CHECK(!strcmp(data, "the service"));
  released++;
}

static const nearcall_service service = {sizeof service, "the service", serve, release};

static int run_server(const char *address, const char *file) {
  static uint8_t set[1 << 16];
  FILE *from = fopen(file, "rb");
  CHECK(from);
  size_t size = fread(set, 1, sizeof set, from);
  fclose(from);
  nearcall_server server;
  MUST(nearcall_server_new(NEARCALL_ABI, NULL, &server));
  REFUSED(nearcall_server_register(server, NULL, (nearcall_view){set, size}, "streams.v1.Nothing",
                                   &service), INVALID_ARGUMENT, "streams.v1.Nothing");
  MUST(nearcall_server_register(server, NULL, (nearcall_view){set, size}, INTERFACE, &service));
  MUST(nearcall_server_listen(server, address, NULL));
  MUST(nearcall_server_start(server));
  REFUSED(nearcall_server_start(server), FAILED_PRECONDITION, "already");
  nearcall_bytes at;
  MUST(nearcall_server_address(server, 0, &at));
  printf("ready %.*s\n", (int)at.size, (const char *)at.data);
  fflush(stdout);
  nearcall_bytes_free(&at);
  while (getchar() != EOF) {}
  nearcall_counters counters = {.size = sizeof counters};
  MUST(nearcall_server_counters(server, &counters));
  CHECK(counters.refusals == 0);
  MUST(nearcall_server_drain(server, PATIENCE_NS));
  MUST(nearcall_server_free(server));
  CHECK(released == 1);
  return 0;
}

/* -- The client. -- */

static void call_say(nearcall_caller caller) {
  struct item item;
  put(&item, 300);
  nearcall_bytes reply;
  for (int times = 0; times < 100; times++) {
    MUST(nearcall_call_method(caller, "Say", view(&item), NULL, &reply, NULL));
    CHECK(field(reply.data, reply.size, 1) == 300);
    nearcall_bytes_free(&reply);
    CHECK(!reply.data && !reply.owner);
    nearcall_bytes_free(&reply);
  }
  MUST(nearcall_call_method(caller, "Say", none, NULL, &reply, NULL));
  CHECK(!reply.data && !reply.size);

  nearcall_entry entries[] = {{"trailer", {(const uint8_t *)"text", 4}},
                              {"raw-bin", {(const uint8_t *)"\0\xff", 2}}};
  nearcall_call_options options = {.size = sizeof options, .timeout_ns = PATIENCE_NS,
                                   .entries = entries, .entry_count = 2};
  nearcall_metadata *metadata;
  nearcall_view value;
  MUST(nearcall_call_method(caller, "Say", view(&item), &options, &reply, &metadata));
  CHECK(nearcall_metadata_trailer(metadata, "trailer", &value));
  CHECK(value.size == 4 && !memcmp(value.data, "text", 4));
  CHECK(nearcall_metadata_header(metadata, "raw-bin", &value));
  CHECK(value.size == 2 && !memcmp(value.data, "\0\xff", 2));
  CHECK(!nearcall_metadata_trailer(metadata, "other", &value));
  nearcall_view key;
  CHECK(nearcall_metadata_trailer_at(metadata, 0, &key, &value));
  CHECK(key.size == 7 && !memcmp(key.data, "trailer", 7) && value.size == 4);
  CHECK(!nearcall_metadata_trailer_at(metadata, 1, &key, &value));
  CHECK(nearcall_metadata_header_at(metadata, 0, &key, &value) && value.size == 2);
  CHECK(!nearcall_metadata_header_at(metadata, SIZE_MAX, &key, &value));
  nearcall_metadata_free(metadata);
  nearcall_bytes_free(&reply);

  entries[0].key = "fail", entries[1].key = "trailer";
  entries[1].value = entries[0].value;
  nearcall_status *failed =
      nearcall_call_method(caller, "Say", view(&item), &options, &reply, &metadata);
  CHECK(nearcall_status_code(failed) == ABORTED);
  CHECK(!strcmp(nearcall_status_message(failed), "as asked"));
  CHECK(!nearcall_status_has_not_begun(failed));
  CHECK(nearcall_status_entry(failed, "trailer", &value) && value.size == 4);
  CHECK(nearcall_status_entry_at(failed, 0, &key, &value) && key.size == 7);
  CHECK(!nearcall_status_entry_at(failed, 1, &key, &value));
  nearcall_status_free(failed);
  nearcall_metadata_free(metadata);
  entries[0].key = "silent";
  REFUSED(nearcall_call_method(caller, "Say", none, &options, &reply, NULL), INTERNAL, "`Say`");
}

static void call_later(nearcall_caller caller) {
  nearcall_pending pending[8];
  struct item item;
  for (uint64_t number = 0; number < 8; number++) {
    put(&item, number);
    MUST(nearcall_start(caller, "Say", view(&item), NULL, &pending[number]));
  }
  MUST(nearcall_pending_cancel(pending[3]));
  for (uint64_t number = 0; number < 8; number++) {
    nearcall_bytes reply;
    if (number == 3) {
      REFUSED(nearcall_pending_wait(pending[3], &reply, NULL), FAILED_PRECONDITION, "no such");
      continue;
    }
    MUST(nearcall_pending_wait(pending[number], &reply, NULL));
    CHECK(field(reply.data, reply.size, 1) == number);
    nearcall_bytes_free(&reply);
    CHECK(nearcall_pending_is_done(pending[number]));
  }
}

/* Adds one to an eventfd, on which a loop waits. */
static void add_one(void *data) {
  const uint64_t one = 1;
  CHECK(write(*(int *)data, &one, sizeof one) == sizeof one);
}

static void await(int event, uint64_t count) {
  while (count) {
    struct pollfd ready = {event, POLLIN, 0};
    uint64_t ended;
    CHECK(poll(&ready, 1, 20000) == 1 && read(event, &ended, sizeof ended) == sizeof ended);
    CHECK(ended <= count);
    count -= ended;
  }
}

static void *take_reply(void *data) {
  nearcall_bytes reply;
  nearcall_metadata *metadata;
  MUST(nearcall_pending_wait(*(nearcall_pending *)data, &reply, &metadata));
  CHECK(field(reply.data, reply.size, 1) == 7);
  nearcall_bytes_free(&reply);
  nearcall_metadata_free(metadata);
  return NULL;
}

static nearcall_pending waits_for_none;

/* In the thread that reports the ends of calls. */
static void wait_wrongly(void *data) {
  nearcall_bytes reply;
  REFUSED(nearcall_pending_wait(waits_for_none, &reply, NULL), FAILED_PRECONDITION, "elsewhere");
  add_one(data);
}

static void call_notified(nearcall_caller caller) {
  enum { CALLS = 64 };
  int event = eventfd(0, EFD_CLOEXEC);
  nearcall_pending pending[CALLS];
  nearcall_bytes reply;
  struct item item;
  pthread_t thread;
  CHECK(event >= 0);
  for (uint64_t number = 0; number < CALLS; number++) {
    put(&item, number);
    MUST(nearcall_start_notified(caller, "Say", view(&item), NULL, add_one, &event,
                                 &pending[number]));
  }
  /* The end of one that is cancelled is reported as well. */
  MUST(nearcall_pending_cancel(pending[3]));
  REFUSED(nearcall_pending_cancel(pending[3]), FAILED_PRECONDITION, "no such started call");
  await(event, CALLS);
  CHECK(nearcall_pending_is_done(pending[7]));
  CHECK(!pthread_create(&thread, NULL, take_reply, &pending[7]));
  pthread_join(thread, NULL);
  for (uint64_t number = 0; number < CALLS; number++) {
    if (number == 3 || number == 7) {
      REFUSED(nearcall_pending_wait(pending[number], &reply, NULL), FAILED_PRECONDITION, "no such");
      continue;
    }
    MUST(nearcall_pending_wait(pending[number], &reply, NULL));
    CHECK(field(reply.data, reply.size, 1) == number);
    nearcall_bytes_free(&reply);
  }
  /* One that is waited for before its end, and one that fails. */
  put(&item, 7);
  MUST(nearcall_start_notified(caller, "Say", view(&item), NULL, add_one, &event, &pending[0]));
  take_reply(&pending[0]);
  MUST(nearcall_start_notified(caller, "Sai", none, NULL, add_one, &event, &pending[0]));
  await(event, 2);
  REFUSED(nearcall_pending_wait(pending[0], &reply, NULL), UNIMPLEMENTED, "it has");
  nearcall_call_options late = {.size = sizeof late, .timeout_ns = 1};
  MUST(nearcall_start_notified(caller, "Say", none, &late, add_one, &event, &pending[0]));
  REFUSED(nearcall_pending_wait(pending[0], &reply, NULL), DEADLINE_EXCEEDED, "");
  await(event, 1);
  /* One that does not end by itself: its server may still come. */
  nearcall_client client;
  nearcall_caller patient;
  nearcall_call_options wait = {.size = sizeof wait, .flags = NEARCALL_WAIT_FOR_READY};
  MUST(nearcall_client_new(NEARCALL_ABI, NULL, &client));
  MUST(nearcall_caller_new(client, "unix:@nearcall-c-nowhere", INTERFACE, &patient));
  MUST(nearcall_start_notified(patient, "Say", none, &wait, add_one, &event, &waits_for_none));
  CHECK(!nearcall_pending_is_done(waits_for_none));
  MUST(nearcall_start_notified(caller, "Say", none, NULL, wait_wrongly, &event, &pending[0]));
  /* The wait has freed its call nevertheless, which is then cancelled and reported. */
  await(event, 2);
  MUST(nearcall_pending_cancel(pending[0]));
  REFUSED(nearcall_pending_cancel(waits_for_none), FAILED_PRECONDITION, "no such");
  MUST(nearcall_caller_free(patient));
  MUST(nearcall_client_free(client));
  close(event);
}

enum { LENT = 100 * 1000 };

/* Lends memory, and writes an item with a long field to it. */
static nearcall_view lend(nearcall_caller caller, nearcall_loan *loan) {
  uint8_t *data;
  MUST(nearcall_loan_new(caller, LENT, NULL, loan, &data));
  const uint8_t head[] = {0x08, 0x07, 0x12, 0x80 | (90000 & 0x7f), 0x80 | (90000 >> 7 & 0x7f),
                          90000 >> 14};
  memcpy(data, head, sizeof head);
  memset(data + sizeof head, 'x', 90000);
  return (nearcall_view){data, sizeof head + 90000};
}

static nearcall_counters counted(nearcall_client client) {
  nearcall_counters counters = {.size = sizeof counters};
  MUST(nearcall_client_counters(client, &counters));
  CHECK(counters.size == sizeof counters && counters.connections >= 1);
  return counters;
}

/* Whether the connection lends shared memory. One over TCP moves to it when it likes. */
enum lending { SHARED, COPIED, EITHER };

static enum lending lending_of(const char *address) {
  if (strstr(address, "tcp:")) return EITHER;
  return strstr(address, "via=") ? COPIED : SHARED;
}

static void call_lent(nearcall_client client, nearcall_caller caller, enum lending lending,
                      int is_trusting) {
  nearcall_loan loan;
  nearcall_bytes reply;
  nearcall_pending pending;
  nearcall_entry entry = {"loan", {(const uint8_t *)"x", 1}};
  nearcall_call_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
  const nearcall_counters before = counted(client);
  /* More than may be lent at once: what the server gives back is lent again. */
  for (int times = 0; times < 200; times++) {
    nearcall_view request = lend(caller, &options.loan);
    MUST(nearcall_call_method(caller, "Say", request, &options, &reply, NULL));
    CHECK(reply.size == 90006 && reply.data[1] == 7 && reply.data[90005] == 'x');
    nearcall_bytes_free(&reply);
  }
  const nearcall_counters after = counted(client);
  /* The reply lies where the server has written it, if that is trusted. */
  nearcall_view again = lend(caller, &options.loan);
  MUST(nearcall_call_method(caller, "Say", again, &options, &reply, NULL));
  if (lending == SHARED) CHECK(counted(client).loans_borrowed == (uint64_t)is_trusting);
  nearcall_bytes_free(&reply);
  CHECK(after.messages_sent >= before.messages_sent + 200);
  CHECK(after.messages_received >= before.messages_received + 200);
  const uint64_t sent = after.bytes_sent - before.bytes_sent;
  const uint64_t received = after.bytes_received - before.bytes_received;
  if (lending == SHARED) CHECK(sent < 200 * 1000 && received < 200 * 1000);
  if (lending == COPIED) CHECK(sent > 200 * 90000 && received > 200 * 90000);
  REFUSED(nearcall_call_method(caller, "Say", none, &options, &reply, NULL), FAILED_PRECONDITION,
          "no such loan");
  options.entry_count = 0;
  nearcall_view request = lend(caller, &options.loan);
  MUST(nearcall_start(caller, "Say", request, &options, &pending));
  MUST(nearcall_pending_wait(pending, &reply, NULL));
  CHECK(reply.size == 90006);
  nearcall_bytes_free(&reply);
  request = lend(caller, &options.loan);
  int event = eventfd(0, EFD_CLOEXEC);
  MUST(nearcall_start_notified(caller, "Say", request, &options, add_one, &event, &pending));
  await(event, 1);
  close(event);
  MUST(nearcall_pending_wait(pending, &reply, NULL));
  CHECK(reply.size == 90006);
  nearcall_bytes_free(&reply);
  /* What is not the first bytes of the loan; a failed call uses it up as well. */
  request = lend(caller, &options.loan);
  request.size = LENT + 1;
  REFUSED(nearcall_call_method(caller, "Say", request, &options, &reply, NULL), INVALID_ARGUMENT,
          "first bytes of its loan");
  REFUSED(nearcall_loan_free(options.loan), FAILED_PRECONDITION, "no such loan");
  request = lend(caller, &options.loan);
  request.data++;
  REFUSED(nearcall_call_method(caller, "Say", request, &options, &reply, NULL), INVALID_ARGUMENT,
          "first bytes of its loan");
  request = lend(caller, &loan);
  MUST(nearcall_loan_free(loan));
  REFUSED(nearcall_loan_free(loan), FAILED_PRECONDITION, "no such loan");
  uint8_t *data = NULL;
  REFUSED(nearcall_loan_new(caller, 1 << 30, NULL, &loan, &data), RESOURCE_EXHAUSTED, "");
  CHECK(!data);
  /* All that may be lent, which a wait would not end. */
  nearcall_loan loans[100];
  size_t count = 0;
  nearcall_status *status = NULL;
  while (!status && count < 100) status = nearcall_loan_new(caller, 5000, NULL, &loans[count++], &data);
  if (lending == SHARED) CHECK(nearcall_status_code(status) == RESOURCE_EXHAUSTED);
  if (lending == SHARED) CHECK(counted(client).loans_lent >= count - 1);
  if (lending == COPIED) CHECK(!status);
  count -= status != NULL;
  nearcall_status_free(status);
  while (count) MUST(nearcall_loan_free(loans[--count]));
}

static void stream(nearcall_caller caller) {
  nearcall_stream stream;
  nearcall_bytes bytes;
  uint32_t has_item;
  struct item item;
  /* 500 items, then ABORTED. */
  const uint8_t plan[] = {0x08, 0xf4, 0x03, 0x18, ABORTED};
  MUST(nearcall_open_reply_stream(caller, "Count", (nearcall_view){plan, sizeof plan}, NULL,
                                  &stream));
  for (uint64_t number = 0; number < 500; number++) {
    MUST(nearcall_stream_receive(stream, &bytes, &has_item));
    CHECK(has_item && field(bytes.data, bytes.size, 1) == number);
    nearcall_bytes_free(&bytes);
  }
  REFUSED(nearcall_stream_receive(stream, &bytes, &has_item), ABORTED, "as planned");
  REFUSED(nearcall_stream_send(stream, none), FAILED_PRECONDITION, "no requests");
  MUST(nearcall_stream_free(stream));

  MUST(nearcall_open_request_stream(caller, "Sum", NULL, &stream));
  for (uint64_t number = 0; number < 1000; number++) {
    put(&item, number);
    MUST(nearcall_stream_send(stream, view(&item)));
  }
  MUST(nearcall_stream_finish(stream, &bytes, NULL));
  CHECK(field(bytes.data, bytes.size, 1) == 499500);
  nearcall_bytes_free(&bytes);
  REFUSED(nearcall_stream_finish(stream, &bytes, NULL), FAILED_PRECONDITION, "ended");
  MUST(nearcall_stream_free(stream));

  MUST(nearcall_open_both_streams(caller, "Exchange", NULL, &stream));
  for (uint64_t number = 1; number < 100; number++) {
    put(&item, number);
    MUST(nearcall_stream_send(stream, view(&item)));
    MUST(nearcall_stream_receive(stream, &bytes, &has_item));
    CHECK(has_item && field(bytes.data, bytes.size, 1) == number);
    nearcall_bytes_free(&bytes);
  }
  MUST(nearcall_stream_finish(stream, NULL, NULL));
  MUST(nearcall_stream_receive(stream, &bytes, &has_item));
  CHECK(!has_item);
  MUST(nearcall_stream_free(stream));
  /* One that is given up. */
  MUST(nearcall_open_both_streams(caller, "Exchange", NULL, &stream));
  MUST(nearcall_stream_free(stream));
  REFUSED(nearcall_stream_send(stream, none), FAILED_PRECONDITION, "no such stream");
}

static void *call_from_a_thread(void *caller) {
  for (int times = 0; times < 20; times++) call_say(*(nearcall_caller *)caller);
  return NULL;
}

static int run_client(const char *address) {
  nearcall_client client;
  nearcall_caller caller;
  nearcall_client_options options = {.size = sizeof options, .timeout_ns = PATIENCE_NS};
  MUST(nearcall_client_new(NEARCALL_ABI, &options, &client));
  MUST(nearcall_hunt(client, address, PATIENCE_NS));
  MUST(nearcall_caller_new(client, address, INTERFACE, &caller));
  call_say(caller);
  call_later(caller);
  call_notified(caller);
  call_lent(client, caller, lending_of(address), strstr(address, "trust=") != NULL);
  nearcall_call_options at_once = {.size = sizeof at_once, .flags = NEARCALL_TIMEOUT};
  stream(caller);
  nearcall_bytes reply;
  REFUSED(nearcall_call_method(caller, "Say", none, &at_once, &reply, NULL), DEADLINE_EXCEEDED, "");
  REFUSED(nearcall_call_method(caller, "Sai", none, NULL, &reply, NULL), UNIMPLEMENTED, "it has");
  REFUSED(nearcall_call_method(caller, "Sum", none, NULL, &reply, NULL), UNIMPLEMENTED, "stream");
  nearcall_attachment attachment;
  nearcall_notice notice;
  MUST(nearcall_attach(client, address, &attachment));
  REFUSED(nearcall_attachment_wait(attachment, 0, &notice), DEADLINE_EXCEEDED, "there");
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, call_from_a_thread, &caller));
  MUST(nearcall_client_free(client));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  MUST(nearcall_caller_free(caller));
  REFUSED(nearcall_call_method(caller, "Say", none, NULL, &reply, NULL), FAILED_PRECONDITION,
          "freed");
  puts("called");
  fflush(stdout);
  while (getchar() != EOF) {}
  MUST(nearcall_attachment_wait(attachment, PATIENCE_NS, &notice));
  CHECK(notice.cause == NEARCALL_CAUSE_CLOSED || notice.cause == NEARCALL_CAUSE_EXITED);
  MUST(nearcall_attachment_free(attachment));
  return 0;
}

/* -- Forks. -- */

static void call_once(const char *address) {
  nearcall_client client;
  nearcall_caller caller;
  nearcall_client_options options = {.size = sizeof options, .timeout_ns = PATIENCE_NS};
  int event = eventfd(0, EFD_CLOEXEC);
  nearcall_pending pending;
  struct item item;
  MUST(nearcall_client_new(NEARCALL_ABI, &options, &client));
  MUST(nearcall_caller_new(client, address, INTERFACE, &caller));
  call_say(caller);
  put(&item, 7);
  MUST(nearcall_start_notified(caller, "Say", view(&item), NULL, add_one, &event, &pending));
  await(event, 1);
  take_reply(&pending);
  close(event);
  MUST(nearcall_caller_free(caller));
  MUST(nearcall_client_free(client));
}

/* What the parent has made fails here, without a wait, and can be freed. */
static void use_of_a_child(nearcall_client client, nearcall_caller caller,
                           nearcall_pending pending[2], nearcall_server server) {
  nearcall_bytes reply;
  nearcall_stream stream;
  nearcall_loan loan;
  uint8_t *data;
  int event = 0;
  REFUSED(nearcall_call_method(caller, "Say", none, NULL, &reply, NULL), FAILED_PRECONDITION, "fork");
  REFUSED(nearcall_open_both_streams(caller, "Exchange", NULL, &stream), FAILED_PRECONDITION, "fork");
  REFUSED(nearcall_loan_new(caller, 9, NULL, &loan, &data), FAILED_PRECONDITION, "fork");
  CHECK(nearcall_pending_is_done(pending[0]));
  REFUSED(nearcall_pending_wait(pending[0], &reply, NULL), FAILED_PRECONDITION, "fork");
  event = eventfd(0, EFD_CLOEXEC);
  MUST(nearcall_start_notified(caller, "Say", none, NULL, add_one, &event, &pending[0]));
  await(event, 1);
  REFUSED(nearcall_pending_wait(pending[0], &reply, NULL), FAILED_PRECONDITION, "fork");
  nearcall_pending_cancel(pending[1]);
  MUST(nearcall_server_stop(server));
  MUST(nearcall_server_free(server));
  MUST(nearcall_caller_free(caller));
  MUST(nearcall_client_free(client));
}

static int run_fork(const char *address) {
  nearcall_client client;
  nearcall_caller caller, patient;
  nearcall_pending pending[2];
  nearcall_server server;
  nearcall_client_options options = {.size = sizeof options, .timeout_ns = PATIENCE_NS};
  nearcall_call_options wait = {.size = sizeof wait, .flags = NEARCALL_WAIT_FOR_READY,
                                .timeout_ns = UINT64_MAX};
  int event = eventfd(0, EFD_CLOEXEC);
  call_once(address);
  MUST(nearcall_client_new(NEARCALL_ABI, &options, &client));
  MUST(nearcall_caller_new(client, address, INTERFACE, &caller));
  MUST(nearcall_caller_new(client, "unix:@nearcall-c-nowhere", INTERFACE, &patient));
  call_say(caller);
  for (int number = 0; number < 2; number++)
    MUST(nearcall_start_notified(patient, "Say", none, &wait, add_one, &event, &pending[number]));
  MUST(nearcall_server_new(NEARCALL_ABI, NULL, &server));
  MUST(nearcall_server_start(server));
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    alarm(60);
    use_of_a_child(client, caller, pending, server);
    call_once(address);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
  call_say(caller);
  for (int number = 0; number < 2; number++) MUST(nearcall_pending_cancel(pending[number]));
  await(event, 2);
  close(event);
  MUST(nearcall_server_free(server));
  MUST(nearcall_caller_free(patient));
  MUST(nearcall_caller_free(caller));
  MUST(nearcall_client_free(client));
  puts("called");
  return 0;
}

/* -- Two copies of the library in one process. -- */

static int run_copies(const char *library) {
  void *other = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!other) fprintf(stderr, "%s\n", dlerror());
  CHECK(other);
  nearcall_status *(*client_new)(uint32_t, const nearcall_client_options *, nearcall_client *);
  nearcall_status *(*client_free)(nearcall_client);
  void (*status_free)(nearcall_status *);
  *(void **)&client_new = dlsym(other, "nearcall_client_new");
  *(void **)&client_free = dlsym(other, "nearcall_client_free");
  *(void **)&status_free = dlsym(other, "nearcall_status_free");
  CHECK(client_new && client_free && status_free && client_new != nearcall_client_new);
  for (int times = 0; times < 8; times++) {
    nearcall_client ours, theirs;
    MUST(nearcall_client_new(NEARCALL_ABI, NULL, &ours));
    CHECK(!client_new(NEARCALL_ABI, NULL, &theirs));
    REFUSED(nearcall_client_free(theirs), FAILED_PRECONDITION, "not this library's");
    nearcall_status *refused = client_free(ours);
    CHECK(nearcall_status_code(refused) == FAILED_PRECONDITION);
    status_free(refused);
    CHECK(!client_free(theirs));
    MUST(nearcall_client_free(ours));
  }
  return 0;
}

/* -- What no program should do. -- */

/* Lengths that nothing can have, and structs that say they are longer or shorter than any. */
static void lie_about_lengths(nearcall_caller caller) {
  nearcall_bytes bytes;
  nearcall_entry entry = {"x", {NULL, 1}};
  nearcall_call_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
  REFUSED(nearcall_call_method(caller, "Say", none, &options, &bytes, NULL), INVALID_ARGUMENT,
          "`options.entries.value` is null");
  options.entry_count = SIZE_MAX / 2;
  REFUSED(nearcall_call_method(caller, "Say", none, &options, &bytes, NULL), INVALID_ARGUMENT,
          "`options.entries` cannot be");
  options.entries = NULL;
  REFUSED(nearcall_call_method(caller, "Say", none, &options, &bytes, NULL), INVALID_ARGUMENT,
          "`options.entries` is null");
  const size_t sizes[] = {0, 1, sizeof(size_t) - 1, SIZE_MAX, (size_t)1 << 40};
  for (size_t number = 0; number < sizeof sizes / sizeof *sizes; number++) {
    nearcall_counters counters = {.size = sizes[number]};
    nearcall_call_options lying = {.size = sizes[number]};
    REFUSED(nearcall_call_method(caller, "Say", none, &lying, &bytes, NULL), INVALID_ARGUMENT,
            "sizeof");
    REFUSED(nearcall_server_counters((nearcall_server){1}, &counters), INVALID_ARGUMENT, "sizeof");
  }
  /* A handle in options that are longer than those of this library, and one that is foreign. */
  struct { nearcall_call_options known; uint64_t later; } newer = {{.size = sizeof newer}, 1};
  REFUSED(nearcall_call_method(caller, "Say", none, &newer.known, &bytes, NULL), UNIMPLEMENTED,
          "newer");
  newer.later = 0, newer.known.loan.id = caller.id;
  REFUSED(nearcall_call_method(caller, "Say", none, &newer.known, &bytes, NULL),
          FAILED_PRECONDITION, "no such loan");
}

static void *start_server(void *server) {
  nearcall_status_free(nearcall_server_start(*(nearcall_server *)server));
  return NULL;
}

/* A server that is stopped and freed while it starts, by another thread. */
static void start_and_stop(void) {
  for (int times = 0; times < 20; times++) {
    nearcall_server server;
    pthread_t thread;
    MUST(nearcall_server_new(NEARCALL_ABI, NULL, &server));
    MUST(nearcall_server_listen(server, "tcp://127.0.0.1:0", NULL));
    CHECK(!pthread_create(&thread, NULL, start_server, &server));
    if (times % 2) MUST(nearcall_server_stop(server));
    MUST(nearcall_server_free(server));
    pthread_join(thread, NULL);
    REFUSED(nearcall_server_stop(server), FAILED_PRECONDITION, "no such server");
  }
}

static void *use_of_another_thread(void *stream) {
  nearcall_bytes item;
  uint32_t has_item;
  REFUSED(nearcall_stream_receive(*(nearcall_stream *)stream, &item, &has_item),
          FAILED_PRECONDITION, "in this thread");
  return NULL;
}

static int misuse(void) {
  nearcall_client client, stale = {0};
  nearcall_caller caller;
  nearcall_bytes bytes;
  uint32_t has_item;
  CHECK(nearcall_abi() == NEARCALL_ABI);
  REFUSED(nearcall_client_new(NEARCALL_ABI + 1, NULL, &client), FAILED_PRECONDITION, "interface 2");
  REFUSED(nearcall_client_new(NEARCALL_ABI, NULL, NULL), INVALID_ARGUMENT, "`client` is null");
  nearcall_client_options options = {0};
  REFUSED(nearcall_client_new(NEARCALL_ABI, &options, &client), INVALID_ARGUMENT, "sizeof");
  struct { nearcall_client_options known; uint64_t later; } newer = {{sizeof newer, 0, 0, 0}, 0};
  MUST(nearcall_client_new(NEARCALL_ABI, &newer.known, &client));
  MUST(nearcall_client_free(client));
  newer.later = 1;
  REFUSED(nearcall_client_new(NEARCALL_ABI, &newer.known, &stale), UNIMPLEMENTED, "newer");
  REFUSED(nearcall_client_free(client), FAILED_PRECONDITION, "was freed");
  REFUSED(nearcall_client_free(stale), FAILED_PRECONDITION, "is 0");
  REFUSED(nearcall_caller_new(client, "x", INTERFACE, &caller), FAILED_PRECONDITION, "was freed");
  MUST(nearcall_client_new(NEARCALL_ABI, NULL, &client));
  REFUSED(nearcall_caller_new(client, NULL, INTERFACE, &caller), INVALID_ARGUMENT, "`address`");
  REFUSED(nearcall_caller_new(client, "\xff", INTERFACE, &caller), INVALID_ARGUMENT, "UTF-8");
  REFUSED(nearcall_caller_new(client, "ftp://x", INTERFACE, &caller), INVALID_ARGUMENT, "ftp");
  MUST(nearcall_caller_new(client, "unix:@nearcall-c-nowhere", INTERFACE, &caller));
  nearcall_status *status = nearcall_call_method(caller, "Say", none, NULL, &bytes, NULL);
  CHECK(nearcall_status_code(status) == 14 && nearcall_status_has_not_begun(status));
  nearcall_status_free(status);
  REFUSED(nearcall_call_method(caller, NULL, none, NULL, &bytes, NULL), INVALID_ARGUMENT,
          "`method` is null");
  REFUSED(nearcall_call_method(caller, "Say", (nearcall_view){NULL, 1}, NULL, &bytes, NULL),
          INVALID_ARGUMENT, "`request` is null");
  REFUSED(nearcall_call_method(caller, "Say", (nearcall_view){(const uint8_t *)"", SIZE_MAX}, NULL,
                               &bytes, NULL), INVALID_ARGUMENT, "`request` cannot be");
  REFUSED(nearcall_call_method(caller, "Say", none, NULL, NULL, NULL), INVALID_ARGUMENT,
          "`reply` is null");
  nearcall_call_options call = {.size = sizeof call, .flags = 64};
  REFUSED(nearcall_call_method(caller, "Say", none, &call, &bytes, NULL), INVALID_ARGUMENT, "0x40");
  nearcall_entry entry = {"Upper", {(const uint8_t *)"x", 1}};
  call.flags = 0, call.entries = &entry, call.entry_count = 1;
  REFUSED(nearcall_call_method(caller, "Say", none, &call, &bytes, NULL), INVALID_ARGUMENT, "Upper");
  nearcall_counters counters = {0};
  REFUSED(nearcall_client_counters(client, &counters), INVALID_ARGUMENT, "sizeof");
  counters.size = 2 * sizeof counters.size, counters.messages_sent = 9;
  MUST(nearcall_client_counters(client, &counters));
  CHECK(counters.connections == 0 && counters.messages_sent == 9);
  nearcall_pending pending = {9};
  REFUSED(nearcall_start_notified(caller, "Say", none, NULL, NULL, NULL, &pending),
          INVALID_ARGUMENT, "`done` is null");
  CHECK(pending.id == 9);
  lie_about_lengths(caller);
  start_and_stop();
  /* Handles of another kind, and of a call that is not. */
  REFUSED(nearcall_caller_free((nearcall_caller){client.id}), FAILED_PRECONDITION, "no such caller");
  REFUSED(nearcall_call_reply((nearcall_call){client.id}, none), FAILED_PRECONDITION, "no such call");
  CHECK(nearcall_call_is_cancelled((nearcall_call){7}) == 1);
  nearcall_stream stream = {caller.id};
  REFUSED(nearcall_stream_receive(stream, &bytes, &has_item), FAILED_PRECONDITION, "no such stream");
  pthread_t thread;
  CHECK(!pthread_create(&thread, NULL, use_of_another_thread, &stream));
  pthread_join(thread, NULL);
  nearcall_server server;
  nearcall_service empty = {.size = sizeof empty};
  MUST(nearcall_server_new(NEARCALL_ABI, NULL, &server));
  REFUSED(nearcall_server_register(server, NULL, none, INTERFACE, NULL), INVALID_ARGUMENT,
          "`service` is null");
  REFUSED(nearcall_server_register(server, NULL, none, INTERFACE, &empty), INVALID_ARGUMENT,
          "`service.serve` is null");
  REFUSED(nearcall_server_register(server, NULL, (nearcall_view){(const uint8_t *)"?", 1}, INTERFACE,
                                   &service), INVALID_ARGUMENT, "");
  REFUSED(nearcall_server_drain(server, 0), FAILED_PRECONDITION, "does not run");
  REFUSED(nearcall_server_counters(server, &counters), FAILED_PRECONDITION, "does not run");
  MUST(nearcall_server_listen(server, "nothing good://", NULL));
  REFUSED(nearcall_server_start(server), FAILED_PRECONDITION, "nothing good");
  MUST(nearcall_server_stop(server));
  MUST(nearcall_server_free(server));
  nearcall_loop loop;
  int32_t descriptor;
  MUST(nearcall_loop_new(NEARCALL_ABI, &loop));
  MUST(nearcall_loop_descriptor(loop, &descriptor));
  MUST(nearcall_loop_turn(loop));
  MUST(nearcall_loop_free(loop));
  REFUSED(nearcall_loop_turn(loop), FAILED_PRECONDITION, "no such loop");
  CHECK(released == 0);
  nearcall_bytes_free(NULL);
  nearcall_status_free(NULL);
  nearcall_metadata_free(NULL);
  MUST(nearcall_caller_free(caller));
  MUST(nearcall_client_free(client));
  return 0;
}

int main(int count, char **arguments) {
  if (count == 4 && !strcmp(arguments[1], "server")) return run_server(arguments[2], arguments[3]);
  if (count == 3 && !strcmp(arguments[1], "client")) return run_client(arguments[2]);
  if (count == 3 && !strcmp(arguments[1], "fork")) return run_fork(arguments[2]);
  if (count == 3 && !strcmp(arguments[1], "copies")) return run_copies(arguments[2]);
  if (count == 2 && !strcmp(arguments[1], "misuse")) return misuse();
  return 2;
}
