/* A service in a dynamic library, as a nearcall host loads it: version 1 of the C interface.
 *
 * For libraries that are built without libnearcall. With it, nearcall_library.hpp makes a library of a
 * service in C++; its headers can be included beside this one.
 *
 * The library exports the symbol `nearcall_service_v1`, a `struct nearcall_library`. The host
 * checks it, calls `create` for each service of its file that names the library, and `dispatch` for
 * each call. Messages are bytes of Protocol Buffers. A library stays loaded until the process ends.
 *
 * Rules:
 * - What is passed to a function belongs to the caller and is valid until the function returns;
 *   copy what is kept. What `objects` returns stays valid and the same until `destroy`.
 * - Every call that `dispatch` gets is answered by `host->reply` exactly once, in `dispatch` or
 *   later, from any thread. Afterwards its pointer must not be used.
 * - `create`, `objects` and `destroy` are called in the main thread of the process, `dispatch` in
 *   the thread of the service's event loop, one call at a time, but also from inside `host->wait`.
 *   What is bound to one thread must be made at the first call, not in `create`.
 * - An object with NEARCALL_NONBLOCKING is called by the other services of the process as a
 *   function as well: in their threads, several at once. Its methods must not wait: not for I/O,
 *   not for a lock that is held for long, not for another service. One that waits nevertheless
 *   holds its caller's service up, beyond the deadline of the call. Calls of all other objects come
 *   over a connection, and end by their deadlines whatever the method does.
 * - No C++ exception may leave a function of the library: that ends the process.
 * - Streams cannot be served by a library; the host refuses an interface that has some.
 * - The process ends by _exit: no static destructor and no exit handler runs. What must be done at
 *   the end is done by `destroy`, which is called unless a method has not returned.
 * - The library is loaded by its path if only root and the user of the host can change a directory
 *   of that path, and else by its descriptor; then `$ORIGIN` in its RUNPATH does not work.
 *
 * Growth: struct nearcall_slice never changes. The others only ever get fields at their end, while
 * the major version stays. Whoever makes a struct sets its size (`size`, or `object_size` and
 * `method_size` of struct nearcall_library); whoever reads one uses no field behind that size.
 */
#ifndef NEARCALL_SERVICE_H
#define NEARCALL_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The text "nearcall", which both tables begin with. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define NEARCALL_MAGIC UINT64_C(0x6e65617263616c6c)
#else
#define NEARCALL_MAGIC UINT64_C(0x6c6c61637261656e)
#endif
#define NEARCALL_ABI_MAJOR 1
#define NEARCALL_ABI_MINOR 0

/* `flags` of struct nearcall_object. */
#define NEARCALL_NONBLOCKING 1u
/* `flags` of struct nearcall_library_request: the caller takes no reply. Reply with code 0
 * nevertheless. */
#define NEARCALL_ONEWAY 1u
/* `deadline_ns` of a call that has none. */
#define NEARCALL_NO_DEADLINE UINT64_MAX

/* `data` may be null if `size` is 0. Text is UTF-8 without a zero byte at its end. */
struct nearcall_slice {
  const uint8_t *data;
  size_t size;
};

enum nearcall_method_kind { NEARCALL_UNARY = 0, NEARCALL_METHOD_ONEWAY = 1 };

struct nearcall_method {
  uint32_t id; /* FNV-1a, 32 bits, of "package.Service/Method". */
  uint32_t kind;
  struct nearcall_slice name; /* As in the .proto file. */
};

struct nearcall_object {
  struct nearcall_slice interface_name; /* "package.Service" */
  struct nearcall_slice instance;       /* Empty: the only one of its interface. */
  struct nearcall_slice descriptor_set; /* A google.protobuf.FileDescriptorSet, or empty. */
  const struct nearcall_method *methods;
  size_t method_count;
  uint32_t flags;
  uint32_t reserved; /* 0 */
};

enum nearcall_caller_kind {
  NEARCALL_CALLER_LOCAL = 0,
  NEARCALL_CALLER_PROCESS = 1,
  NEARCALL_CALLER_REMOTE = 2
};

