// A thermostat as a program and, from the same source, as a library of `nearcall host`.
//
//   room [CELSIUS]                     listens at home.room, or where NEARCALL_LISTEN says
//   nearcall host room.toml            loads it; docs/book/src/guides/cpp.md shows the file
//
// Not here: a client (thermostat.cpp).

#include <atomic>
#include <cstdlib>
#include <memory>

#include "nearcall_library.hpp"
#include "thermostat.nearcall.hpp"

namespace {

class Room : public home::v1::ThermostatService {
 public:
  explicit Room(double celsius) : celsius_(celsius) {}

 private:
  nearcall::Result<home::v1::Temperature> set_target(
      nearcall::Call&, const home::v1::Temperature& wanted) override {
    if (wanted.celsius() > 30)
      return nearcall::Status(nearcall::Code::InvalidArgument, "30 degrees at most");
    home::v1::Temperature before;
    before.set_celsius(celsius_.exchange(wanted.celsius()));
    return before;
  }

  std::atomic<double> celsius_;
};

nearcall::Result<void> make(nearcall::Server::Builder& builder,
                            const std::vector<std::string>& arguments) {
  const double celsius = arguments.empty() ? 20 : std::strtod(arguments[0].c_str(), nullptr);
  if (celsius > 30) return nearcall::Status(nearcall::Code::InvalidArgument, "this is no sauna");
  builder.register_service(std::make_shared<Room>(celsius));
  return builder.status();
}

}  // namespace

NEARCALL_SERVICE_MAIN("home.room", "1.0", make)
