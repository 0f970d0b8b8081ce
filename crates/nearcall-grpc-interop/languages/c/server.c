/* The server of the suite of all languages in C: grpc.testing.TestService, and notes.
 *
 * Invariants: a call that waits is served by a thread of its own, and not by that of the loop.
 * Not here: how messages are read and written (messages.h).
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "messages.h"

#define CACHE_CONTROL "max-age=60, public"
enum { UNIMPLEMENTED = 12 };

static atomic_uint kept_notes;

static void pause_for(uint64_t microseconds) {
  struct timespec time = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
  if (microseconds) nanosleep(&time, NULL);
}

/* Ends a call, if its request asks for an error: returns 1 then. */
static int fail_as_asked(nearcall_call call, nearcall_view request, nearcall_status **status) {
  nearcall_view wanted = find(request, 7).bytes;
  uint64_t code = find(wanted, 1).value;
  if (!code) return 0;
  nearcall_view text = find(wanted, 2).bytes;
  char *message = allocated(calloc(1, text.size + 1));
  if (text.size) memcpy(message, text.data, text.size);
  *status = nearcall_call_fail(call, (uint32_t)code, message);
  free(message);
  return 1;
}

static void echo_metadata(nearcall_call call) {
  nearcall_view value;
  if (nearcall_call_entry(call, ECHO_INITIAL, &value))
    must(nearcall_call_add_header(call, ECHO_INITIAL, value));
  if (nearcall_call_entry(call, ECHO_TRAILING, &value))
    must(nearcall_call_add_trailer(call, ECHO_TRAILING, value));
}

static nearcall_status *serve_unary(nearcall_call call, nearcall_view request) {
  struct message reply = {NULL, 0, 0};
  nearcall_status *status = NULL;
  echo_metadata(call);
  if (fail_as_asked(call, request, &status)) return status;
  put_payload(&reply, 1, (size_t)find(request, 2).value);
  status = nearcall_call_reply(call, view(&reply));
  release(&reply);
  return status;
}

static nearcall_status *serve_cacheable(nearcall_call call, nearcall_view request) {
  struct message reply = {NULL, 0, 0};
  nearcall_view value = {(const uint8_t *)CACHE_CONTROL, strlen(CACHE_CONTROL)};
  must(nearcall_call_add_trailer(call, "cache-control", value));
  put_bytes(&reply, 1, find(request, 3).bytes);
  nearcall_status *status = nearcall_call_reply(call, view(&reply));
  release(&reply);
  return status;
}

/* Sends the replies that a request asks for. */
static nearcall_status *send_replies(nearcall_call call, nearcall_view request) {
  struct field field;
  while (next_field(&request, &field)) {
    if (field.number != 2) continue;
    struct message reply = {NULL, 0, 0};
    pause_for(find(field.bytes, 2).value);
    put_payload(&reply, 1, (size_t)find(field.bytes, 1).value);
    nearcall_status *status = nearcall_call_send(call, view(&reply));
    release(&reply);
    if (status) return status;
  }
  return NULL;
}

/* A call that a thread of its own serves, since it waits. */
struct job {
  nearcall_call call;
  nearcall_status *(*serve)(nearcall_call call, nearcall_view request);
  struct message request;
};

static nearcall_status *serve_output(nearcall_call call, nearcall_view request) {
  TRY(send_replies(call, request));
  return nearcall_call_reply(call, none);
}

static nearcall_status *serve_input(nearcall_call call, nearcall_view request) {
  uint64_t sum = 0;
  nearcall_bytes item;
  (void)request;
  for (uint32_t has_item = 1;;) {
    TRY(nearcall_call_receive(call, &item, &has_item));
    if (!has_item) break;
    sum += body_of((nearcall_view){item.data, item.size}, 1).size;
    nearcall_bytes_free(&item);
  }
  struct message reply = {NULL, 0, 0};
  put_number(&reply, 1, sum);
  nearcall_status *status = nearcall_call_reply(call, view(&reply));
  release(&reply);
  return status;
}

static nearcall_status *serve_full_duplex(nearcall_call call, nearcall_view request) {
  nearcall_bytes item;
  (void)request;
  for (uint32_t has_item = 1;;) {
    nearcall_status *status = NULL;
    TRY(nearcall_call_receive(call, &item, &has_item));
    if (!has_item) return nearcall_call_reply(call, none);
    nearcall_view received = {item.data, item.size};
    int has_ended = fail_as_asked(call, received, &status);
    if (!has_ended) status = send_replies(call, received);
    nearcall_bytes_free(&item);
    if (has_ended || status) return status;
  }
}

