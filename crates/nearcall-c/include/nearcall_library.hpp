// A service in C++ that is a program and, from the same source, a library of `nearcall host`.
//
//   nearcall::Result<void> make(nearcall::Server::Builder& builder,
//                               const std::vector<std::string>& arguments) {
//     builder.register_service(std::make_shared<Thermostat>());
//     return builder.status();
//   }
//   NEARCALL_SERVICE_MAIN("thermostat", "1.0", make)
//
// As a program it listens at the address in NEARCALL_LISTEN, or at its name, until SIGTERM or
// SIGINT. As a library (-shared) it has no streams, and its static destructors do not run.
//
// Invariants: no exception leaves a function of the table.
// Not here: services (nearcall_server.hpp), the table (nearcall_service.h).

#ifndef NEARCALL_LIBRARY_HPP
#define NEARCALL_LIBRARY_HPP

#include <cstdio>

#include "nearcall.hpp"
#include "nearcall_service.h"

namespace nearcall {

// Registers services. `arguments` are those of the program without its name, or those that the file
// of the host has.
using MakeService = Result<void>(Server::Builder& builder,
                                 const std::vector<std::string>& arguments);

namespace detail {

inline nearcall_slice slice(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Makes services; what `make` throws is its error.
inline Result<void> made(MakeService* make, Server::Builder& builder,
                         const std::vector<std::string>& arguments) {
#ifdef NEARCALL_EXCEPTIONS
  try {
    return make(builder, arguments);
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return Status(Code::Internal, error.what());
  } catch (...) {
    return Status(Code::Internal, "it has thrown what is no std::exception");
  }
#else
  return make(builder, arguments);
#endif
}

// The functions of the table of a library.
template <MakeService* Make>
class Library {
 public:
  static std::uint32_t create(const nearcall_host* host, const nearcall_slice* arguments,
                              std::size_t count, void** instance) noexcept {
    std::vector<std::string> given;
    for (std::size_t number = 0; number < count; number++)
      given.emplace_back(text({arguments[number].data, arguments[number].size}));
    Server::Builder builder;
    Status status = made(Make, builder, given).status();
    if (status.ok()) status = builder.status();
    if (status.ok())
      status = Status::take(nearcall_library_new(builder.get(), host, instance));
    if (status.ok()) return 0;
    error() = status.message();
    return 1;
  }
  static const nearcall_object* objects(void* instance, std::size_t* count) noexcept {
    return static_cast<const nearcall_object*>(nearcall_library_objects(instance, count));
  }
  static void dispatch(void* instance, const nearcall_library_request* request,
                       void* call) noexcept {
    nearcall_library_dispatch(instance, request, call);
  }
  static void destroy(void* instance) noexcept { nearcall_library_destroy(instance); }
  static nearcall_slice last_error() noexcept { return slice(error()); }

 private:
  static std::string& error() {
    static thread_local std::string last;
    return last;
  }
};

template <MakeService* Make>
nearcall_library library(std::string_view name, std::string_view version) {
  using Functions = Library<Make>;
  return {NEARCALL_MAGIC,
          sizeof(nearcall_library),
          NEARCALL_ABI_MAJOR,
          NEARCALL_ABI_MINOR,
          0,
          sizeof(nearcall_object),
          sizeof(nearcall_method),
          slice(name),
          slice(version),
          Functions::create,
          Functions::objects,
          Functions::dispatch,
          Functions::destroy,
          Functions::last_error};
}

}  // namespace detail

// Runs a service as a program. Returns what `main` returns.
inline int run_service(const char* name, MakeService* make, int count, char** arguments) {
  const std::vector<std::string> given(arguments + (count > 0 ? 1 : 0), arguments + count);
  const char* address = std::getenv("NEARCALL_LISTEN");
  Server::Builder builder;
  Status status = detail::made(make, builder, given).status();
  if (status.ok()) {
    auto server = builder.listen(address != nullptr ? address : name).start();
    status = server.ok() ? server->run_until_signal().status() : server.status();
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s: %s\n", name, status.message().c_str());
  return 1;
}

}  // namespace nearcall

#if defined(__GNUC__)
#define NEARCALL_EXPORT __attribute__((visibility("default")))
#else
#define NEARCALL_EXPORT
#endif

// Makes this source a program and a library: texts, and a function of the type MakeService.
#define NEARCALL_SERVICE_MAIN(name, version, make)                                         \
  extern "C" {                                                                             \
  extern NEARCALL_EXPORT const nearcall_library nearcall_service_v1;                       \
  const nearcall_library nearcall_service_v1 =                                             \
      ::nearcall::detail::library<make>(name, version);                                    \
  }                                                                                        \
  int main(int count, char** arguments) {                                                  \
    return ::nearcall::run_service(name, make, count, arguments);                          \
  }

#endif  // NEARCALL_LIBRARY_HPP
