// Calls as coroutines of C++20, of a service that runs already: streams.v1.Streams; and a service
// that is coroutines, which hands calls on to it.
//
// coroutines ADDRESS DESCRIPTORS
//
// Not here: everything else that a client does (streams.cpp).

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "messages.hpp"
#include "nearcall.hpp"

using namespace std::chrono_literals;
using nearcall::CallOptions;
using nearcall::Caller;
using nearcall::Client;
using nearcall::Code;
using nearcall::Resumer;
using streams::Item;
using streams::Plan;

namespace {

constexpr int kCalls = 100;
// The service serves those that wait inside each other, up to eight.
constexpr int kStreams = 4;

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      std::exit(1); \
    } \
  } while (0)

// The least that a program has of its own: a coroutine that nothing waits for.
struct Task {
  struct promise_type {
    Task get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

// Turns until so many have ended.
void turn_until(Resumer& resumer, const int& ended, int wanted) {
  while (ended < wanted) {
    pollfd ready = {resumer.descriptor(), POLLIN, 0};
    CHECK(poll(&ready, 1, 20000) == 1);
    resumer.turn();
  }
}

Task say(const Caller& caller, Resumer& resumer, std::uint64_t number, int& ended) {
  const auto thread = std::this_thread::get_id();
  for (std::uint64_t times = 0; times < 3; times++) {
    auto reply = co_await caller.async_call<Item>("Say", Item(number + times)).resume_in(resumer);
    CHECK(reply->number == number + times);
    CHECK(std::this_thread::get_id() == thread);
  }
  ended++;
}

Task fail(const Caller& caller, Resumer& resumer, int& ended) {
  nearcall::Metadata beside;
  auto options = CallOptions().metadata("trailer", "text").metadata("fail", "x");
  auto call = caller.async_call("Say", Item(), options).resume_in(resumer);
  auto other = caller.async_call<Item>("Say", Item(4)).resume_in(resumer);
  auto failed = co_await std::move(call).with_metadata(beside);
  CHECK(failed.status().code() == Code::Aborted && beside.trailer("trailer") == "text");
  CHECK((co_await other)->number == 4);
  auto refused = co_await caller.async_call("Say", Item(), CallOptions().metadata("Upper", "x"));
  CHECK(refused.status().code() == Code::InvalidArgument);
  auto late = co_await caller.async_call("Say", Item(), CallOptions().deadline(-1s))
                  .resume_in(resumer);
  CHECK(late.status().code() == Code::DeadlineExceeded);
  ended++;
}

// It goes on in the thread of the library.
Task say_anywhere(const Caller& caller, std::atomic<int>& ended) {
  for (std::uint64_t number = 0; number < 10; number++)
    CHECK((co_await caller.async_call<Item>("Say", Item(number)))->number == number);
  ended++;
  ended.notify_one();
}

// Every shape, in the thread of the resumer.
Task stream(const Caller& caller, Resumer& resumer, int& ended) {
  const auto thread = std::this_thread::get_id();
  Plan plan;
  plan.items = 500;
  plan.code = static_cast<std::uint64_t>(Code::Aborted);
  auto replies = co_await caller.async_open_reply_stream<Item>("Count", plan).resume_in(resumer);
  CHECK((co_await replies->headers()).ok());
  for (std::uint64_t number = 0; number < 500; number++)
    CHECK((co_await replies->receive())->value().number == number);
  auto failed = co_await replies->receive();
  CHECK(failed.status().code() == Code::Aborted && failed.status().message() == "as planned");
  plan.code = 0;
  plan.items = 1;
  *replies = *co_await caller.async_open_reply_stream<Item>("Count", plan).resume_in(resumer);
  CHECK((co_await replies->receive())->value().number == 0);
  CHECK(!(co_await replies->receive())->has_value());
  CHECK(replies->trailers().ok());

  auto requests =
      co_await caller.async_open_request_stream<Item, Item>("Sum").resume_in(resumer);
  for (std::uint64_t number = 0; number < 1000; number++)
    CHECK((co_await requests->send(Item(number))).ok());
  nearcall::Metadata beside;
  CHECK((co_await requests->finish().with_metadata(beside))->number == 499500);
  CHECK((co_await requests->finish()).status().code() == Code::FailedPrecondition);
  CHECK((co_await requests->send(Item())).status().code() == Code::FailedPrecondition);

  auto both = co_await caller.async_open_both_streams<Item, Item>("Exchange").resume_in(resumer);
  for (std::uint64_t number = 1; number < 100; number++) {
    auto received = both->receive();
    CHECK((co_await both->send(Item(number))).ok());
    CHECK((co_await received)->value().number == number);
  }
  CHECK((co_await both->finish()).ok());
  CHECK(!(co_await both->receive())->has_value());

  auto wrong = co_await caller.async_open_both_streams("Count").resume_in(resumer);
  CHECK(wrong.status().code() == Code::Unimplemented);
  auto late = co_await caller.async_open_reply_stream<Item>("Count", plan, CallOptions()
                                                            .deadline(-1s)).resume_in(resumer);
  CHECK(late.status().code() == Code::DeadlineExceeded);
  CHECK(std::this_thread::get_id() == thread);
  ended++;
}

// It sends more than there is credit for while another coroutine reads.
Task send_all(nearcall::AsyncBothStreams<Item, Item>& both, std::uint64_t count) {
  Item item;
  item.data.assign(50'000, 'x');
  for (item.number = 0; item.number < count; item.number++)
    CHECK((co_await both.send(item)).ok());
  CHECK((co_await both.finish()).ok());
}

Task exchange(const Caller& caller, Resumer& resumer, int& ended) {
  constexpr std::uint64_t kItems = 400;
  auto both = *co_await caller.async_open_both_streams<Item, Item>("Exchange").resume_in(resumer);
  send_all(both, kItems);
  for (std::uint64_t number = 0; number < kItems; number++)
    CHECK((co_await both.receive())->value().number == number);
  CHECK(!(co_await both.receive())->has_value());
  ended++;
}

Task stream_anywhere(const Caller& caller, std::atomic<int>& ended) {
  Plan plan;
  plan.items = 100;
  auto replies = *co_await caller.async_open_reply_stream<Item>("Count", plan);
  std::uint64_t next = 0;
  for (auto item = co_await replies.receive(); *item; item = co_await replies.receive())
    CHECK((*item)->number == next++);
  CHECK(next == plan.items);
  ended++;
  ended.notify_one();
}

struct Destroyed {
  int& count;
  ~Destroyed() { count++; }
};

Task wait_for_ever(const Caller& caller, Resumer& resumer, int& destroyed) {
  Destroyed mark{destroyed};
  (void)co_await caller.async_call("Say", Item(), CallOptions().wait_for_ready())
      .resume_in(resumer);
  std::exit(1);
}

// One item comes, and no other.
Task wait_for_an_item(const Caller& caller, Resumer& resumer, int& waiting, int& destroyed) {
  Destroyed mark{destroyed};
  auto both = *co_await caller.async_open_both_streams<Item, Item>("Exchange").resume_in(resumer);
  CHECK((co_await both.send(Item(3))).ok());
  CHECK((co_await both.receive())->value().number == 3);
  waiting++;
  (void)co_await both.receive();
  std::exit(1);
}

// The rules of nearcall.h for streams whose steps are reported.
void misuse_steps(const Client& client, const std::string& address) {
  const auto code = [](nearcall_status* status) {
    const nearcall::Status taken = nearcall::Status::take(status);
    return taken.code();
  };
  nearcall_caller caller{};
  CHECK(nearcall_caller_new(client.get(), address.c_str(), "streams.v1.Streams", &caller) ==
        nullptr);
  std::atomic<int> reported{0};
  const auto done = [](void* data) {
    auto& count = *static_cast<std::atomic<int>*>(data);
    count++;
    count.notify_one();
  };
  const auto wait_for = [&reported](int wanted) {
    for (int now = reported; now < wanted; now = reported) reported.wait(now);
  };
  nearcall_stream stream{};
  nearcall_pending step{};
  nearcall_bytes reply{};
  const auto open = [&](std::uint32_t shape, nearcall_view request) {
    return nearcall_open_notified(caller, "Exchange", shape, request, nullptr, done, &reported,
                                  &stream, &step);
  };
  CHECK(code(open(NEARCALL_SHAPE_UNARY, {})) == Code::InvalidArgument);
  const std::uint8_t byte = 0;
  CHECK(code(open(NEARCALL_SHAPE_BOTH_STREAMS, {&byte, 1})) == Code::InvalidArgument);
  CHECK(stream.id == 0 && step.id == 0);
  CHECK(open(NEARCALL_SHAPE_BOTH_STREAMS, {}) == nullptr);
  wait_for(1);
  CHECK(nearcall_pending_wait(step, &reply, nullptr) == nullptr);
  nearcall_pending other{};
  CHECK(code(nearcall_stream_start_receive(stream, nullptr, nullptr, &other)) ==
        Code::InvalidArgument);
  CHECK(nearcall_stream_start_receive(stream, done, &reported, &step) == nullptr);
  CHECK(code(nearcall_stream_start_receive(stream, done, &reported, &other)) ==
        Code::FailedPrecondition);
  nearcall_metadata* metadata = nullptr;
  CHECK(code(nearcall_stream_trailers(stream, &metadata)) == Code::FailedPrecondition);
  std::uint32_t has_item = 0;
  CHECK(code(nearcall_stream_receive(stream, &reply, &has_item)) == Code::FailedPrecondition);
  // Freed under a step, which then ends.
  CHECK(nearcall_stream_free(stream) == nullptr);
  wait_for(2);
  CHECK(code(nearcall_pending_wait_item(step, &reply, &has_item)) == Code::Cancelled);
  CHECK(code(nearcall_stream_free(stream)) == Code::FailedPrecondition);
  CHECK(code(nearcall_stream_start_send(stream, {}, done, &reported, &step)) ==
        Code::FailedPrecondition);
  CHECK(nearcall_caller_free(caller) == nullptr);
}

// Those that are destroyed do not go on: before their calls end, and after.
void destroy(const Client& client, const Caller& caller, Resumer& resumer) {
  int destroyed = 0;
  const auto nowhere =
      Caller::create(client, "unix:@nearcall-cpp-nowhere", "streams.v1.Streams").value();
  wait_for_ever(nowhere, resumer, destroyed).handle.destroy();
  for (int times = 0; times < kCalls; times++) {
    int ended = 0;
    auto task = say(caller, resumer, 1, ended);
    if (times % 2 == 0) std::this_thread::sleep_for(100us);
    if (ended == 0) task.handle.destroy();
  }
  resumer.turn();
  CHECK(destroyed == 1);
  int waiting = 0;
  auto task = wait_for_an_item(caller, resumer, waiting, destroyed);
  turn_until(resumer, waiting, 1);
  task.handle.destroy();
  resumer.turn();
  CHECK(destroyed == 2);
}

// What it hands on.
constexpr std::uint64_t kRefused = 1000, kFailed = 1001, kThrown = 1002;

// Hands its calls on, as coroutines.
class Relay : public nearcall::Service {
 public:
  Relay(const Caller& to, std::string set) : to_(to), set_(std::move(set)) {}
  std::string interface_name() const override { return "streams.v1.Streams"; }
  std::string_view descriptor_set() const override { return set_; }
  void serve(nearcall::Call& call, const nearcall::Request& request) override {
    if (request.method != "Say") return (void)call.fail({Code::Unimplemented, "it only says"});
    const auto item = request.decode<Item>();
    CHECK(item.ok());
    // One that does not run.
    (void)say(*item);
    call.end(nearcall::Result<Item>(nearcall::serve_by(call, say(*item))));
  }
  int running() const { return running_; }

 private:
  nearcall::Serving<Item> say(Item item) {
    struct Running {
      explicit Running(std::atomic<int>& all) : count(all) { count++; }
      ~Running() { count--; }
      std::atomic<int>& count;
    } running(running_);
    if (item.number == kRefused)
      co_return nearcall::Status(Code::OutOfRange, "too many");
    nearcall::DeferredCall& call = co_await nearcall::this_call;
    CHECK(!call.is_cancelled() && call.remaining().has_value());
    auto reply = co_await to_.async_call<Item>("Say", item);
    CHECK(call.add_trailer("said-by", "a coroutine").ok());
    if (item.number == kFailed) nearcall::detail::fail({Code::Aborted, "half way"});
    if (item.number == kThrown) throw 7;
    co_return reply;
  }
  const Caller& to_;
  std::string set_;
  std::atomic<int> running_{0};
};

void serve_as_coroutines(const Client& client, const Caller& to, const char* descriptors) {
  std::ifstream file(descriptors, std::ios::binary);
  auto relay = std::make_shared<Relay>(to, std::string(std::istreambuf_iterator<char>(file), {}));
  const auto address = "unix:@nearcall-cpp-relay-" + std::to_string(getpid());
  auto server = nearcall::Server::builder().register_service(relay).listen(address).start();
  const auto caller = Caller::create(client, server->address().value(), "streams.v1.Streams");
  std::vector<nearcall::Pending<Item>> started;
  for (std::uint64_t number = 0; number < kCalls; number++)
    started.push_back(caller->start<Item>("Say", Item(number)).value());
  for (std::uint64_t number = 0; number < kCalls; number++) {
    nearcall::Metadata beside;
    CHECK(started[number].wait(&beside)->number == number);
    CHECK(beside.trailer("said-by") == "a coroutine");
  }
  const auto say = [&caller](std::uint64_t number) {
    return caller->call<Item>("Say", Item(number)).status().to_string();
  };
  CHECK(say(kRefused) == "OUT_OF_RANGE: too many");
  CHECK(say(kFailed) == "ABORTED: half way");
  CHECK(say(kThrown) == "INTERNAL: the service has thrown an exception");
  CHECK(caller->call("Nothing", Item()).status().code() == Code::Unimplemented);
  CHECK(server->drain(20s).ok() && server->stop().ok());
  CHECK(relay->running() == 0);
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 3);
  nearcall::ClientOptions options;
  options.deadline = 20s;
  const auto client = Client::create(options).value();
  CHECK(client.hunt(arguments[1], 20s).ok());
  const auto caller = Caller::create(client, arguments[1], "streams.v1.Streams").value();
  auto resumer = Resumer::create().value();
  int ended = 0;
  for (std::uint64_t number = 0; number < kCalls; number++) say(caller, resumer, number, ended);
  fail(caller, resumer, ended);
  stream(caller, resumer, ended);
  exchange(caller, resumer, ended);
  turn_until(resumer, ended, kCalls + 3);
  std::atomic<int> anywhere{0};
  for (int times = 0; times < kCalls; times++) say_anywhere(caller, anywhere);
  for (int times = 0; times < kStreams; times++) stream_anywhere(caller, anywhere);
  for (int now = anywhere; now < kCalls + kStreams; now = anywhere) anywhere.wait(now);
  misuse_steps(client, arguments[1]);
  destroy(client, caller, resumer);
  serve_as_coroutines(client, caller, arguments[2]);
  // A callback in the place of a coroutine.
  std::atomic<bool> has_ended{false};
  auto pending = caller.start_notified<Item>("Say", Item(5), [&has_ended] {
    has_ended = true;
    has_ended.notify_one();
  });
  has_ended.wait(false);
  CHECK(pending->is_done() && pending->wait()->number == 5);
  std::puts("called");
  return 0;
}
