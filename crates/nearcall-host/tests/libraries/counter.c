/* A service in C: home.v1.Thermostat, of which SetTarget returns its request, Watch what the host
 * finds at the address "nowhere" and whether notices come in time, and Reset an error. Its static
 * destructor aborts, as one may that runs while threads of the library do. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nearcall_service.h"

static const struct nearcall_host *host;

#define TEXT(text) {(const uint8_t *)(text), sizeof(text) - 1}

/* The structs as a later minor version may have them, with a field more. */
struct method { struct nearcall_method is; uint64_t later; };
struct object { struct nearcall_object is; uint64_t later; };
struct reply { struct nearcall_reply is; uint64_t later; };

static const struct method methods[] = {
    {{0x8186deca, NEARCALL_UNARY, TEXT("SetTarget")}, 7},
    {{0x4737ff79, NEARCALL_METHOD_ONEWAY, TEXT("Note")}, 7},
    {{0xc9b5147c, NEARCALL_UNARY, TEXT("Watch")}, 7},
    {{0xcf20224c, NEARCALL_UNARY, TEXT("Reset")}, 7},
};

static const struct object objects[] = {
    {{TEXT("home.v1.Thermostat"), TEXT("first"), {0, 0}, &methods->is,
      sizeof methods / sizeof *methods, 0, 0}, 7},
    {{TEXT("home.v1.Thermostat"), {0, 0}, {0, 0}, &methods->is,
      sizeof methods / sizeof *methods, NEARCALL_NONBLOCKING, 0}, 7},
};

static uint32_t create(const struct nearcall_host *of_process,
                       const struct nearcall_slice *arguments, size_t argument_count,
                       void **instance) {
  static const struct nearcall_slice made = TEXT("made by C\nin two lines");
  if (of_process->magic != NEARCALL_MAGIC || of_process->abi_major != NEARCALL_ABI_MAJOR ||
      of_process->size < sizeof *of_process)
    return 1;
  if (argument_count == 1 && arguments[0].size == 4 && !memcmp(arguments[0].data, "fail", 4))
    return 2;
  host = of_process;
  host->log(host, NEARCALL_WARN, made);
  *instance = (void *)methods;
  return 0;
}

static const struct nearcall_object *list(void *instance, size_t *count) {
  (void)instance;
  *count = 2;
  return &objects->is;
}

static atomic_int ended;

static void count_end(void *context) {
  (void)context;
  ended++;
}

/* Whether two notices of the end of a call come when it has ended, and not before. */
static int notices_come_in_time(const void *call) {
  static int expected;
  int in_time = ended == expected;
  host->on_end(call, count_end, 0);
  host->on_end(call, count_end, 0);
  in_time = in_time && ended == expected;
  expected += 2;
  return in_time;
}

static void dispatch(void *instance, const struct nearcall_library_request *request, void *call) {
  struct reply later = {{sizeof later, 0, {0, 0}, {0, 0}, {0, 0}}, 7};
  struct nearcall_reply reply = later.is;
  static const uint8_t refused[] = "refused by C";
  static const struct nearcall_slice nowhere = TEXT("nowhere");
  static const struct nearcall_slice name = TEXT("home.v1.Thermostat");
  (void)instance;
  switch (request->method) {
    case 0x8186deca:
      reply.body = request->body;
      /* A reply of no version, if it is asked for by metadata. */
      if (request->metadata.size) reply.size = 8;
      break;
    case 0xcf20224c:
      reply.code = 9;
      reply.message.data = refused;
      reply.message.size = sizeof refused - 1;
      break;
    case 0xc9b5147c:
      reply.code = notices_come_in_time(call) && !host->find(nowhere, name) ? 0 : 13;
      break;
    default: break;
  }
  later.is = reply;
  host->reply(call, &later.is);
}

static void destroy(void *instance) { (void)instance; }

__attribute__((destructor)) static void at_exit(void) {
  if (host) abort();
}

static struct nearcall_slice last_error(void) {
  static const struct nearcall_slice text = TEXT("told to fail");
  return text;
}

const struct nearcall_library nearcall_service_v1 = {
    NEARCALL_MAGIC, sizeof(struct nearcall_library), NEARCALL_ABI_MAJOR, NEARCALL_ABI_MINOR + 1,
    0, sizeof(struct object), sizeof(struct method), TEXT("counter"), TEXT("1.0"), create, list,
    dispatch, destroy, last_error,
};
