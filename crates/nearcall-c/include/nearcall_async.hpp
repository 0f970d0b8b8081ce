// Calls of nearcall as coroutines, also those that stream, from C++20 on: a part of nearcall.hpp,
// which includes it where the compiler has coroutines, and then defines NEARCALL_COROUTINES.
//
// Invariants: a coroutine goes on once for each call, and for each step of a stream, that it waits
// for, in the thread that turns its Resumer, or in a thread of the library; one that was destroyed
// does not go on.
// Not here: coroutines that serve (nearcall_server.hpp), tasks and other coroutine types, which are
// the program's.

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

class AsyncStream;
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

// A call or a step under way, and the coroutine that waits for it.
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
  // For a function of nearcall.h that reports an end.
  static void report(void* data) noexcept {
    const std::unique_ptr<std::shared_ptr<Waiter>> waiter(
        static_cast<std::shared_ptr<Waiter>*>(data));
    (*waiter)->end();
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
  template <class Take>
  friend class Async;
  explicit Resumer(std::shared_ptr<detail::Ready> ready) : ready_(std::move(ready)) {}
  std::shared_ptr<detail::Ready> ready_;
};

// A call or a step of a stream that was started: `co_await` it for its Result, once. Destroyed
// before, the call is cancelled. Without `resume_in` the coroutine goes on in a thread of the
// library, the same for all calls: there it must be short, and nothing may leave it.
template <class Take>
class [[nodiscard]] Async {
 public:
  Async(Async&&) noexcept = default;
  Async& operator=(Async&& other) noexcept {
    Async moved(std::move(other));
    std::swap(status_, moved.status_);
    std::swap(waiter_, moved.waiter_);
    std::swap(held_, moved.held_);
    std::swap(take_, moved.take_);
    std::swap(metadata_, moved.metadata_);
    std::swap(in_, moved.in_);
    return *this;
  }
  ~Async() {
    if (waiter_ != nullptr) waiter_->abandon();
  }
  // Has the coroutine go on in the thread that turns `resumer`; after opening a stream, by default
  // also after each step of that.
  Async resume_in(const Resumer& resumer) && {
    in_ = resumer.ready_;
    return std::move(*this);
  }
  // Has it set to what came beside the reply.
  Async with_metadata(Metadata& metadata) && {
    metadata_ = &metadata;
    return std::move(*this);
  }

  bool await_ready() const {
    return waiter_ == nullptr || waiter_->has_ended() ||
           nearcall_pending_is_done(held_.get()) != 0;
  }
  bool await_suspend(std::coroutine_handle<> waiting) {
    return waiter_->suspend(waiting, in_);
  }
  auto await_resume() -> decltype(std::declval<Take&>()(nearcall_pending{}, nullptr, nullptr)) {
    if (waiter_ == nullptr) return status_;
    return take_(held_.release(), metadata_, std::move(in_));
  }

 private:
  friend class Caller;
  friend class detail::AsyncStream;
  // Starts it by `start(done, data, &pending)`.
  template <class Start>
  static Async started(Start start, Take take, std::shared_ptr<detail::Ready> in = nullptr) {
    auto waiter = std::make_shared<detail::Waiter>();
    auto data = std::make_unique<std::shared_ptr<detail::Waiter>>(waiter);
    nearcall_pending made{};
    if (auto* status = start(detail::Waiter::report, data.get(), &made))
      return Async(Status::take(status));
    // `report` has it.
    (void)data.release();
    return Async(std::move(waiter), made, std::move(take), std::move(in));
  }
  explicit Async(Status status) : status_(std::move(status)) {}
  Async(std::shared_ptr<detail::Waiter> waiter, nearcall_pending made, Take take,
        std::shared_ptr<detail::Ready> in)
      : waiter_(std::move(waiter)), held_(made), take_(std::move(take)), in_(std::move(in)) {}

