// Generated code over the messages of protoc: every shape of a method, in one process.
//
// Not here: what the library does (streams.cpp), what is generated (nearcall-build).

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "streams.nearcall.hpp"
#include "thermostat.nearcall.hpp"

using namespace std::chrono_literals;
using nearcall::Call;
using nearcall::Code;
using nearcall::Result;
using nearcall::Status;

namespace {

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      std::exit(1); \
    } \
  } while (0)

class Thermostat : public home::v1::ThermostatService {
 public:
  Result<home::v1::SetTargetReply> set_target(
      Call& call, const home::v1::SetTargetRequest& request) override {
    if (request.celsius() > 30) return Status(Code::InvalidArgument, "30 degrees at most");
    CHECK(call.remaining() && *call.remaining() <= 250ms);
    home::v1::SetTargetReply reply;
    reply.set_celsius_before(celsius_.exchange(request.celsius()));
    return reply;
  }
  void note(Call&, const home::v1::NoteRequest& request) override {
    CHECK(request.text() == "a note");
    notes++;
  }
  // Answered by another thread.
  Result<home::v1::WatchReply> watch(Call& call, const home::v1::WatchRequest&) override {
    auto later = call.defer();
    if (!later.ok()) return later.status();
    std::thread([this, later = std::move(*later)]() mutable {
      home::v1::WatchReply reply;
      reply.set_celsius(celsius_);
      (void)later.reply(reply);
    }).detach();
    return nearcall::answered_later();
  }
  Result<google::protobuf::Empty> reset(Call&, const google::protobuf::Empty&) override {
    throw std::runtime_error("a secret");
  }

  std::atomic<int> notes{0};

 private:
  std::atomic<double> celsius_{20};
};

class Streams : public streams::v1::StreamsService {
  using Item = streams::v1::Item;
  using Plan = streams::v1::Plan;
  using Receiver = nearcall::ItemReceiver<Item>;
  using Sender = nearcall::ItemSender<Item>;

  Result<void> count(Call&, const Plan& plan, Sender items) override {
    for (std::uint64_t number = 0; number < plan.items(); number++) {
      Item item;
      item.set_number(number);
      if (auto sent = items.send(item); !sent.ok()) return sent;
    }
    if (plan.code() != 0) return Status(static_cast<Code>(plan.code()), "as planned");
    return {};
  }
  Result<void> count_quickly(Call& call, const Plan& plan, Sender items) override {
    return count(call, plan, items);
  }
  Result<Item> sum(Call&, Receiver items) override {
    Item total;
    for (const Item& item : items) total.set_number(total.number() + item.number());
    if (!items.status().ok()) return items.status();
    return total;
  }
  Result<google::protobuf::Empty> drain(Call&, Receiver items) override {
    for (const Item& item : items) (void)item;
    return google::protobuf::Empty();
  }
  Result<void> exchange(Call&, Receiver requests, Sender replies) override {
    for (const Item& item : requests) {
      if (auto sent = replies.send(item); !sent.ok()) return sent;
    }
    return requests.status();
  }
  Result<Item> say(Call&, const Item& item) override { return item; }
};

#ifdef NEARCALL_COROUTINES
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Task await_thermostat(const home::v1::ThermostatCaller& caller, std::atomic<bool>& has_ended) {
  home::v1::SetTargetRequest request;
  request.set_celsius(31);
  CHECK((co_await caller.async_set_target(request)).status().code() == Code::InvalidArgument);
  CHECK((co_await caller.async_watch({}))->celsius() == 21);
  has_ended = true;
  has_ended.notify_one();
}

Task await_streams(const streams::v1::StreamsCaller& caller, std::atomic<bool>& has_ended) {
  streams::v1::Plan plan;
  plan.set_items(3);
  auto replies = *co_await caller.async_count(plan);
  std::uint64_t next = 0;
  for (auto item = co_await replies.receive(); *item; item = co_await replies.receive())
    CHECK((*item)->number() == next++);
  CHECK(next == 3);
  streams::v1::Item item;
  item.set_number(7);
  auto requests = *co_await caller.async_sum();
  CHECK((co_await requests.send(item)).ok());
  CHECK((co_await requests.finish())->number() == 7);
  auto both = *co_await caller.async_exchange();
  CHECK((co_await both.send(item)).ok());
  CHECK((co_await both.receive())->value().number() == 7);
  CHECK((co_await both.finish()).ok());
  CHECK(!(co_await both.receive())->has_value());
  has_ended = true;
  has_ended.notify_one();
}
#endif

void call_thermostat(const nearcall::Client& client, const std::string& address) {
  const auto caller = home::v1::ThermostatCaller::create(client, address).value();
  home::v1::SetTargetRequest request;
  request.set_celsius(21);
  CHECK(caller.set_target(request)->celsius_before() == 20);
  CHECK(caller.start_set_target(request)->wait()->celsius_before() == 21);
  request.set_celsius(31);
  const auto refused = caller.set_target(request);
  CHECK(refused.status().code() == Code::InvalidArgument);
  CHECK(refused.status().message() == "30 degrees at most");
  home::v1::NoteRequest note;
  note.set_text("a note");
  CHECK(caller.note(note).ok());
  CHECK(caller.watch({})->celsius() == 21);
#ifdef NEARCALL_COROUTINES
  std::atomic<bool> has_ended{false};
  await_thermostat(caller, has_ended);
  has_ended.wait(false);
#endif
  const auto thrown = caller.reset({}).status();
  CHECK(thrown.code() == Code::Internal && thrown.message().find("secret") == std::string::npos);
}

void call_streams(const nearcall::Client& client, const std::string& address) {
  const auto caller = streams::v1::StreamsCaller::create(client, address).value();
  streams::v1::Plan plan;
  plan.set_items(100);
  plan.set_code(static_cast<std::uint32_t>(Code::Aborted));
  auto counted = caller.count(plan).value();
  std::uint64_t next = 0;
  for (const auto& item : counted) CHECK(item.number() == next++);
  CHECK(next == 100 && counted.status().code() == Code::Aborted);
  streams::v1::Item item;
  auto summed = caller.sum().value();
  for (std::uint64_t number = 0; number < 100; number++) {
    item.set_number(number);
    CHECK(summed.send(item).ok());
  }
  CHECK(summed.finish()->number() == 4950);
  auto exchanged = caller.exchange().value();
  CHECK(exchanged.send(item).ok() && exchanged.finish().ok());
  next = 0;
  for (const auto& one : exchanged) next += one.number();
  CHECK(next == 99 && exchanged.status().ok());
  item.set_data(std::string(100'000, 'x'));
  CHECK(caller.say(item)->data() == item.data());
#ifdef NEARCALL_COROUTINES
  std::atomic<bool> has_ended{false};
  await_streams(caller, has_ended);
  has_ended.wait(false);
#endif
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  auto thermostat = std::make_shared<Thermostat>();
  auto server = nearcall::Server::builder()
                    .register_service(thermostat)
                    .register_service(std::make_shared<Streams>())
                    .listen(arguments[1])
                    .start()
                    .value();
  nearcall::ClientOptions options;
  options.deadline = 20s;
  const auto client = nearcall::Client::create(options).value();
  call_thermostat(client, arguments[1]);
  call_streams(client, arguments[1]);
  CHECK(server.drain(20s).ok());
  CHECK(thermostat->notes == 1);
  std::puts("called");
  return 0;
}
