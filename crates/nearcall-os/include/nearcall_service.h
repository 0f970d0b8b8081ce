/* A service in a dynamic library, as a nearcall host loads it: version 1 of the C interface.
 *
 * The library exports the symbol `nearcall_service_v1`, a `struct nearcall_service`. The host checks
 * it, calls `create` for each service of its file that names the library, and `dispatch` for each
 * call. Messages are bytes of Protocol Buffers. A library stays loaded until the process ends.
 *
 * Rules:
 * - What is passed to a function belongs to the caller and is valid until the function returns;
 *   copy what is kept. What `objects` returns stays valid and the same until `destroy`.
 * - Every call that `dispatch` gets is answered by `host->reply` exactly once, in `dispatch` or
 *   later, from any thread. Afterwards its pointer must not be used.
 * - `dispatch` may be called from several threads at once, also from inside itself. A library that
 *   cannot do that sets NEARCALL_ONE_THREAD: then calls come from one thread at a time, and calls of
 *   other services in the process come over a connection.
 * - No C++ exception may leave a function of the library: that ends the process.
 * - Streams cannot be served by a library; the host refuses an interface that has some.
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

/* `flags` of struct nearcall_service. */
#define NEARCALL_ONE_THREAD 1u
/* `flags` of struct nearcall_request: the caller takes no reply. Reply with code 0 nevertheless. */
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
};

enum nearcall_caller { NEARCALL_CALLER_LOCAL = 0, NEARCALL_CALLER_PROCESS = 1, NEARCALL_CALLER_REMOTE = 2 };

struct nearcall_request {
  uint32_t size;   /* Of this struct as its maker knows it. */
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

/* What the host offers. Every function may be called from any thread. */
struct nearcall_host {
  uint64_t magic;
  uint32_t size;
  uint16_t abi_major;
  uint16_t abi_minor;
  /* Answers a call. */
  void (*reply)(void *call, const struct nearcall_reply *reply);
  /* Returns 1 if the caller does not wait any more. */
  uint32_t (*is_cancelled)(const void *call);
  /* Calls `notify` once, from any thread, when the call has ended in whatever way. */
  void (*on_end)(const void *call, void (*notify)(void *context), void *context);
  /* Returns the number of an object "package.Service[@instance]" that another service of this
   * process has at an address, or 0: then connect to the address. */
  uint64_t (*find)(struct nearcall_slice address, struct nearcall_slice object);
  /* Calls such an object; `on_reply` is called before this returns. Returns 0, without a reply, if
   * the object is not there any more. */
  uint32_t (*call)(uint64_t object, const struct nearcall_request *request,
                   void (*on_reply)(void *context, const struct nearcall_reply *reply),
                   void *context);
};

struct nearcall_service {
  uint64_t magic; /* NEARCALL_MAGIC */
  uint32_t size;  /* sizeof(struct nearcall_service) */
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t flags;
  uint32_t reserved; /* 0 */
  struct nearcall_slice name;
  struct nearcall_slice version;
  /* Makes an instance. Returns 0, or another number with a text in `last_error`. `host` lives as
   * long as the process. */
  uint32_t (*create)(const struct nearcall_host *host, const struct nearcall_slice *arguments,
                     size_t argument_count, void **instance);
  const struct nearcall_object *(*objects)(void *instance, size_t *count);
  void (*dispatch)(void *instance, const struct nearcall_request *request, void *call);
  /* Ends an instance. Called once, when no call is in `dispatch`. */
  void (*destroy)(void *instance);
  /* Returns why `create` failed in this thread; valid until its next failure. */
  struct nearcall_slice (*last_error)(void);
};

#ifdef __cplusplus
}
#endif

#endif
