// Calls as coroutines of C++20, of a service that runs already: streams.v1.Streams/Say.
//
// coroutines ADDRESS
//
// Not here: everything else that a client does (streams.cpp).

#include <poll.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
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

namespace {

constexpr int kCalls = 100;

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
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  nearcall::ClientOptions options;
  options.deadline = 20s;
  const auto client = Client::create(options).value();
  CHECK(client.hunt(arguments[1], 20s).ok());
  const auto caller = Caller::create(client, arguments[1], "streams.v1.Streams").value();
  auto resumer = Resumer::create().value();
  int ended = 0;
  for (std::uint64_t number = 0; number < kCalls; number++) say(caller, resumer, number, ended);
  fail(caller, resumer, ended);
  turn_until(resumer, ended, kCalls + 1);
  std::atomic<int> anywhere{0};
  for (int times = 0; times < kCalls; times++) say_anywhere(caller, anywhere);
  for (int now = anywhere; now < kCalls; now = anywhere) anywhere.wait(now);
  destroy(client, caller, resumer);
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