/* All requests, then all replies: requests one after the other are a request with all of it. */
static nearcall_status *serve_half_duplex(nearcall_call call, nearcall_view request) {
  struct message all = {NULL, 0, 0};
  nearcall_status *status = NULL;
  nearcall_bytes item;
  (void)request;
  for (uint32_t has_item = 1; !status && has_item;) {
    status = nearcall_call_receive(call, &item, &has_item);
    if (status || !has_item) break;
    if (item.size) memcpy(extend(&all, item.size), item.data, item.size);
    nearcall_bytes_free(&item);
  }
  if (!status) status = send_replies(call, view(&all));
  release(&all);
  return status ? status : nearcall_call_reply(call, none);
}

static nearcall_status *serve_sleep(nearcall_call call, nearcall_view request) {
  uint64_t left_ms = find(request, 1).value;
  for (; left_ms && !nearcall_call_is_cancelled(call); left_ms--) pause_for(1000);
  return nearcall_call_reply(call, none);
}

/* Ends a call that could not be served, such as a stream that was cancelled. */
static void end(nearcall_call call, nearcall_status *status) {
  if (!status) return;
  uint32_t code = nearcall_status_code(status);
  nearcall_status_free(nearcall_call_fail(call, code, nearcall_status_message(status)));
  nearcall_status_free(status);
}

static void *run_job(void *data) {
  struct job *job = data;
  end(job->call, job->serve(job->call, view(&job->request)));
  release(&job->request);
  free(job);
  return NULL;
}

/* Has a thread serve a call. */
static nearcall_status *serve_later(nearcall_call call, nearcall_view request,
                                    nearcall_status *(*serve)(nearcall_call, nearcall_view)) {
  pthread_t thread;
  TRY(nearcall_call_defer(call));
  struct job *job = allocated(calloc(1, sizeof *job));
  job->call = call, job->serve = serve;
  if (request.size) memcpy(extend(&job->request, request.size), request.data, request.size);
  if (pthread_create(&thread, NULL, run_job, job)) abort();
  pthread_detach(thread);
  return NULL;
}

static void serve_test(void *data, nearcall_call call, const nearcall_request *request) {
  const char *method = request->method;
  nearcall_status *status = NULL;
  (void)data;
  if (!strcmp(method, "EmptyCall")) {
    status = nearcall_call_reply(call, none);
  } else if (!strcmp(method, "UnaryCall")) {
    status = serve_unary(call, request->message);
  } else if (!strcmp(method, "CacheableUnaryCall")) {
    status = serve_cacheable(call, request->message);
  } else if (!strcmp(method, "StreamingOutputCall")) {
    status = serve_later(call, request->message, serve_output);
  } else if (!strcmp(method, "StreamingInputCall")) {
    status = serve_later(call, none, serve_input);
  } else if (!strcmp(method, "FullDuplexCall")) {
    echo_metadata(call);
    status = serve_later(call, none, serve_full_duplex);
  } else if (!strcmp(method, "HalfDuplexCall")) {
    status = serve_later(call, none, serve_half_duplex);
  } else {
    status = nearcall_call_fail(call, UNIMPLEMENTED, "this method is not implemented");
  }
  end(call, status);
}

static void serve_notes(void *data, nearcall_call call, const nearcall_request *request) {
  nearcall_status *status = NULL;
  (void)data;
  if (!strcmp(request->method, "Leave")) {
    atomic_fetch_add(&kept_notes, 1);
  } else if (!strcmp(request->method, "Keep") || !strcmp(request->method, "Count")) {
    struct message reply = {NULL, 0, 0};
    unsigned more = *request->method == 'K';
    put_number(&reply, 1, atomic_fetch_add(&kept_notes, more) + more);
    status = nearcall_call_reply(call, view(&reply));
    release(&reply);
  } else {
    status = serve_later(call, request->message, serve_sleep);
  }
  end(call, status);
}

static void add_service(nearcall_server server, const char *directory, const char *interface,
                        void (*serve)(void *, nearcall_call, const nearcall_request *)) {
  static uint8_t set[1 << 16];
  char path[4096];
  nearcall_service table = {.size = sizeof table, .serve = serve};
  snprintf(path, sizeof path, "%s/%s.binpb", directory, interface);
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  nearcall_view descriptors = {set, fread(set, 1, sizeof set, file)};
  fclose(file);
  must(nearcall_server_register(server, NULL, descriptors, interface, &table));
}

int run_server(const char *address, const char *directory) {
  nearcall_server server;
  nearcall_bytes at;
  must(nearcall_server_new(NEARCALL_ABI, NULL, &server));
  add_service(server, directory, TEST_SERVICE, serve_test);
  add_service(server, directory, NOTES, serve_notes);
  must(nearcall_server_listen(server, address, NULL));
  must(nearcall_server_start(server));
  must(nearcall_server_address(server, 0, &at));
  printf("ready %.*s\n", (int)at.size, (const char *)at.data);
  fflush(stdout);
  nearcall_bytes_free(&at);
  while (getchar() != EOF) {}
  must(nearcall_server_drain(server, PATIENCE_NS));
  must(nearcall_server_free(server));
  return 0;
}
