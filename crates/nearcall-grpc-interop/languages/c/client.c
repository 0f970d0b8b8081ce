/* The client of the suite of all languages in C. Messages are bytes, encoded by hand.
 *
 * Invariants: each line is answered by one line.
 * Not here: what the lines mean (src/languages/cases.rs).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

#include "messages.h"

#define UNIMPLEMENTED_SERVICE "grpc.testing.UnimplementedService"

static nearcall_client client;
static nearcall_caller service, unimplemented, notes;
static nearcall_attachment attachment;
static const char *server_address;
static char results[1 << 14];
/* What is wrong with a reply that has come with OK, or with a line. */
static const char *complaint, *complaint_code;

static void add_result(const char *format, ...) {
  size_t length = strlen(results);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(results + length, sizeof results - length, format, arguments);
  va_end(arguments);
}

static void add_hex(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) add_result("%02x", data[i]);
}

/* Checks that the payload in a field consists of zeros, and returns its size. */
static size_t check_payload(nearcall_view message, unsigned field) {
  nearcall_view body = body_of(message, field);
  for (size_t i = 0; i < body.size; i++)
    if (body.data[i]) complaint = "a payload does not consist of zeros";
  return body.size;
}

static int number(const char *word) { return (int)strtol(word, NULL, 10); }

static uint64_t milliseconds(const char *word) {
  return (uint64_t)number(word) * UINT64_C(1000000);
}

/* Decodes a hexadecimal number in place, and returns its bytes. */
static nearcall_view bytes_of(char *hex) {
  size_t size = strlen(hex) / 2;
  for (size_t i = 0; i < size; i++) {
    char digits[] = {hex[2 * i], hex[2 * i + 1], 0};
    hex[i] = (char)strtoul(digits, NULL, 16);
  }
  return (nearcall_view){(const uint8_t *)hex, size};
}

static nearcall_status *call(nearcall_caller caller, const char *method, struct message *request,
                             const nearcall_call_options *options, nearcall_bytes *reply,
                             nearcall_metadata **metadata) {
  nearcall_status *status =
      nearcall_call_method(caller, method, view(request), options, reply, metadata);
  release(request);
  return status;
}

/* Calls a method whose reply does not matter. */
static nearcall_status *call_plainly(nearcall_caller caller, const char *method,
                                     struct message *request,
                                     const nearcall_call_options *options) {
  nearcall_bytes reply;
  TRY(call(caller, method, request, options, &reply, NULL));
  nearcall_bytes_free(&reply);
  return NULL;
}

static nearcall_status *call_unary(nearcall_caller caller, int request_size, int reply_size,
                                   size_t *size) {
  struct message request = {NULL, 0, 0};
  nearcall_bytes reply;
  put_number(&request, 2, (uint64_t)reply_size);
  put_payload(&request, 3, (size_t)request_size);
  TRY(call(caller, "UnaryCall", &request, NULL, &reply, NULL));
  *size = check_payload((nearcall_view){reply.data, reply.size}, 1);
  nearcall_bytes_free(&reply);
  return NULL;
}

static nearcall_status *unary(char **words) {
  size_t size = 0;
  TRY(call_unary(service, number(words[1]), number(words[2]), &size));
  add_result(" %zu", size);
  return NULL;
}

/* Options with the entries that come back. */
static nearcall_call_options echo_options(char **words, nearcall_entry *entries) {
  entries[0] = (nearcall_entry){ECHO_INITIAL, {(const uint8_t *)words[1], strlen(words[1])}};
  entries[1] = (nearcall_entry){ECHO_TRAILING, bytes_of(words[2])};
  return (nearcall_call_options){
      .size = sizeof(nearcall_call_options), .entries = entries, .entry_count = 2};
}

static void add_echoes(const nearcall_metadata *headers, const nearcall_metadata *trailers) {
  nearcall_view text, bytes;
  if (!nearcall_metadata_header(headers, ECHO_INITIAL, &text)) complaint = "the headers lack it";
  else if (!nearcall_metadata_trailer(trailers, ECHO_TRAILING, &bytes))
    complaint = "the trailers lack it";
  else {
    add_result(" %.*s ", (int)text.size, (const char *)text.data);
    add_hex(bytes.data, bytes.size);
  }
}