  Status status_;
  std::shared_ptr<detail::Waiter> waiter_;
  detail::Handle<nearcall_pending, nearcall_pending_cancel> held_;
  Take take_;
  Metadata* metadata_ = nullptr;
  std::shared_ptr<detail::Ready> in_;
};

namespace detail {

// Takes the reply of a call.
template <class R>
struct TakeReply {
  Result<R> operator()(nearcall_pending ended, Metadata* metadata, std::shared_ptr<Ready>) const {
    nearcall_bytes reply{};
    auto** sent = metadata != nullptr ? metadata->out() : nullptr;
    auto* status = nearcall_pending_wait(ended, &reply, sent);
    return decode_reply<R>(status, reply, metadata);
  }
};

// Takes how a step has ended that has no reply.
struct TakeNothing {
  Result<void> operator()(nearcall_pending ended, Metadata* metadata,
                          std::shared_ptr<Ready>) const {
    return TakeReply<Bytes>()(ended, metadata, nullptr).status();
  }
};

struct TakeMetadata {
  Result<Metadata> operator()(nearcall_pending ended, Metadata*, std::shared_ptr<Ready>) const {
    Metadata found;
    auto taken = TakeNothing()(ended, &found, nullptr);
    if (!taken.ok()) return taken.status();
    return found;
  }
};

template <class R>
struct TakeItem {
  Result<std::optional<R>> operator()(nearcall_pending ended, Metadata*,
                                      std::shared_ptr<Ready>) const {
    nearcall_bytes item{};
    std::uint32_t has_item = 0;
    auto* status = nearcall_pending_wait_item(ended, &item, &has_item);
    return decode_item<R>(status, item, has_item, Code::Internal);
  }
};

// What streams of all shapes have.
class AsyncStream {
 public:
  AsyncStream(Stream held, std::shared_ptr<Ready> in)
      : held_(std::move(held)), in_(std::move(in)) {}
  template <class Q>
  Async<TakeNothing> send(const Q& item) {
    const Encoded encoded(item);
    if (!encoded.ok()) return Async<TakeNothing>(encoded.status());
    return step(TakeNothing(), nearcall_stream_start_send, encoded.get());
  }
  template <class Take>
  Async<Take> finish(Take take) {
    return step(take, nearcall_stream_start_finish);
  }
  template <class R>
  Async<TakeItem<R>> receive() {
    return step(TakeItem<R>(), nearcall_stream_start_receive);
  }
  Async<TakeMetadata> headers() { return step(TakeMetadata(), nearcall_stream_start_headers); }
  Result<Metadata> trailers() { return beside(nearcall_stream_trailers, held_); }

 private:
  template <class Take, class Start, class... More>
  Async<Take> step(Take take, Start start, More... more) {
    const auto start_it = [&](auto done, void* data, nearcall_pending* made) {
      return start(held_.get(), more..., done, data, made);
    };
    return Async<Take>::started(start_it, std::move(take), in_);
  }
  Stream held_;
  std::shared_ptr<Ready> in_;
};

// Takes a stream that was opened.
template <class S>
struct TakeStream {
  Result<S> operator()(nearcall_pending ended, Metadata*, std::shared_ptr<Ready> in) {
    auto opened = TakeNothing()(ended, nullptr, nullptr);
    if (!opened.ok()) return opened.status();
    return S(AsyncStream(std::move(held), std::move(in)));
  }
  Stream held;
};

}  // namespace detail

// A call whose reply is a stream, for coroutines. Each function gives what is awaited, and has the
// rules of that of ReplyStream; one is awaited before the next is called. Destroyed before its end,
// the call is cancelled. For any thread, one at a time.
template <class R>
class [[nodiscard]] AsyncReplyStream {
 public:
  // For the next item; none: the call has ended well.
  auto receive() { return of_.template receive<R>(); }
  // For what the service sends before the first item.
  auto headers() { return of_.headers(); }
  // What came with the end of the items, after it: this one is not awaited.
  Result<Metadata> trailers() { return of_.trailers(); }

