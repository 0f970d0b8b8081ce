/* The suite of all languages in C.
 *
 *   interop client ADDRESS               does what the lines of its input say
 *   interop server ADDRESS DESCRIPTORS   serves until its input ends; prints "ready ADDRESS"
 *
 * Not here: the client (client.c), the server (server.c).
 */
#include "messages.h"

int main(int count, char **arguments) {
  if (count == 3 && !strcmp(arguments[1], "client")) return run_client(arguments[2]);
  if (count == 4 && !strcmp(arguments[1], "server")) return run_server(arguments[2], arguments[3]);
  fputs("usage: interop client ADDRESS | interop server ADDRESS DESCRIPTORS\n", stderr);
  return 2;
}