static nearcall_status *unary_metadata(char **words) {
  nearcall_entry entries[2];
  nearcall_call_options options = echo_options(words, entries);
  nearcall_metadata *metadata = NULL;
  nearcall_bytes reply;
  struct message request = {NULL, 0, 0};
  nearcall_status *status = call(service, "UnaryCall", &request, &options, &reply, &metadata);
  if (!status) {
    add_echoes(metadata, metadata);
    nearcall_bytes_free(&reply);
  }
  nearcall_metadata_free(metadata);
  return status;
}

/* A request to end with a code and a text. */
static void put_status(struct message *request, char **words) {
  struct message status = {NULL, 0, 0};
  put_number(&status, 1, (uint64_t)number(words[1]));
  put_bytes(&status, 2, bytes_of(words[2]));
  put_message(request, 7, &status);
}

static nearcall_status *unary_status(char **words) {
  struct message request = {NULL, 0, 0};
  put_status(&request, words);
  return call_plainly(service, "UnaryCall", &request, NULL);
}

static nearcall_status *cacheable(char **words) {
  nearcall_metadata *metadata = NULL;
  nearcall_bytes reply;
  nearcall_view value = none;
  struct message request = {NULL, 0, 0};
  put_payload(&request, 3, (size_t)number(words[1]));
  nearcall_status *status =
      call(service, "CacheableUnaryCall", &request, NULL, &reply, &metadata);
  if (!status) {
    nearcall_metadata_trailer(metadata, "cache-control", &value);
    add_result(" %zu ", check_payload((nearcall_view){reply.data, reply.size}, 1));
    add_hex(value.data, value.size);
    nearcall_bytes_free(&reply);
  }
  nearcall_metadata_free(metadata);
  return status;
}

static nearcall_status *send(nearcall_stream stream, struct message *item) {
  nearcall_status *status = nearcall_stream_send(stream, view(item));
  release(item);
  return status;
}

/* Receives a reply, and adds the size of its payload to the results. */
static nearcall_status *receive(nearcall_stream stream, uint32_t *has_item) {
  nearcall_bytes item;
  TRY(nearcall_stream_receive(stream, &item, has_item));
  if (*has_item) add_result(" %zu", check_payload((nearcall_view){item.data, item.size}, 1));
  nearcall_bytes_free(&item);
  return NULL;
}

static nearcall_status *receive_rest(nearcall_stream stream) {
  for (uint32_t has_item = 1; has_item;) TRY(receive(stream, &has_item));
  return NULL;
}

/* Does something with a stream, and frees it. */
typedef nearcall_status *work(nearcall_stream stream, char **words);

static nearcall_status *use_stream(nearcall_stream stream, work *use, char **words) {
  nearcall_status *status = use(stream, words);
  nearcall_status_free(nearcall_stream_free(stream));
  return status;
}

static nearcall_status *send_input(nearcall_stream stream, char **words) {
  nearcall_bytes reply;
  for (char **word = words + 1; *word; word++) {
    struct message item = {NULL, 0, 0};
    put_payload(&item, 1, (size_t)number(*word));
    TRY(send(stream, &item));
  }
  TRY(nearcall_stream_finish(stream, &reply, NULL));
  add_result(" %" PRIu64, find((nearcall_view){reply.data, reply.size}, 1).value);
  nearcall_bytes_free(&reply);
  return NULL;
}

static nearcall_status *cancel(nearcall_stream stream, char **words) {
  (void)stream, (void)words;
  return NULL;
}

static nearcall_status *request_stream(work *use, char **words) {
  nearcall_stream stream;
  TRY(nearcall_open_request_stream(service, "StreamingInputCall", NULL, &stream));
  return use_stream(stream, use, words);
}

