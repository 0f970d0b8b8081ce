// streams.v1.Streams in C++, and a client of it.
//
// streams server ADDRESS DESCRIPTOR_SET   serves until its input ends; prints "ready"
// streams client ADDRESS                  calls every method, in every way
// streams misuse                          what no program should do
//
// Not here: the same in C (../c/streams.c), messages (messages.hpp).

#include <poll.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include "messages.hpp"
#include "nearcall.hpp"

using namespace std::chrono_literals;
using nearcall::Call;
using nearcall::CallOptions;
using nearcall::Caller;
using nearcall::Client;
using nearcall::Code;
using nearcall::Result;
using nearcall::Status;
using streams::Item;
using streams::Plan;

namespace {

constexpr const char* kInterface = "streams.v1.Streams";
constexpr auto kPatience = 20s;

[[noreturn]] void fail(int line, const char* what, const std::string& why) {
  std::fprintf(stderr, "line %d: %s: %s\n", line, what, why.c_str());
  std::exit(1);
}

#define CHECK(condition) \
  do { if (!(condition)) fail(__LINE__, #condition, ""); } while (0)

// The value of a result, which has one.
template <class T>
T must(int line, const char* what, Result<T> result) {
  if (!result.ok()) fail(line, what, result.status().to_string());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
#define MUST(call) must(__LINE__, #call, call)

// The call fails with a code, and its text has `part`.
template <class T>
void refused(int line, const char* what, const T& result, Code code, const char* part) {
  const Status status = result.status();
  const bool is_it = status.code() == code &&
                     status.message().find(part) != std::string::npos;
  if (!is_it) fail(line, what, status.to_string());
}
#define REFUSED(call, code, part) refused(__LINE__, #call, call, code, part)

// -- The service. --

class Streams : public nearcall::Service {
 public:
  explicit Streams(std::string set) : set_(std::move(set)) {}
  ~Streams() override { released++; }
  std::string interface_name() const override { return kInterface; }
  std::string_view descriptor_set() const override { return set_; }

  void serve(Call& call, const nearcall::Request& request) override {
    if (request.method == "Say") {
      CHECK(request.shape == nearcall::Shape::Unary && request.index == 5);
      return say(call, request);
    }
    if (request.method.substr(0, 5) == "Count") {
      CHECK(request.shape == nearcall::Shape::ReplyStream);
      call.end(count(MUST(request.decode<Plan>()), call.replies<Item>()));
    } else if (request.method == "Exchange") {
      CHECK(request.shape == nearcall::Shape::BothStreams);
      auto later = call.defer();
      if (!later.ok()) return;
      REFUSED(call.defer(), Code::FailedPrecondition, "before");
      std::thread(exchange, std::move(*later)).detach();
    } else {
      CHECK(request.shape == nearcall::Shape::RequestStream);
      call.end(sum(call.requests<Item>()));
    }
  }

  static std::atomic<int> released;

 private:
  static void exchange(nearcall::DeferredCall call) {
    auto replies = call.replies<Item>();
    auto requests = call.requests<Item>();
    for (const Item& item : requests) {
      if (!replies.send(item).ok()) return;  // The call fails when it is destroyed.
    }
    if (!requests.status().ok()) return (void)call.fail(requests.status());
    MUST(call.finish());
    REFUSED(call.finish(), Code::FailedPrecondition, "handle is 0");
  }

  static Result<void> count(const Plan& plan, nearcall::ItemSender<Item> items) {
    for (std::uint64_t number = 0; number < plan.items; number++) {
      if (auto sent = items.send(Item(number)); !sent.ok()) return sent;
    }
    if (plan.code != 0) return Status(static_cast<Code>(plan.code), "as planned");
    return {};
  }

  static Result<Item> sum(nearcall::ItemReceiver<Item> items) {
    Item total;
    for (const Item& item : items) total.number += item.number;
    if (!items.status().ok()) return items.status();
    return total;
  }

  static void say(Call& call, const nearcall::Request& request) {
    if (auto value = call.metadata("trailer")) MUST(call.add_trailer("trailer", *value));
    if (auto value = call.metadata("raw-bin")) {
      CHECK(call.metadata().size() == 2 && call.metadata()[1].value == *value);
      MUST(call.add_header("raw-bin", *value));
      CHECK(call.remaining() && *call.remaining() <= kPatience);
    }
    if (call.metadata("silent")) return;
    if (call.metadata("fail")) return (void)call.fail(Status(Code::Aborted, "as asked"));
    if (call.metadata("details"))
      return (void)call.fail(Status(Code::NotFound, "no such").with_details({"\x08\x05", 2}));
    if (call.metadata("error")) throw nearcall::Error({Code::DataLoss, "thrown"});
    if (call.metadata("throw")) throw std::runtime_error("a secret of the service");
    if (call.metadata("loan")) {
      auto loan = MUST(call.loan(request.message.size() + 1));
      std::memcpy(loan.data(), request.message.data(), request.message.size());
      loan.shrink(request.message.size());
      return (void)MUST(call.reply(std::move(loan)));
    }
    if (call.metadata("later")) return (void)MUST(call.defer());
    auto item = request.decode<Item>();
    if (!item.ok()) return (void)call.fail(item.status());
    MUST(call.reply(*item));
    REFUSED(call.reply(*item), Code::FailedPrecondition, "already");
    REFUSED(call.defer(), Code::FailedPrecondition, "already");
  }

  std::string set_;
};

std::atomic<int> Streams::released{0};

int run_server(const std::string& address, const char* file) {
  std::ifstream from(file, std::ios::binary);
  const std::string set{std::istreambuf_iterator<char>(from), {}};
  {
    auto service = std::make_shared<Streams>(set);
    auto server = MUST(nearcall::Server::builder().register_service(service).listen(address)
                           .start());
    service.reset();
    std::printf("ready %s\n", MUST(server.address()).c_str());
    std::fflush(stdout);
    REFUSED(server.address(1), Code::OutOfRange, "fewer");
    while (std::getchar() != EOF) {
    }
    MUST(server.drain(kPatience));
    CHECK(Streams::released == 0);
  }
  CHECK(Streams::released == 1);
  return 0;
}

// -- The client. --

void call_say(const Caller& caller) {
  for (int times = 0; times < 100; times++)
    CHECK(MUST(caller.call<Item>("Say", Item(300))).number == 300);
  CHECK(MUST(caller.call("Say", std::string_view())).empty());
  Item large(1);
  large.data.assign(100'000, 'x');
  CHECK(caller.call<Item>("Say", large)->data == large.data);
  auto loan = MUST(caller.loan(large.ByteSizeLong() + 1));
  loan.shrink(large.ByteSizeLong());
  CHECK(large.SerializeToArray(loan.data(), static_cast<int>(loan.size())));
  const auto lent = CallOptions().metadata("loan", "x");
  CHECK(caller.call<Item>("Say", std::move(loan), lent)->data == large.data);
  REFUSED(caller.call("Say", MUST(caller.loan(9)), CallOptions().metadata("Upper", "x")),
          Code::InvalidArgument, "Upper");

  auto options = CallOptions().deadline(kPatience).metadata("trailer", "text");
  nearcall::Metadata beside;
  const std::string raw("\0\xff", 2);
  auto with_raw = CallOptions(options).metadata("raw-bin", raw);
  MUST(caller.call<Item>("Say", Item(300), with_raw, &beside));
  CHECK(beside.trailer("trailer") == "text");
  CHECK(beside.header("raw-bin") == raw);
  CHECK(!beside.trailer("other"));
  CHECK(beside.trailers().size() == 1 && beside.trailers()[0].key == "trailer");
  CHECK(beside.headers().size() == 1 && beside.headers()[0].value == raw);

  auto failing = CallOptions(options).metadata("fail", "text");
  auto failed = caller.call<Item>("Say", Item(1), failing, &beside);
  REFUSED(failed, Code::Aborted, "as asked");
  CHECK(!failed.status().has_not_begun());
  CHECK(failed.status().entry("trailer") == "text");
  CHECK(failed.status().entries().size() == 1 && failed.status().entries()[0].value == "text");
  CHECK(beside.trailer("trailer") == "text");
  try {
    (void)failed.value();
    fail(__LINE__, "value", "has not thrown");
  } catch (const nearcall::Error& error) {
    CHECK(error.status().code() == Code::Aborted);
    CHECK(std::string(error.what()) == "ABORTED: as asked");
  }
  REFUSED(caller.call("Say", Item(), CallOptions().metadata("silent", "x")), Code::Internal,
          "`Say`");
}

// What only the service in C++ does.
void call_exceptions(const Caller& caller) {
  // A message of another type: field 1 is bytes.
  REFUSED(caller.call("Say", std::string_view("\x0a\x05")), Code::InvalidArgument, "decoded");
  auto error = CallOptions().metadata("error", "x");
  REFUSED(caller.call("Say", Item(1), error), Code::DataLoss, "thrown");
  auto other = CallOptions().metadata("throw", "x");
  const auto thrown = caller.call("Say", Item(1), other);
  REFUSED(thrown, Code::Internal, "exception");
  CHECK(thrown.status().message().find("secret") == std::string::npos);
  auto later = CallOptions().metadata("later", "x").deadline(kPatience);
  REFUSED(caller.call("Say", Item(1), later), Code::Internal, "deferred");
  const auto failed = caller.call("Say", Item(1), CallOptions().metadata("details", "x"));
  REFUSED(failed, Code::NotFound, "no such");
  CHECK(failed.status().details() == std::string("\x08\x05", 2));
}

void call_later(const Caller& caller) {
  std::vector<nearcall::Pending<Item>> pending;
  for (std::uint64_t number = 0; number < 8; number++)
    pending.push_back(MUST(caller.start<Item>("Say", Item(number))));
  pending[3].cancel();
  for (std::uint64_t number = 0; number < 8; number++) {
    if (number == 3) {
      REFUSED(pending[3].wait(), Code::FailedPrecondition, "is 0");
      continue;
    }
    CHECK(MUST(pending[number].wait()).number == number);
    CHECK(pending[number].is_done());
  }
}

void stream(const Caller& caller) {
  Plan plan;
  plan.items = 500;
  plan.code = static_cast<std::uint64_t>(Code::Aborted);
  auto replies = MUST(caller.open_reply_stream<Item>("Count", plan));
  std::uint64_t next = 0;
  for (const Item& item : replies) CHECK(item.number == next++);
  CHECK(next == 500);
  REFUSED(replies, Code::Aborted, "as planned");
  plan.code = 0;
  plan.items = 2;
  replies = MUST(caller.open_reply_stream<Item>("Count", plan));
  CHECK(MUST(replies.receive())->number == 0);
  CHECK(MUST(replies.receive())->number == 1);
  CHECK(!MUST(replies.receive()));
  MUST(replies.trailers());

  auto requests = MUST((caller.open_request_stream<Item, Item>("Sum")));
  for (std::uint64_t number = 0; number < 1000; number++) MUST(requests.send(Item(number)));
  CHECK(MUST(requests.finish()).number == 499500);
  REFUSED(requests.finish(), Code::FailedPrecondition, "ended");

  auto both = MUST((caller.open_both_streams<Item, Item>("Exchange")));
  for (std::uint64_t number = 1; number < 100; number++) {
    MUST(both.send(Item(number)));
    CHECK(MUST(both.receive())->number == number);
  }
  MUST(both.finish());
  CHECK(!MUST(both.receive()));
  // One that is given up.
  both = MUST((caller.open_both_streams<Item, Item>("Exchange")));
}

int run_client(const std::string& address, bool is_of_cpp) {
  nearcall::ClientOptions options;
  options.deadline = kPatience;
  std::optional<Client> client = MUST(Client::create(options));
  MUST(client->hunt(address, kPatience));
  const Caller caller = MUST(Caller::create(*client, address, kInterface));
  call_say(caller);
  if (is_of_cpp) call_exceptions(caller);
  call_later(caller);
  stream(caller);
  REFUSED(caller.call("Sai", Item()), Code::Unimplemented, "it has");
  REFUSED(caller.call("Sum", Item()), Code::Unimplemented, "stream");
  auto attachment = MUST(client->attach(address));
  REFUSED(attachment.wait(0s), Code::DeadlineExceeded, "there");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&caller] {
      for (int times = 0; times < 200; times++)
        CHECK(MUST(caller.call<Item>("Say", Item(7))).number == 7);
    });
  }
  client.reset();
  for (auto& thread : threads) thread.join();
  std::puts("called");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  const auto notice = MUST(attachment.wait(kPatience));
  using Cause = nearcall::Notice::Cause;
  CHECK(notice.cause == Cause::Closed || notice.cause == Cause::Exited);
  return 0;
}

// -- What no program should do. --

// A server in a loop of this thread, which a client of another thread calls.
void serve_in_a_loop() {
  auto loop = MUST(nearcall::EventLoop::create());
  auto server = MUST(nearcall::Server::builder().listen("tcp://127.0.0.1:0").start_in(loop));
  CHECK(MUST(server.address()).find("tcp://127.0.0.1:") == 0);
  REFUSED(server.address(1), Code::OutOfRange, "fewer");
  CHECK(MUST(server.counters()).connections == 0);
  pollfd ready = {MUST(loop.descriptor()), POLLIN, 0};
  for (int turns = 0; turns < 3; turns++) {
    MUST(loop.turn());
    (void)poll(&ready, 1, 0);
  }
}

void misuse_servers() {
  using nearcall::Server;
  REFUSED(Server::builder().register_service(nullptr).start(), Code::InvalidArgument, "null");
  auto service = std::make_shared<Streams>("?");
  REFUSED(Server::builder().register_service(service).start(), Code::InvalidArgument, "");
  CHECK(service.use_count() == 1);
  auto builder = Server::builder();
  REFUSED(builder.listen("nothing good://").start(), Code::FailedPrecondition, "nothing good");
  REFUSED(builder.start(), Code::FailedPrecondition, "already");
  auto loop = MUST(nearcall::EventLoop::create());
  auto server = MUST(Server::builder().start_in(loop));
  REFUSED(server.drain(1s), Code::FailedPrecondition, "loop");
  // The loop ends before its server, which then has nothing to stop.
  { const auto ended = std::move(loop); }
  REFUSED(loop.turn(), Code::FailedPrecondition, "is 0");
  MUST(server.stop());
}

int misuse() {
  serve_in_a_loop();
  misuse_servers();
  auto client = MUST(Client::create());
  auto moved = std::move(client);
  REFUSED(client.hunt("x", 0s), Code::FailedPrecondition, "is 0");
  REFUSED(Caller::create(moved, "ftp://x", kInterface), Code::InvalidArgument, "ftp");
  const auto caller = MUST(Caller::create(moved, "unix:@nearcall-cpp-nowhere", kInterface));
  const auto failed = caller.call("Say", Item(1));
  CHECK(failed.status().code() == Code::Unavailable && failed.status().has_not_begun());
  REFUSED(caller.call("Say", Item(1), CallOptions().metadata("Upper", "x")),
          Code::InvalidArgument, "Upper");
  // A deadline that has passed is none that is the default.
  auto late = CallOptions().deadline(-1s).wait_for_ready();
  REFUSED(caller.call("Say", Item(1), late), Code::DeadlineExceeded, "");
  REFUSED(caller.open_reply_stream<Item>("Count", Plan(), late), Code::DeadlineExceeded, "");
  CHECK(Status().ok() && Status().to_string() == "OK" && Status().message().empty());
  CHECK(!Status().entry("x") && !Status(Code::Aborted, "x").entry("x"));
  CHECK(Result<int>(Status()).status().code() == Code::Internal);
  REFUSED(nearcall::Result<void>(nearcall::answered_later()), Code::Internal, "deferred");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string verb = count > 1 ? arguments[1] : "";
  if (count == 4 && verb == "server") return run_server(arguments[2], arguments[3]);
  if (count == 3 && verb == "client") return run_client(arguments[2], true);
  if (count == 3 && verb == "client-of-c") return run_client(arguments[2], false);
  if (count == 2 && verb == "misuse") return misuse();
  return 2;
}
