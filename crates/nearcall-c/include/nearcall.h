/* Calls and services of nearcall for C: link with -lnearcall.
 *
 * Generated from the sources of libnearcall.
 *
 * How functions end. Most return a status: NULL is OK, anything else says why there is no result,
 * and is released by nearcall_status_free. Where they fail, they set no result, unless they say so.
 *
 * Who owns what. What is given to a function stays its owner's, who keeps it valid until the
 * function returns. What a function gives is released by the function that its description names.
 * A handle is a number: one that is 0, was freed, or is of another library is an error.
 *
 * Which threads. What a type says; functions without a handle may be called from any thread.
 *
 * After fork(), use in the child what was made in the child.
 *
 * Structs that begin with `size` may grow: set it to sizeof, and everything else that is not used
 * to 0. Pointers are to memory of their type, or null where that is allowed; texts end with a zero
 * and are UTF-8. Times are in nanoseconds; UINT64_MAX is no end.
 */


#ifndef NEARCALL_H
#define NEARCALL_H

#include <stddef.h>
#include <stdint.h>

/**
 * The version of this binary interface. What creates something is given that of the header.
 */
#define NEARCALL_ABI 1

/**
 * The server's process has exited without a goodbye.
 */
#define NEARCALL_CAUSE_EXITED 1

/**
 * The server's process was killed by a signal.
 */
#define NEARCALL_CAUSE_KILLED 2

/**
 * The server takes no more calls, by its own decision.
 */
#define NEARCALL_CAUSE_CLOSED 3

/**
 * As `NEARCALL_CAUSE_CLOSED`, and another server answers at the address already.
 */
#define NEARCALL_CAUSE_REPLACED 4

/**
 * The server has not answered a ping in time.
 */
#define NEARCALL_CAUSE_UNRESPONSIVE 5

/**
 * The connection has ended, and the kernel does not say why.
 */
#define NEARCALL_CAUSE_LOST 6

/**
 * The code of a status: the caller gave the call up.
 */
#define NEARCALL_CODE_CANCELLED 1

/**
 * The code of a status: an error of another kind.
 */
#define NEARCALL_CODE_UNKNOWN 2

/**
 * The code of a status: the request is wrong, whatever the state of the service.
 */
#define NEARCALL_CODE_INVALID_ARGUMENT 3

/**
 * The code of a status: the deadline has passed.
 */
#define NEARCALL_CODE_DEADLINE_EXCEEDED 4

/**
 * The code of a status: there is no such thing.
 */
#define NEARCALL_CODE_NOT_FOUND 5

/**
 * The code of a status: there is such a thing already.
 */
#define NEARCALL_CODE_ALREADY_EXISTS 6

/**
 * The code of a status: the caller may not do it.
 */
#define NEARCALL_CODE_PERMISSION_DENIED 7

/**
 * The code of a status: a limit was reached, such as that of the length of messages.
 */
#define NEARCALL_CODE_RESOURCE_EXHAUSTED 8

/**
 * The code of a status: the state of the service does not allow it: change that first.
 */
#define NEARCALL_CODE_FAILED_PRECONDITION 9

/**
 * The code of a status: something else came between: begin again with what belongs together.
 */
#define NEARCALL_CODE_ABORTED 10

/**
 * The code of a status: beyond what there is.
 */
#define NEARCALL_CODE_OUT_OF_RANGE 11

/**
 * The code of a status: there is no such method.
 */
#define NEARCALL_CODE_UNIMPLEMENTED 12

/**
 * The code of a status: a defect.
 */
#define NEARCALL_CODE_INTERNAL 13

/**
 * The code of a status: the server is not there; try again.
 */
#define NEARCALL_CODE_UNAVAILABLE 14

/**
 * The code of a status: data were lost or are damaged.
 */
#define NEARCALL_CODE_DATA_LOSS 15

/**
 * The code of a status: the caller has not proved who it is.
 */
#define NEARCALL_CODE_UNAUTHENTICATED 16

/**
 * A flag of a call: it waits until its server is there, at most until its deadline.
 */
#define NEARCALL_WAIT_FOR_READY 1

/**
 * A flag of a call: where it would have to wait for room it fails with `RESOURCE_EXHAUSTED`.
 */
#define NEARCALL_NO_WAIT 2

/**
 * A flag of a call: a `timeout_ns` of 0 is meant, so that the call fails with `DEADLINE_EXCEEDED`.
 */
#define NEARCALL_TIMEOUT 4

/**
 * The shape of a method: one request and one reply.
 */
#define NEARCALL_SHAPE_UNARY 0

