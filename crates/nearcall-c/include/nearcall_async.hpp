// Calls of nearcall as coroutines, from C++20 on: a part of nearcall.hpp, which includes it where
// the compiler has coroutines, and then defines NEARCALL_COROUTINES.
//
// Invariants: a coroutine goes on once for each call that it waits for, in the thread that turns
// its Resumer, or in a thread of the library; one that was destroyed does not go on.
// Not here: tasks and other coroutine types, which are the program's.

#ifndef NEARCALL_ASYNC_HPP
#define NEARCALL_ASYNC_HPP

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <coroutine>
#include <mutex>

#include "nearcall.hpp"

namespace nearcall {

namespace detail {

class Waiter;

// The coroutines of a thread that may go on.
class Ready {
 public:
  Ready() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), error_(errno) {}
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;
  ~Ready() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  int error() const { return error_; }
  void add(std::shared_ptr<Waiter> waiter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiters_.push_back(std::move(waiter));
    const std::uint64_t one = 1;
    // It can only fail where the descriptor is readable already.
    if (waiters_.size() == 1) (void)!write(descriptor_, &one, sizeof one);
  }
  std::vector<std::shared_ptr<Waiter>> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::uint64_t count = 0;
    (void)!read(descriptor_, &count, sizeof count);
    return std::exchange(waiters_, {});
  }

 private:
  int descriptor_;
  int error_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

// A call under way, and the coroutine that waits for it.
class Waiter : public std::enable_shared_from_this<Waiter> {
 public:
  bool has_ended() const { return state_.load(std::memory_order_acquire) == kEnded; }
  // Returns whether the coroutine waits now. If not, the call has ended.
  bool suspend(std::coroutine_handle<> waiting, std::shared_ptr<Ready> in) {
    waiting_ = waiting;
    in_ = std::move(in);
    int expected = kStarted;
    return state_.compare_exchange_strong(expected, kSuspended, std::memory_order_acq_rel);
  }
  void end() {
    const int before = state_.exchange(kEnded, std::memory_order_acq_rel);
    if (before == kAbandoned) state_.store(kAbandoned, std::memory_order_release);
    if (before != kSuspended) return;
    if (in_ == nullptr) return waiting_.resume();
    const auto in = in_;
    in->add(shared_from_this());
  }
  // Nothing waits any more.
  void abandon() { state_.store(kAbandoned, std::memory_order_release); }
  void resume() {
    if (has_ended()) waiting_.resume();
  }

 private:
  enum : int { kStarted, kSuspended, kEnded, kAbandoned };
  std::atomic<int> state_{kStarted};
  std::coroutine_handle<> waiting_;
  std::shared_ptr<Ready> in_;
};

}  // namespace detail

// Has coroutines go on in the thread of a loop: wait until `descriptor` is readable, then `turn`.
class Resumer {
 public:
  static Result<Resumer> create() {
    auto ready = std::make_shared<detail::Ready>();
    if (ready->descriptor() < 0) {
      const std::string text = "no eventfd: error " + std::to_string(ready->error());
      return Status(Code::ResourceExhausted, text);
    }
    return Resumer(std::move(ready));
  }
  // It stays the resumer's. Readable while `turn` has something to do.
  int descriptor() const { return ready_->descriptor(); }
  // Has the coroutines go on whose calls have ended, and does not wait. What they throw leaves it.
  void turn() {
    for (const auto& waiter : ready_->take()) waiter->resume();
  }

 private:
  template <class R>
  friend class AsyncCall;
  explicit Resumer(std::shared_ptr<detail::Ready> ready) : ready_(std::move(ready)) {}
  std::shared_ptr<detail::Ready> ready_;
};

// A call that was started: `co_await` it for its Result, once. Destroyed before, it is cancelled.
// Without `resume_in` the coroutine goes on in a thread of the library, the same for all calls:
// there it must be short, and nothing may leave it.
template <class R>
class [[nodiscard]] AsyncCall {
 public:
  AsyncCall(AsyncCall&&) noexcept = default;
  AsyncCall& operator=(AsyncCall&& other) noexcept {
    AsyncCall moved(std::move(other));
    std::swap(status_, moved.status_);
    std::swap(waiter_, moved.waiter_);
    std::swap(pending_, moved.pending_);
    std::swap(metadata_, moved.metadata_);
    std::swap(in_, moved.in_);
    return *this;
  }
  ~AsyncCall() {
    if (waiter_ != nullptr) waiter_->abandon();
  }
  // Has the coroutine go on in the thread that turns `resumer`.
  AsyncCall resume_in(const Resumer& resumer) && {
    in_ = resumer.ready_;
    return std::move(*this);
  }
  // Has it set to what came beside the reply.
  AsyncCall with_metadata(Metadata& metadata) && {
    metadata_ = &metadata;
    return std::move(*this);
  }

  bool await_ready() const { return waiter_ == nullptr || waiter_->has_ended(); }
  bool await_suspend(std::coroutine_handle<> waiting) {
    return waiter_->suspend(waiting, in_);
  }
  Result<R> await_resume() {
    if (waiter_ == nullptr) return status_;
    return pending_->wait(metadata_);
  }

 private:
  friend class Caller;
  explicit AsyncCall(Status status) : status_(std::move(status)) {}
  AsyncCall(std::shared_ptr<detail::Waiter> waiter, Pending<R> pending)
      : waiter_(std::move(waiter)), pending_(std::move(pending)) {}

  Status status_;
  std::shared_ptr<detail::Waiter> waiter_;
  std::optional<Pending<R>> pending_;
  Metadata* metadata_ = nullptr;
  std::shared_ptr<detail::Ready> in_;
};

template <class R, class Q>
AsyncCall<R> Caller::async_call(const char* method, const Q& request,
                                const CallOptions& options) const {
  auto waiter = std::make_shared<detail::Waiter>();
  auto started = start_notified<R>(method, request, [waiter] { waiter->end(); }, options);
  if (!started.ok()) return AsyncCall<R>(started.status());
  return AsyncCall<R>(std::move(waiter), std::move(*started));
}

}  // namespace nearcall

#endif  // NEARCALL_ASYNC_HPP