static void put_parameters(struct message *request, const char *size, const char *interval) {
  struct message parameters = {NULL, 0, 0};
  put_number(&parameters, 1, (uint64_t)number(size));
  put_number(&parameters, 2, (uint64_t)number(interval));
  put_message(request, 2, &parameters);
}

static nearcall_status *receive_output(nearcall_stream stream, char **words) {
  (void)words;
  return receive_rest(stream);
}

static nearcall_status *output(char **words) {
  nearcall_stream stream;
  struct message request = {NULL, 0, 0};
  for (char **word = words + 2; *word; word++) put_parameters(&request, *word, words[1]);
  nearcall_status *status = nearcall_open_reply_stream(service, "StreamingOutputCall",
                                                       view(&request), NULL, &stream);
  release(&request);
  return status ? status : use_stream(stream, receive_output, words);
}

static nearcall_status *duplex(const char *method, const nearcall_call_options *options, work *use,
                               char **words) {
  nearcall_stream stream;
  TRY(nearcall_open_both_streams(service, method, options, &stream));
  return use_stream(stream, use, words);
}

/* Sends a request such as 27182:31415: a payload of 27182 bytes for a reply of 31415. */
static nearcall_status *send_turn(nearcall_stream stream, const char *turn) {
  struct message request = {NULL, 0, 0};
  put_parameters(&request, strchr(turn, ':') + 1, "0");
  put_payload(&request, 3, (size_t)number(turn));
  return send(stream, &request);
}

static nearcall_status *exchange(nearcall_stream stream, const char *turn) {
  uint32_t has_item;
  TRY(send_turn(stream, turn));
  TRY(receive(stream, &has_item));
  if (!has_item) complaint = "the replies have ended";
  return NULL;
}

static nearcall_status *ping_pong(nearcall_stream stream, char **words) {
  for (char **word = words + 1; *word; word++) TRY(exchange(stream, *word));
  TRY(nearcall_stream_finish(stream, NULL, NULL));
  return receive_rest(stream);
}

static nearcall_status *switching(nearcall_stream stream, char **words) {
  TRY(exchange(stream, "8:9"));
  for (char **word = words + 1; *word; word++) {
    TRY(nearcall_switch(client, server_address, *word, PATIENCE_NS));
    TRY(exchange(stream, "8:9"));
  }
  TRY(nearcall_stream_finish(stream, NULL, NULL));
  return receive_rest(stream);
}

static nearcall_status *half_duplex(nearcall_stream stream, char **words) {
  for (char **word = words + 1; *word; word++) TRY(send_turn(stream, *word));
  TRY(nearcall_stream_finish(stream, NULL, NULL));
  return receive_rest(stream);
}

static nearcall_status *receive_echoes(nearcall_stream stream, char **words) {
  nearcall_metadata *headers, *trailers;
  (void)words;
  TRY(nearcall_stream_finish(stream, NULL, NULL));
  TRY(receive_rest(stream));
  TRY(nearcall_stream_headers(stream, &headers));
  nearcall_status *status = nearcall_stream_trailers(stream, &trailers);
  if (!status) {
    add_echoes(headers, trailers);
    nearcall_metadata_free(trailers);
  }
  nearcall_metadata_free(headers);
  return status;
}

static nearcall_status *duplex_metadata(char **words) {
  nearcall_entry entries[2];
  nearcall_call_options options = echo_options(words, entries);
  return duplex("FullDuplexCall", &options, receive_echoes, words);
}

static nearcall_status *duplex_status(nearcall_stream stream, char **words) {
  struct message request = {NULL, 0, 0};
  put_status(&request, words);
  TRY(send(stream, &request));
  return receive_rest(stream);
}

static nearcall_status *wait_for_nothing(nearcall_stream stream, char **words) {
  struct message request = {NULL, 0, 0};
  (void)words;
  put_payload(&request, 3, 27182);
  TRY(send(stream, &request));
  return receive_rest(stream);
}

static nearcall_status *cancel_after_first(nearcall_stream stream, char **words) {
  (void)words;
  TRY(exchange(stream, "27182:31415"));
  *results = 0;
  return NULL;
}