enum nearcall_log_level {
  NEARCALL_ERROR = 1,
  NEARCALL_WARN = 2,
  NEARCALL_INFO = 3,
  NEARCALL_DEBUG = 4
};

struct nearcall_library_request {
  uint32_t size;   /* sizeof(struct nearcall_library_request) */
  uint32_t object; /* The index in the list of `objects`. */
  uint32_t method;
  uint32_t flags;
  uint64_t deadline_ns; /* Of CLOCK_MONOTONIC. */
  struct nearcall_slice metadata;
  struct nearcall_slice body;
  uint32_t caller; /* The kernel's word, not the caller's. */
  int32_t pid;     /* 0: not known. */
  uint32_t uid;
  uint32_t gid;
  struct nearcall_slice address; /* Of a remote caller. */
};

struct nearcall_reply {
  uint32_t size; /* sizeof(struct nearcall_reply) */
  uint32_t code; /* A status code of gRPC; 0: `body` is the result. */
  struct nearcall_slice message;
  struct nearcall_slice metadata;
  struct nearcall_slice body;
};

/* What the host offers to one instance. Every function may be called from any thread. */
struct nearcall_host {
  uint64_t magic;
  uint32_t size; /* sizeof(struct nearcall_host) */
  uint16_t abi_major;
  uint16_t abi_minor;
  /* Answers a call. */
  void (*reply)(void *call, const struct nearcall_reply *reply);
  /* Returns 1 if the caller does not wait any more. */
  uint32_t (*is_cancelled)(const void *call);
  /* Calls `notify` once, from any thread, when the call has ended in whatever way. May be called
   * again for the same call: each notice comes once. */
  void (*on_end)(const void *call, void (*notify)(void *context), void *context);
  /* Returns the number of an object "package.Service[@instance]" with NEARCALL_NONBLOCKING that
   * another service of this process has at an address, or 0: then connect to the address. */
  uint64_t (*find)(struct nearcall_slice address, struct nearcall_slice object);
  /* Calls such an object in this thread; `on_reply` is called before this returns. Returns 0,
   * without a reply, if the object is not there any more. */
  uint32_t (*call)(uint64_t object, const struct nearcall_library_request *request,
                   void (*on_reply)(void *context, const struct nearcall_reply *reply),
                   void *context);
  /* Writes a message (enum nearcall_log_level) into the host's log, under the name of the service
   * whose `create` got this table: host->log(host, NEARCALL_WARN, text). */
  void (*log)(const struct nearcall_host *host, uint32_t level, struct nearcall_slice text);
  /* Serves calls that come to this thread, in `dispatch` inside of this, until `descriptor` is
   * readable, the deadline passes (NEARCALL_NO_DEADLINE: never), or some were served: look again
   * then. With this a method that waits for another service serves meanwhile, so that services may
   * call each other in circles. Hold no lock that `dispatch` takes. Returns 0, at once, in a thread
   * where the host serves nothing: wait as usual there. */
  uint32_t (*wait)(int descriptor, uint64_t deadline_ns);
};

struct nearcall_library {
  uint64_t magic; /* NEARCALL_MAGIC */
  uint32_t size;  /* sizeof(struct nearcall_library) */
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t flags;       /* 0 */
  uint16_t object_size; /* sizeof(struct nearcall_object) */
  uint16_t method_size; /* sizeof(struct nearcall_method) */
  struct nearcall_slice name;
  struct nearcall_slice version;
  /* Makes an instance. Returns 0, or another number with a text in `last_error`. `host` lives as
   * long as the process. */
  uint32_t (*create)(const struct nearcall_host *host, const struct nearcall_slice *arguments,
                     size_t argument_count, void **instance);
  const struct nearcall_object *(*objects)(void *instance, size_t *count);
  void (*dispatch)(void *instance, const struct nearcall_library_request *request, void *call);
  /* Ends an instance. Called once, when no call is in `dispatch`. */
  void (*destroy)(void *instance);
  /* Returns why `create` failed in this thread; valid until its next failure. */
  struct nearcall_slice (*last_error)(void);
};

#ifdef __cplusplus
}
#endif

#endif