/**
 * The shape of a method: one request and no reply.
 */
#define NEARCALL_SHAPE_ONEWAY 1

/**
 * The shape of a method: one request, and a stream of replies.
 */
#define NEARCALL_SHAPE_REPLY_STREAM 2

/**
 * The shape of a method: a stream of requests, and one reply.
 */
#define NEARCALL_SHAPE_REQUEST_STREAM 3

/**
 * The shape of a method: two streams.
 */
#define NEARCALL_SHAPE_BOTH_STREAMS 4

/**
 * What a service has sent beside its reply. Release it by `nearcall_metadata_free`. For any
 * thread.
 */
typedef struct nearcall_metadata nearcall_metadata;

/**
 * Why a function has failed; null: it has not. Whoever gets it releases it by
 * `nearcall_status_free`. For any thread.
 */
typedef struct nearcall_status nearcall_status;

/**
 * Makes connections and keeps them. For any thread.
 */
typedef struct nearcall_client {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_client;

/**
 * Calls one object. For any thread, also several at once.
 */
typedef struct nearcall_caller {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_caller;

/**
 * Bytes of somebody else. `data` may be null if `size` is 0.
 */
typedef struct nearcall_view {
  /**
   * The first byte.
   */
  const uint8_t *data;
  /**
   * How many there are.
   */
  size_t size;
} nearcall_view;

/**
 * An entry of metadata that is sent: the key is of lower-case letters, digits and `-_.`; if it
 * ends in `-bin` the value is any bytes, else it is printable ASCII.
 */
typedef struct nearcall_entry {
  /**
   * The key.
   */
  const char *key;
  /**
   * The value.
   */
  struct nearcall_view value;
} nearcall_entry;

/**
 * Memory that the library has lent for a message. For any thread.
 */
typedef struct nearcall_loan {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_loan;

/**
 * How a call is made. Zeros: the defaults.
 */
typedef struct nearcall_call_options {
  /**
   * `sizeof(nearcall_call_options)`.
   */
  size_t size;
  /**
   * Time until the call ends by itself, in nanoseconds; 0: as the client has it, or at once with
   * `NEARCALL_TIMEOUT`; `UINT64_MAX`: without end.
   */
  uint64_t timeout_ns;
  /**
   * `NEARCALL_WAIT_FOR_READY` and others, or 0.
   */
  uint32_t flags;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Entries that go with the request.
   */
  const struct nearcall_entry *entries;
  /**
   * How many there are.
   */
  size_t entry_count;
  /**
   * The loan in which the request lies, from its start on; 0: it lies elsewhere. The call uses
   * it up, also if it fails.
   */
  struct nearcall_loan loan;
} nearcall_call_options;

/**
 * Bytes that the library has given away: release them by `nearcall_bytes_free`.
 */
typedef struct nearcall_bytes {
  /**
   * The first byte; null if there are none.
   */
  const uint8_t *data;
  /**
   * How many there are.
   */
  size_t size;
  /**
   * The library's.
   */
  void *owner;
} nearcall_bytes;

/**
 * How a client behaves. Zeros: the defaults.
 */
typedef struct nearcall_client_options {
  /**
   * `sizeof(nearcall_client_options)`.
   */
  size_t size;
  /**
   * Deadline of calls that have none of their own, in nanoseconds; 0: none.
   */
  uint64_t timeout_ns;
  /**
   * Longest message, in bytes; 0: 4 MiB.
   */
  uint32_t message_bytes_max;
  /**
   * Credit of a stream in each direction, in bytes; 0: 4 MiB.
   */
  uint32_t stream_window_bytes;
} nearcall_client_options;

/**
 * A watch over a server. For any thread.
 */
typedef struct nearcall_attachment {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_attachment;

/**
 * Why an attached server is gone.
 */
typedef struct nearcall_notice {
  /**
   * `NEARCALL_CAUSE_EXITED` and so on.
   */
  uint32_t cause;
  /**
   * The exit code, or the signal; 0 for other causes.
   */
  int32_t code;
  /**
   * The process id that the server had; 0: not known.
   */
  int32_t pid;
} nearcall_notice;

/**
 * What the connections have carried and hold that are open now.
 */
typedef struct nearcall_counters {
  /**
   * `sizeof(nearcall_counters)`.
   */
  size_t size;
  /**
   * How many connections there are.
   */
  uint64_t connections;
  /**
   * Messages that were sent; of a client, over the connections of this thread and those that
   * calls with a reported end share, and so for the next five.
   */
  uint64_t messages_sent;
  /**
   * Their bytes, headers included, without loans.
   */
  uint64_t bytes_sent;
  /**
   * Messages that were received.
   */
  uint64_t messages_received;
  /**
   * Their bytes.
   */
  uint64_t bytes_received;
  /**
   * Loans that were not given back.
   */
  uint64_t loans_lent;
  /**
   * Loans of the other ends that live here.
   */
  uint64_t loans_borrowed;
  /**
   * Descriptors that are open for the connections, without those of loans.
   */
  uint64_t descriptors;
  /**
   * Room for messages that is set aside, in bytes, without loans.
   */
  uint64_t room_bytes;
  /**
   * What a server has refused since its start, such as calls and clients above its limits; 0 of
   * a client.
   */
  uint64_t refusals;
} nearcall_counters;

/**
 * A loop for servers, for a program that has another loop. For the thread that has made it.
 */
typedef struct nearcall_loop {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_loop;

/**
 * Serves objects. For any thread, unless it was started in a loop.
 */
typedef struct nearcall_server {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_server;

/**
 * A call that streams. For the thread that has opened it; of `nearcall_open_notified`: for any.
 */
typedef struct nearcall_stream {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_stream;

/**
 * A call that was started: by `nearcall_start` for the thread that has started it, by
 * `nearcall_start_notified` for any thread; or a step of a stream, for any thread.
 */
typedef struct nearcall_pending {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_pending;

/**
 * How a server behaves. Zeros: the defaults.
 */
typedef struct nearcall_server_options {
  /**
   * `sizeof(nearcall_server_options)`.
   */
  size_t size;
  /**
   * Loops, each in a thread of its own; 0: one. Not used by a server in a loop.
   */
  uint32_t threads;
  /**
   * Longest message, in bytes; 0: 4 MiB.
   */
  uint32_t message_bytes_max;
  /**
   * Credit of a stream in each direction, in bytes; 0: 4 MiB.
   */
  uint32_t stream_window_bytes;
  /**
   * Connections; 0: 4096.
   */
  uint32_t connections_max;
} nearcall_server_options;

/**
 * A call that is served: for the thread that runs the service, until that returns; from
 * `nearcall_call_defer` on for any thread, until it is answered.
 */
typedef struct nearcall_call {
  /**
   * Not 0, unless there is none.
   */
  uint64_t id;
} nearcall_call;

/**
 * A request that a service is given. Valid until the service returns.
 */
typedef struct nearcall_request {
  /**
   * `sizeof(nearcall_request)` of the library.
   */
  size_t size;
  /**
   * The method, such as `SetTarget`.
   */
  const char *method;
  /**
   * The index of the method in its interface, in the order of the `.proto` file.
   */
  uint32_t index;
  /**
   * `NEARCALL_SHAPE_UNARY` and so on.
   */
  uint32_t shape;
  /**
   * The message, encoded; empty if the request is a stream.
   */
  struct nearcall_view message;
} nearcall_request;

/**
 * A service: what is called for each call.
 */
typedef struct nearcall_service {
  /**
   * `sizeof(nearcall_service)`.
   */
  size_t size;
  /**
   * Passed to the functions.
   */
  void *data;
  /**
   * Serves a call, in a thread of the server: by `nearcall_call_reply` or `nearcall_call_fail`
   * before it returns, or later after `nearcall_call_defer`. A call that is not answered fails
   * with `INTERNAL`. It must not wait long: meanwhile the loop serves nothing else. No exception
   * and no `longjmp` may leave it. A server with several threads calls it in all of them.
   */
  void (*serve)(void *data, struct nearcall_call call, const struct nearcall_request *request);
  /**
   * Called when neither the server nor a deferred call uses the service any more, in any
   * thread; may be null. Nothing may leave it, as of `serve`.
   */
  void (*release)(void *data);
} nearcall_service;

/**
 * Who may connect where a server listens. Zeros: the defaults.
 */
typedef struct nearcall_listen_options {
  /**
   * `sizeof(nearcall_listen_options)`.
   */
  size_t size;
  /**
   * The user ids that may connect; null: those that can reach the socket.
   */
  const uint32_t *users;
  /**
   * How many there are.
   */
  size_t user_count;
  /**
   * Mode of the socket's file, such as 0660; 0: 0600, or, of `unix:/PATH`, 0666 if `users` says
   * who may connect.
   */
  uint32_t socket_mode;
  /**
   * 0.
   */
  uint32_t reserved;
} nearcall_listen_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the binary interface of this library.
 */
uint32_t nearcall_abi(void);

/**
 * Makes a caller of the object with an interface, such as `home.v1.Thermostat`, at an address. It
 * connects at the first call. Free it by `nearcall_caller_free`.
 */
struct nearcall_status *nearcall_caller_new(struct nearcall_client client,
                                            const char *address,
                                            const char *interface,
                                            struct nearcall_caller *caller);

/**
 * Frees a caller. Calls under way go on.
 */
struct nearcall_status *nearcall_caller_free(struct nearcall_caller caller);

/**
 * Calls a method, such as `SetTarget`, with one request and one reply, and waits for its end.
 *
 * `options` may be null. `reply` is set if the call succeeds: release it by `nearcall_bytes_free`.
 * `metadata` may be null; else it is set to what came beside the reply, also of a call that has
 * failed: release it by `nearcall_metadata_free`. With it, a call is not sent again by itself.
 */
struct nearcall_status *nearcall_call_method(struct nearcall_caller caller,
                                             const char *method,
                                             struct nearcall_view request,
                                             const struct nearcall_call_options *options,
                                             struct nearcall_bytes *reply,
                                             struct nearcall_metadata **metadata);

/**
 * Sends a one-way message, which is never answered.
 */
struct nearcall_status *nearcall_send(struct nearcall_caller caller,
                                      const char *method,
                                      struct nearcall_view request,
                                      const struct nearcall_call_options *options);

/**
 * Makes a client: `nearcall_client_new(NEARCALL_ABI, NULL, &client)`. It connects when it is used.
 * `options` may be null. Free it by `nearcall_client_free`.
 */
struct nearcall_status *nearcall_client_new(uint32_t abi,
                                            const struct nearcall_client_options *options,
                                            struct nearcall_client *client);

/**
 * Frees a client. Its callers go on, and the connections end with the last of them.
 */
struct nearcall_status *nearcall_client_free(struct nearcall_client client);

/**
 * Waits until a server answers at an address, for `timeout_ns` at most.
 */
struct nearcall_status *nearcall_hunt(struct nearcall_client client,
                                      const char *address,
                                      uint64_t timeout_ns);

/**
 * Moves the connection of this thread to an address to another mechanism, such as `shm`, without
 * losing a call.
 */
struct nearcall_status *nearcall_switch(struct nearcall_client client,
                                        const char *address,
                                        const char *mechanism,
                                        uint64_t timeout_ns);

/**
 * Watches over the server at an address, which has to answer now. Free it by
 * `nearcall_attachment_free`.
 */
struct nearcall_status *nearcall_attach(struct nearcall_client client,
                                        const char *address,
                                        struct nearcall_attachment *attachment);

/**
 * Waits until the server is gone, for `timeout_ns` at most; 0: only looks. `DEADLINE_EXCEEDED`: it
 * is still there.
 */
struct nearcall_status *nearcall_attachment_wait(struct nearcall_attachment attachment,
                                                 uint64_t timeout_ns,
                                                 struct nearcall_notice *notice);

/**
 * Ends a watch.
 */
struct nearcall_status *nearcall_attachment_free(struct nearcall_attachment attachment);

/**
 * Counts what the connections of a client have carried: set `counters->size`.
 */
struct nearcall_status *nearcall_client_counters(struct nearcall_client client,
                                                 struct nearcall_counters *counters);

/**
 * Makes a loop, which belongs to this thread: `nearcall_loop_new(NEARCALL_ABI, &loop)`. Free it by
 * `nearcall_loop_free`.
 */
struct nearcall_status *nearcall_loop_new(uint32_t abi, struct nearcall_loop *event_loop);

/**
 * Gives the descriptor of a loop, which stays the loop's: when it is readable, or may be,
 * `nearcall_loop_turn` has work. Turn the loop once before the first wait.
 */
struct nearcall_status *nearcall_loop_descriptor(struct nearcall_loop event_loop,
                                                 int32_t *descriptor);

/**
 * Does what a loop has to do at this time, and does not wait.
 */
struct nearcall_status *nearcall_loop_turn(struct nearcall_loop event_loop);

/**
 * Frees a loop, and ends the servers in it.
 */
struct nearcall_status *nearcall_loop_free(struct nearcall_loop event_loop);

/**
 * Makes an instance of a library for `nearcall host` of a server that was prepared, from what the
 * host gives to `create` of `struct nearcall_library`. The server is used up; it listens nowhere,
 * since the host does.
 */
struct nearcall_status *nearcall_library_new(struct nearcall_server server,
                                             const void *host,
                                             void **instance);

/**
 * The function `objects` of `struct nearcall_library`.
 */
const void *nearcall_library_objects(void *instance, size_t *count);

/**
 * The function `dispatch` of `struct nearcall_library`.
 */
void nearcall_library_dispatch(void *instance, const void *request, void *call);

/**
 * The function `destroy` of `struct nearcall_library`.
 */
void nearcall_library_destroy(void *instance);

/**
 * Lends `size` bytes for a request, and waits for them while the server has not given back enough
 * of what it was lent before, as the options say. Write the encoded request to `data`, then make a
 * call with `options.loan`, or give the loan back by `nearcall_loan_free`.
 *
 * Where the mechanism can (`shm`, from 4 KiB on) the server gets the memory itself, if this thread
 * makes the call by one of the functions that wait or by `nearcall_start`; else it is copied.
 * Write nothing there after the call began.
 */
struct nearcall_status *nearcall_loan_new(struct nearcall_caller caller,
                                          size_t size,
                                          const struct nearcall_call_options *options,
                                          struct nearcall_loan *loan,
                                          uint8_t **data);

/**
 * Gives back a loan that was not sent.
 */
struct nearcall_status *nearcall_loan_free(struct nearcall_loan loan);

/**
 * Opens a call that streams as `nearcall_open_reply_stream` and the others do, by `shape`, for a
 * loop that waits for other things as well. `request` is empty where requests are a stream.
 *
 * `stream` is set at once. Opening is a step, as are `nearcall_stream_start_send` and the others:
 * `done` is called once with `data` at its end, as `nearcall_start_notified` has it; then take how
 * it has ended by `nearcall_pending_wait`, and only then start the next step of that direction.
 * Requests and replies are independent. A step that is cancelled cancels the call.
 *
 * Of the functions that wait, only `nearcall_stream_trailers` and `nearcall_stream_free` are for
 * this stream: they do not wait. The handle may be used in any thread.
 */
struct nearcall_status *nearcall_open_notified(struct nearcall_caller caller,
                                               const char *method,
                                               uint32_t shape,
                                               struct nearcall_view request,
                                               const struct nearcall_call_options *options,
                                               void (*done)(void *data),
                                               void *data,
                                               struct nearcall_stream *stream,
                                               struct nearcall_pending *pending);

/**
 * Starts to send an item of the request: the step ends when there was credit and room. Take how
 * it has ended by `nearcall_pending_wait`; there is no reply.
 */
struct nearcall_status *nearcall_stream_start_send(struct nearcall_stream stream,
                                                   struct nearcall_view item,
                                                   void (*done)(void *data),
                                                   void *data,
                                                   struct nearcall_pending *pending);

/**
 * Starts to receive the next item of the reply. Take it by `nearcall_pending_wait_item`.
 */
struct nearcall_status *nearcall_stream_start_receive(struct nearcall_stream stream,
                                                      void (*done)(void *data),
                                                      void *data,
                                                      struct nearcall_pending *pending);

/**
 * Starts to wait for the headers: what the service sends before the first item. Take them by
 * `nearcall_pending_wait`; there is no reply.
 */
struct nearcall_status *nearcall_stream_start_headers(struct nearcall_stream stream,
                                                      void (*done)(void *data),
                                                      void *data,
                                                      struct nearcall_pending *pending);

/**
 * Starts to end the items of the request. Where the reply is one message, the step ends with it:
 * take it by `nearcall_pending_wait`; where it is a stream, read that to its end.
 */
struct nearcall_status *nearcall_stream_start_finish(struct nearcall_stream stream,
                                                     void (*done)(void *data),
                                                     void *data,
                                                     struct nearcall_pending *pending);

/**
 * Starts a call with one request and one reply. Wait for it, or cancel it.
 */
struct nearcall_status *nearcall_start(struct nearcall_caller caller,
                                       const char *method,
                                       struct nearcall_view request,
                                       const struct nearcall_call_options *options,
                                       struct nearcall_pending *pending);

/**
 * Starts a call as `nearcall_start` does, and has its end reported, for a loop that waits for
 * other things as well: `done` is called once with `data`, when `nearcall_pending_wait` would not
 * wait any more, or the call was cancelled; perhaps before this function returns.
 *
 * A thread of the library calls it, the same for all calls: it must be short, such as a write to
 * an eventfd of the loop, and nothing may leave it. It may take the result, but not wait for
 * another call. The handle may be used in any thread.
 */
struct nearcall_status *nearcall_start_notified(struct nearcall_caller caller,
                                                const char *method,
                                                struct nearcall_view request,
                                                const struct nearcall_call_options *options,
                                                void (*done)(void *data),
                                                void *data,
                                                struct nearcall_pending *pending);

/**
 * Returns 1 if `nearcall_pending_wait` would not wait: the call has ended, or there is none.
 */
uint32_t nearcall_pending_is_done(struct nearcall_pending pending);

/**
 * Waits for the end of a started call and frees it, as `nearcall_call_method` does.
 */
struct nearcall_status *nearcall_pending_wait(struct nearcall_pending pending,
                                              struct nearcall_bytes *reply,
                                              struct nearcall_metadata **metadata);

/**
 * Waits for the end of `nearcall_stream_start_receive` and frees it, as `nearcall_stream_receive`
 * does.
 */
struct nearcall_status *nearcall_pending_wait_item(struct nearcall_pending pending,
                                                   struct nearcall_bytes *item,
                                                   uint32_t *has_item);

/**
 * Cancels a started call and frees it.
 */
struct nearcall_status *nearcall_pending_cancel(struct nearcall_pending pending);

/**
 * Releases bytes that a function of this library has given away, and sets `bytes` to none. Null
 * and none are fine.
 */
void nearcall_bytes_free(struct nearcall_bytes *bytes);

/**
 * Returns the code, as gRPC numbers them: 0 is `OK`, also for null.
 */
uint32_t nearcall_status_code(const struct nearcall_status *status);

/**
 * Returns the name of a code, such as `UNAVAILABLE`; `UNKNOWN` for a number that is none.
 */
const char *nearcall_code_name(uint32_t code);

/**
 * Returns the text, which says what happened and what can be done: valid until the status is
 * released, empty for null.
 */
const char *nearcall_status_message(const struct nearcall_status *status);

/**
 * Returns 1 if the method has certainly not begun, so that the call may be made again whatever it
 * does.
 */
uint32_t nearcall_status_has_not_begun(const struct nearcall_status *status);

/**
 * Finds the first entry with a key among what the service has sent beside the error, such as
 * `grpc-status-details-bin`, the details. Returns 1 and sets `value`, which is valid until the
 * status is released, or returns 0.
 */
uint32_t nearcall_status_entry(const struct nearcall_status *status,
                               const char *key,
                               struct nearcall_view *value);

/**
 * Gives the entry with a number, from 0 on, among what the service has sent beside the error.
 * Returns 1 and sets `key` and `value`, which are valid until the status is released, or returns
 * 0: there are fewer.
 */
uint32_t nearcall_status_entry_at(const struct nearcall_status *status,
                                  size_t number,
                                  struct nearcall_view *key,
                                  struct nearcall_view *value);

/**
 * Releases a status. Null is fine.
 */
void nearcall_status_free(struct nearcall_status *status);

/**
 * Finds the first entry with a key among the trailers: what came with the end of the call. Returns
 * 1 and sets `value`, which is valid until the metadata are released, or returns 0.
 */
uint32_t nearcall_metadata_trailer(const struct nearcall_metadata *metadata,
                                   const char *key,
                                   struct nearcall_view *value);

/**
 * As `nearcall_metadata_trailer`, among the headers: what came before the reply.
 */
uint32_t nearcall_metadata_header(const struct nearcall_metadata *metadata,
                                  const char *key,
                                  struct nearcall_view *value);

/**
 * Gives the trailer with a number, from 0 on. Returns 1 and sets `key` and `value`, which are
 * valid until the metadata are released, or returns 0: there are fewer.
 */
uint32_t nearcall_metadata_trailer_at(const struct nearcall_metadata *metadata,
                                      size_t number,
                                      struct nearcall_view *key,
                                      struct nearcall_view *value);

/**
 * As `nearcall_metadata_trailer_at`, among the headers.
 */
uint32_t nearcall_metadata_header_at(const struct nearcall_metadata *metadata,
                                     size_t number,
                                     struct nearcall_view *key,
                                     struct nearcall_view *value);

/**
 * Releases metadata. Null is fine.
 */
void nearcall_metadata_free(struct nearcall_metadata *metadata);

/**
 * Makes a server: `nearcall_server_new(NEARCALL_ABI, NULL, &server)`. Register services, listen,
 * then start it. `options` may be null. Free it by `nearcall_server_free`.
 */
struct nearcall_status *nearcall_server_new(uint32_t abi,
                                            const struct nearcall_server_options *options,
                                            struct nearcall_server *server);

/**
 * Has a server serve an interface, such as `home.v1.Thermostat`, of a descriptor set (an encoded
 * `google.protobuf.FileDescriptorSet`, as `protoc --descriptor_set_out --include_imports` writes
 * it). `object`: a name, by which callers address one of several objects (`ADDRESS#object`), or
 * null. From a success on, the service belongs to the server, which releases it.
 */
struct nearcall_status *nearcall_server_register(struct nearcall_server server,
                                                 const char *object,
                                                 struct nearcall_view descriptor_set,
                                                 const char *interface,
                                                 const struct nearcall_service *service);

/**
 * Has a server listen at an address: a name, `unix:/PATH`, `unix:@NAME`, `tcp://HOST:PORT`. It
 * does so from its start on. `options` may be null.
 */
struct nearcall_status *nearcall_server_listen(struct nearcall_server server,
                                               const char *address,
                                               const struct nearcall_listen_options *options);

/**
 * Starts a server in threads of its own. If it cannot start, what was prepared is released.
 */
struct nearcall_status *nearcall_server_start(struct nearcall_server server);

/**
 * Starts a server in a loop of this thread: it serves while the loop turns.
 */
struct nearcall_status *nearcall_server_start_in(struct nearcall_server server,
                                                 struct nearcall_loop event_loop);

/**
 * Gives the address with a number, from 0 on, at which a server that runs listens, as text: such
 * as a port that the kernel has chosen. Release it by `nearcall_bytes_free`. `OUT_OF_RANGE`: there
 * are fewer.
 */
struct nearcall_status *nearcall_server_address(struct nearcall_server server,
                                                size_t number,
                                                struct nearcall_bytes *address);

/**
 * Counts what the connections of a server that runs have carried: set `counters->size`. Waits
 * until each loop has ended the method that it runs, for a second at most, without the connections
 * of one that has not.
 */
struct nearcall_status *nearcall_server_counters(struct nearcall_server server,
                                                 struct nearcall_counters *counters);

/**
 * Takes no more clients and no more calls, and waits until those under way have ended, for
 * `timeout_ns` at most: `DEADLINE_EXCEEDED` if some have not. Not for a server in a loop.
 */
struct nearcall_status *nearcall_server_drain(struct nearcall_server server, uint64_t timeout_ns);

/**
 * Waits until SIGTERM or SIGINT comes, until the server is stopped, drains and stops it. Not for a
 * server in a loop.
 */
struct nearcall_status *nearcall_server_run_until_signal(struct nearcall_server server);

/**
 * Ends a server: closes its connections, waits for its threads for a second at most. Doing it
 * again is no error.
 */
struct nearcall_status *nearcall_server_stop(struct nearcall_server server);

/**
 * Stops a server, if that was not done, and frees it.
 */
struct nearcall_status *nearcall_server_free(struct nearcall_server server);

/**
 * Answers a call with a reply. Where the reply is a stream, ends it well: `reply` is not used.
 */
struct nearcall_status *nearcall_call_reply(struct nearcall_call call, struct nearcall_view reply);

/**
 * Lends `size` bytes for the reply of a call, without waiting, before `nearcall_call_defer`. Write
 * the encoded reply to `data`, then answer by `nearcall_call_reply_loan`, or give the loan back by
 * `nearcall_loan_free`. `RESOURCE_EXHAUSTED`: the caller has not given back enough of what it was
 * lent before; reply with other memory.
 */
struct nearcall_status *nearcall_call_loan(struct nearcall_call call,
                                           size_t size,
                                           struct nearcall_loan *loan,
                                           uint8_t **data);

/**
 * Answers a call with a reply that is the first bytes of a loan, which it uses up, also if it
 * fails. Where the mechanism can, the caller gets the memory itself.
 */
struct nearcall_status *nearcall_call_reply_loan(struct nearcall_call call,
                                                 struct nearcall_view reply,
                                                 struct nearcall_loan loan);

/**
 * Answers a call with an error: a code of gRPC from 1 to 16, and a text that says what happened
 * and what can be done.
 */
struct nearcall_status *nearcall_call_fail(struct nearcall_call call,
                                           uint32_t error,
                                           const char *message);

/**
 * Has a call answered later, from any thread: from now on its handle is for all threads, and has
 * to be answered, also if the caller does not wait any more. What is read of the call, such as its
 * metadata, is read before. `RESOURCE_EXHAUSTED`: its user holds too much of this server already;
 * the caller gets this status, and the call is over.
 */
struct nearcall_status *nearcall_call_defer(struct nearcall_call call);

/**
 * Receives the next item of the request, and waits for it: in the thread of the loop by serving
 * others meanwhile, in any other thread, after `nearcall_call_defer`, by blocking it. One thread
 * at a time. `has_item` is set to 0 at their end; else `item` is set: release it by
 * `nearcall_bytes_free`.
 */
struct nearcall_status *nearcall_call_receive(struct nearcall_call call,
                                              struct nearcall_bytes *item,
                                              uint32_t *has_item);

/**
 * Sends an item of the reply, and waits for credit and for room, as `nearcall_call_receive` does.
 */
struct nearcall_status *nearcall_call_send(struct nearcall_call call, struct nearcall_view item);

/**
 * Returns 1 if the caller does not wait any more, or the handle is none.
 */
uint32_t nearcall_call_is_cancelled(struct nearcall_call call);

/**
 * Returns how much time is left until the call ends by itself, in nanoseconds; `UINT64_MAX`: it
 * has no deadline, or was answered.
 */
uint64_t nearcall_call_remaining_ns(struct nearcall_call call);

/**
 * Finds an entry that came with the request. Returns 1 and sets `value`, which is valid until the
 * service returns, or returns 0.
 */
uint32_t nearcall_call_entry(struct nearcall_call call,
                             const char *key,
                             struct nearcall_view *value);

/**
 * Gives the entry with a number, from 0 on, that came with the request. Returns 1 and sets `key`
 * and `value`, which are valid until the service returns, or returns 0: there are fewer.
 */
uint32_t nearcall_call_entry_at(struct nearcall_call call,
                                size_t number,
                                struct nearcall_view *key,
                                struct nearcall_view *value);

/**
 * Says who calls, by the kernel: sets the user id and the process id. Returns 1, or 0 where it
 * does not know them, as over `tcp://`.
 */
uint32_t nearcall_call_peer(struct nearcall_call call, uint32_t *uid, int32_t *pid);

/**
 * Sends an entry with the end of the call, with a reply and with an error.
 */
struct nearcall_status *nearcall_call_add_trailer(struct nearcall_call call,
                                                  const char *key,
                                                  struct nearcall_view value);

/**
 * Sends an entry before the first item and the reply.
 */
struct nearcall_status *nearcall_call_add_header(struct nearcall_call call,
                                                 const char *key,
                                                 struct nearcall_view value);

/**
 * Opens a call whose reply is a stream: read it by `nearcall_stream_receive`.
 */
struct nearcall_status *nearcall_open_reply_stream(struct nearcall_caller caller,
                                                   const char *method,
                                                   struct nearcall_view request,
                                                   const struct nearcall_call_options *options,
                                                   struct nearcall_stream *stream);

/**
 * Opens a call whose request is a stream: send it by `nearcall_stream_send`, and take the reply by
 * `nearcall_stream_finish`.
 */
struct nearcall_status *nearcall_open_request_stream(struct nearcall_caller caller,
                                                     const char *method,
                                                     const struct nearcall_call_options *options,
                                                     struct nearcall_stream *stream);

/**
 * Opens a call whose request and reply are streams, independent of each other.
 */
struct nearcall_status *nearcall_open_both_streams(struct nearcall_caller caller,
                                                   const char *method,
                                                   const struct nearcall_call_options *options,
                                                   struct nearcall_stream *stream);

/**
 * Sends an item of the request. Waits for credit and for room.
 */
struct nearcall_status *nearcall_stream_send(struct nearcall_stream stream,
                                             struct nearcall_view item);

/**
 * Receives the next item of the reply, and waits for it. `has_item` is set to 0 where the call has
 * ended well; else `item` is set: release it by `nearcall_bytes_free`.
 */
struct nearcall_status *nearcall_stream_receive(struct nearcall_stream stream,
                                                struct nearcall_bytes *item,
                                                uint32_t *has_item);

/**
 * Ends the items of the request. Where the reply is one message, waits for it, and sets `reply`
 * and, unless null, `metadata` as `nearcall_call_method` does; where it is a stream, read that
 * to its end: `reply` may be null.
 */
struct nearcall_status *nearcall_stream_finish(struct nearcall_stream stream,
                                               struct nearcall_bytes *reply,
                                               struct nearcall_metadata **metadata);

/**
 * Waits for the headers: what the service sends before the first item. Release `metadata` by
 * `nearcall_metadata_free`.
 */
struct nearcall_status *nearcall_stream_headers(struct nearcall_stream stream,
                                                struct nearcall_metadata **metadata);

/**
 * Gives what came with the end of the reply's items, after that end: before, there is nothing.
 * Release `metadata` by `nearcall_metadata_free`.
 */
struct nearcall_status *nearcall_stream_trailers(struct nearcall_stream stream,
                                                 struct nearcall_metadata **metadata);

/**
 * Frees a stream; a call that has not ended is cancelled.
 */
struct nearcall_status *nearcall_stream_free(struct nearcall_stream stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NEARCALL_H */