static nearcall_call_options deadline(const char *word) {
  return (nearcall_call_options){.size = sizeof(nearcall_call_options),
                                 .timeout_ns = milliseconds(word)};
}

static nearcall_status *new_client(nearcall_client *made) {
  nearcall_client_options options = {.size = sizeof options, .timeout_ns = PATIENCE_NS};
  return nearcall_client_new(NEARCALL_ABI, &options, made);
}

static nearcall_status *soak(char **words) {
  size_t size;
  for (int calls = number(words[1]); calls > 0; calls--)
    TRY(call_unary(service, number(words[2]), number(words[3]), &size));
  add_result(" %s", words[1]);
  return NULL;
}

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static nearcall_status *time_calls(char **words) {
  int calls = number(words[1]), size = number(words[2]);
  struct message request = {NULL, 0, 0};
  if (size) {
    put_number(&request, 2, (uint64_t)size);
    put_payload(&request, 3, (size_t)size);
  }
  const char *method = size ? "UnaryCall" : "EmptyCall";
  nearcall_status *status = NULL;
  uint64_t start = now_ns();
  for (int i = 0; i < calls && !status; i++) {
    nearcall_bytes reply = {NULL, 0, NULL};
    status = nearcall_call_method(service, method, view(&request), NULL, &reply, NULL);
    nearcall_bytes_free(&reply);
  }
  add_result(" %.1f", (double)(now_ns() - start) / calls);
  release(&request);
  return status;
}

static nearcall_status *reconnect_soak(char **words) {
  size_t size;
  for (int calls = number(words[1]); calls > 0; calls--) {
    nearcall_client other;
    nearcall_caller caller;
    must(new_client(&other));
    must(nearcall_caller_new(other, server_address, TEST_SERVICE, &caller));
    nearcall_status *status =
        call_unary(caller, number(words[2]), number(words[3]), &size);
    must(nearcall_caller_free(caller));
    must(nearcall_client_free(other));
    if (status) return status;
  }
  add_result(" %s", words[1]);
  return NULL;
}

static nearcall_status *leave_note(char **words) {
  struct message note = {NULL, 0, 0};
  put_bytes(&note, 1, (nearcall_view){(const uint8_t *)words[1], strlen(words[1])});
  nearcall_status *status = nearcall_send(notes, "Leave", view(&note), NULL);
  release(&note);
  return status;
}

static nearcall_status *count_notes(const char *method, const char *text) {
  struct message note = {NULL, 0, 0};
  nearcall_bytes reply;
  put_bytes(&note, 1, (nearcall_view){(const uint8_t *)text, strlen(text)});
  TRY(call(notes, method, &note, NULL, &reply, NULL));
  add_result(" %" PRIu64, find((nearcall_view){reply.data, reply.size}, 1).value);
  nearcall_bytes_free(&reply);
  return NULL;
}

static nearcall_status *sleep_at_server(char **words) {
  nearcall_call_options options = deadline(words[2]);
  struct message request = {NULL, 0, 0};
  put_number(&request, 1, (uint64_t)number(words[1]));
  return call_plainly(notes, "Sleep", &request, &options);
}

static nearcall_status *attach(void) {
  if (attachment.id) must(nearcall_attachment_free(attachment));
  attachment = (nearcall_attachment){0};
  return nearcall_attach(client, server_address, &attachment);
}

static nearcall_status *notice(char **words) {
  static const char *const causes[] = {"", "exited", "killed", "closed", "replaced",
                                       "unresponsive", "lost"};
  nearcall_notice given;
  TRY(nearcall_attachment_wait(attachment, milliseconds(words[1]), &given));
  add_result(" %s", causes[given.cause]);
  return NULL;
}

