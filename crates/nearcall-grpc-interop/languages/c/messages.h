/* What client and server share: the names of the interfaces, and messages as bytes.
 *
 * A message is written to a buffer that grows, and read field by field.
 * Invariants: no length in a message is believed before it is compared with the bytes there are.
 * Not here: which message has which fields (client.c, server.c).
 */
#ifndef INTEROP_MESSAGES_H
#define INTEROP_MESSAGES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearcall.h"

#define TEST_SERVICE "grpc.testing.TestService"
#define NOTES "conformance.v1.Notes"
#define PATIENCE_NS (60 * UINT64_C(1000000000))
#define ECHO_INITIAL "x-grpc-test-echo-initial"
#define ECHO_TRAILING "x-grpc-test-echo-trailing-bin"

int run_client(const char *address);
int run_server(const char *address, const char *directory);

/* Returns from a function that returns a status, if a call has failed. */
#define TRY(call) \
  do { nearcall_status *failed = (call); if (failed) return failed; } while (0)

static inline void must(nearcall_status *status) {
  if (!status) return;
  fprintf(stderr, "%s: %s\n", nearcall_code_name(nearcall_status_code(status)),
          nearcall_status_message(status));
  exit(1);
}

static inline void *allocated(void *memory) {
  if (memory) return memory;
  fputs("out of memory\n", stderr);
  exit(1);
}

struct message { uint8_t *data; size_t size, room; };

static const nearcall_view none = {NULL, 0};

static inline nearcall_view view(const struct message *message) {
  return (nearcall_view){message->data, message->size};
}

static inline void release(struct message *message) {
  free(message->data);
  *message = (struct message){NULL, 0, 0};
}

static inline uint8_t *extend(struct message *message, size_t bytes) {
  if (message->room - message->size < bytes) {
    message->room = 2 * message->room + bytes;
    message->data = allocated(realloc(message->data, message->room));
  }
  message->size += bytes;
  return message->data + message->size - bytes;
}

static inline void put_varint(struct message *message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *extend(message, 1) = (uint8_t)(value | 0x80);
  *extend(message, 1) = (uint8_t)value;
}

static inline void put_number(struct message *message, unsigned field, uint64_t value) {
  put_varint(message, field << 3);
  put_varint(message, value);
}

static inline void put_bytes(struct message *message, unsigned field, nearcall_view bytes) {
  put_varint(message, field << 3 | 2);
  put_varint(message, bytes.size);
  uint8_t *into = extend(message, bytes.size);
  if (bytes.size) memcpy(into, bytes.data, bytes.size);
}

static inline void put_message(struct message *message, unsigned field, struct message *inner) {
  put_bytes(message, field, view(inner));
  release(inner);
}

/* A payload of zeros. */
static inline void put_payload(struct message *message, unsigned field, size_t size) {
  struct message payload = {NULL, 0, 0};
  put_varint(&payload, 2 << 3 | 2);
  put_varint(&payload, size);
  memset(extend(&payload, size), 0, size);
  put_message(message, field, &payload);
}

struct field { unsigned number; uint64_t value; nearcall_view bytes; };

static inline int read_varint(nearcall_view *from, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; from->size && shift < 64; shift += 7) {
    uint8_t byte = *from->data++;
    from->size--;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return 1;
  }
  return 0;
}

/* Reads the next field: a number, or bytes. These messages have no others. */
static inline int next_field(nearcall_view *from, struct field *field) {
  uint64_t key;
  if (!from->size || !read_varint(from, &key) || !read_varint(from, &field->value)) return 0;
  field->number = (unsigned)(key >> 3);
  field->bytes = none;
  if ((key & 7) == 0) return 1;
  if ((key & 7) != 2 || field->value > from->size) return 0;
  field->bytes = (nearcall_view){from->data, (size_t)field->value};
  from->data += field->value;
  from->size -= (size_t)field->value;
  return 1;
}

/* The last field with a number; zeros if there is none. */
static inline struct field find(nearcall_view message, unsigned number) {
  struct field field, found = {number, 0, {NULL, 0}};
  while (next_field(&message, &field))
    if (field.number == number) found = field;
  return found;
}

/* The body of the payload in a field. */
static inline nearcall_view body_of(nearcall_view message, unsigned number) {
  return find(find(message, number).bytes, 2).bytes;
}

#endif