 private:
  friend struct detail::TakeStream<AsyncReplyStream>;
  explicit AsyncReplyStream(detail::AsyncStream of) : of_(std::move(of)) {}
  detail::AsyncStream of_;
};

// A call whose request is a stream, for coroutines, with the rules of AsyncReplyStream. Destroyed
// before `finish` was awaited, it is cancelled.
template <class Q, class R>
class [[nodiscard]] AsyncRequestStream {
 public:
  // For credit and room for an item, which is encoded at once.
  auto send(const Q& item) { return of_.send(item); }
  // Ends the items: for the reply.
  auto finish() { return of_.finish(detail::TakeReply<R>()); }

 private:
  friend struct detail::TakeStream<AsyncRequestStream>;
  explicit AsyncRequestStream(detail::AsyncStream of) : of_(std::move(of)) {}
  detail::AsyncStream of_;
};

// A call whose request and reply are streams, for coroutines, with the rules of AsyncReplyStream.
// Requests and replies are independent: two coroutines may use them at the same time.
template <class Q, class R>
class [[nodiscard]] AsyncBothStreams {
 public:
  auto send(const Q& item) { return of_.send(item); }
  // Ends the items of the request; the reply goes on to its own end.
  auto finish() { return of_.finish(detail::TakeNothing()); }
  auto receive() { return of_.template receive<R>(); }
  auto headers() { return of_.headers(); }
  Result<Metadata> trailers() { return of_.trailers(); }

 private:
  friend struct detail::TakeStream<AsyncBothStreams>;
  explicit AsyncBothStreams(detail::AsyncStream of) : of_(std::move(of)) {}
  detail::AsyncStream of_;
};

template <class R, class Q>
AsyncCall<R> Caller::async_call(const char* method, const Q& request,
                                const CallOptions& options) const {
  const detail::Encoded encoded(request);
  if (!encoded.ok()) return AsyncCall<R>(encoded.status());
  const Options set(options);
  const auto start = [&](auto done, void* data, nearcall_pending* made) {
    return nearcall_start_notified(held_.get(), method, encoded.get(), set.get(), done, data, made);
  };
  return AsyncCall<R>::started(start, {});
}

template <class S>
Opening<S> Caller::async_open(const char* method, std::uint32_t shape, nearcall_view request,
                              const CallOptions& options) const {
  const Options set(options);
  nearcall_stream opened{};
  const auto start = [&](auto done, void* data, nearcall_pending* made) {
    return nearcall_open_notified(held_.get(), method, shape, request, set.get(), done, data,
                                  &opened, made);
  };
  auto opening = Opening<S>::started(start, {});
  opening.take_.held = detail::Stream(opened);
  return opening;
}

template <class R, class Q>
Opening<AsyncReplyStream<R>> Caller::async_open_reply_stream(const char* method, const Q& request,
                                                             const CallOptions& options) const {
  const detail::Encoded encoded(request);
  if (!encoded.ok()) return Opening<AsyncReplyStream<R>>(encoded.status());
  return async_open<AsyncReplyStream<R>>(method, NEARCALL_SHAPE_REPLY_STREAM, encoded.get(),
                                         options);
}

template <class Q, class R>
Opening<AsyncRequestStream<Q, R>> Caller::async_open_request_stream(
    const char* method, const CallOptions& options) const {
  return async_open<AsyncRequestStream<Q, R>>(method, NEARCALL_SHAPE_REQUEST_STREAM, {}, options);
}

template <class Q, class R>
Opening<AsyncBothStreams<Q, R>> Caller::async_open_both_streams(const char* method,
                                                                const CallOptions& options) const {
  return async_open<AsyncBothStreams<Q, R>>(method, NEARCALL_SHAPE_BOTH_STREAMS, {}, options);
}

}  // namespace nearcall

#endif  // NEARCALL_ASYNC_HPP
