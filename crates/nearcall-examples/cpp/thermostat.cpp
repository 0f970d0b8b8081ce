// The first example in C++: a service, and a client of it. docs/book/src/guides/cpp.md shows how it is built.
//
//   thermostat serve ADDRESS           serves until Ctrl-C
//   thermostat call ADDRESS CELSIUS    sets the target
//
// Not here: streams and deferred answers (docs/book/src/guides/cpp.md).

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "thermostat.nearcall.hpp"

using home::v1::Temperature;

class Thermostat : public home::v1::ThermostatService {
  nearcall::Result<Temperature> set_target(nearcall::Call&, const Temperature& wanted) override {
    if (wanted.celsius() > 30)
      return nearcall::Status(nearcall::Code::InvalidArgument, "30 degrees at most");
    const std::lock_guard<std::mutex> lock(mutex_);
    Temperature before;
    before.set_celsius(celsius_);
    celsius_ = wanted.celsius();
    return before;
  }

  std::mutex mutex_;
  double celsius_ = 20;
};

static nearcall::Result<void> serve(const std::string& address) {
  auto service = std::make_shared<Thermostat>();
  auto server = nearcall::Server::builder().register_service(service).listen(address).start();
  if (!server.ok()) return server.status();
  std::puts("ready");
  std::fflush(stdout);
  return server->run_until_signal();
}

static nearcall::Result<void> call(const std::string& address, double celsius) {
  auto client = nearcall::Client::create();
  if (!client.ok()) return client.status();
  auto thermostat = home::v1::ThermostatCaller::create(*client, address);
  if (!thermostat.ok()) return thermostat.status();
  Temperature target;
  target.set_celsius(celsius);
  // Also if the service is only about to start.
  const auto options = nearcall::CallOptions().deadline(std::chrono::seconds(5)).wait_for_ready();
  auto before = thermostat->set_target(target, options);
  if (!before.ok()) return before.status();
  std::printf("before: %.1f\n", before->celsius());
  return {};
}

int main(int count, char** arguments) {
  const std::string verb = count > 1 ? arguments[1] : "";
  nearcall::Result<void> ended = nearcall::Status(
      nearcall::Code::InvalidArgument, "usage: thermostat serve ADDRESS | call ADDRESS CELSIUS");
  if (verb == "serve" && count == 3) ended = serve(arguments[2]);
  if (verb == "call" && count == 4) ended = call(arguments[2], std::strtod(arguments[3], nullptr));
  if (!ended.ok()) std::fprintf(stderr, "%s\n", ended.status().to_string().c_str());
  return ended.ok() ? 0 : 1;
}