/* Does what a line says. */
static nearcall_status *execute(char **words, int count) {
  struct message empty = {NULL, 0, 0};
  const char *name = words[0];
#define IS(word, arguments) (!strcmp(name, word) && count == 1 + (arguments))
#define BEGINS(word) (!strcmp(name, word))
  if (IS("empty", 0)) return call_plainly(service, "EmptyCall", &empty, NULL);
  if (IS("unary", 2)) return unary(words);
  if (IS("unary-metadata", 2)) return unary_metadata(words);
  if (IS("unary-status", 2)) return unary_status(words);
  if (IS("cacheable", 1)) return cacheable(words);
  if (BEGINS("input")) return request_stream(send_input, words);
  if (BEGINS("output") && count > 1) return output(words);
  if (BEGINS("ping-pong")) return duplex("FullDuplexCall", NULL, ping_pong, words);
  if (BEGINS("half-duplex")) return duplex("HalfDuplexCall", NULL, half_duplex, words);
  if (IS("duplex-metadata", 2)) return duplex_metadata(words);
  if (IS("duplex-status", 2)) return duplex("FullDuplexCall", NULL, duplex_status, words);
  if (IS("duplex-deadline", 1)) {
    nearcall_call_options options = deadline(words[1]);
    return duplex("FullDuplexCall", &options, wait_for_nothing, words);
  }
  if (IS("unimplemented-method", 0))
    return call_plainly(service, "UnimplementedCall", &empty, NULL);
  if (IS("unimplemented-service", 0))
    return call_plainly(unimplemented, "UnimplementedCall", &empty, NULL);
  if (IS("cancel-after-begin", 0)) return request_stream(cancel, words);
  if (IS("cancel-after-first", 0))
    return duplex("FullDuplexCall", NULL, cancel_after_first, words);
  if (IS("soak", 3)) return soak(words);
  if (IS("reconnect-soak", 3)) return reconnect_soak(words);
  if (IS("time", 2)) return time_calls(words);
  if (IS("note", 1)) return leave_note(words);
  if (IS("keep", 1)) return count_notes("Keep", words[1]);
  if (IS("notes", 0)) return count_notes("Count", "");
  if (IS("sleep", 2)) return sleep_at_server(words);
  if (IS("hunt", 1)) return nearcall_hunt(client, server_address, milliseconds(words[1]));
  if (IS("attach", 0)) return attach();
  if (IS("notice", 1)) return notice(words);
  if (IS("switch", 1)) return nearcall_switch(client, server_address, words[1], PATIENCE_NS);
  if (BEGINS("switching")) return duplex("FullDuplexCall", NULL, switching, words);
  complaint = "there is no such command", complaint_code = "INVALID_ARGUMENT";
  return NULL;
#undef IS
#undef BEGINS
}

static void print_answer(nearcall_status *status) {
  if (!status && !complaint) {
    printf("OK%s\n", results);
  } else {
    const char *text = status ? nearcall_status_message(status) : complaint;
    printf("%s ", status ? nearcall_code_name(nearcall_status_code(status)) : complaint_code);
    for (; *text; text++) printf("%02x", (unsigned char)*text);
    putchar('\n');
  }
  fflush(stdout);
  nearcall_status_free(status);
}

int run_client(const char *address) {
  static char line[1 << 14], *words[1 << 12];
  server_address = address;
  must(new_client(&client));
  must(nearcall_caller_new(client, address, TEST_SERVICE, &service));
  must(nearcall_caller_new(client, address, UNIMPLEMENTED_SERVICE, &unimplemented));
  must(nearcall_caller_new(client, address, NOTES, &notes));
  while (fgets(line, sizeof line, stdin)) {
    int count = 0;
    for (char *word = strtok(line, " \n"); word && count + 1 < 1 << 12; word = strtok(NULL, " \n"))
      words[count++] = word;
    /* An empty line is answered as well. */
    if (!count) words[count++] = "";
    words[count] = NULL;
    *results = 0, complaint = NULL, complaint_code = "DATA_LOSS";
    print_answer(execute(words, count));
  }
  if (attachment.id) must(nearcall_attachment_free(attachment));
  must(nearcall_caller_free(notes));
  must(nearcall_caller_free(unimplemented));
  must(nearcall_caller_free(service));
  must(nearcall_client_free(client));
  return 0;
}
