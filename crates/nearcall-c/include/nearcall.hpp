// Calls and services of nearcall for C++17 and later: link with -lnearcall. From C++20 on calls can
// be awaited by coroutines.
//
// How functions end. Those that can fail return a Result: a value, or a Status that says why there
// is none. `value()` of a Result without one throws an Error; nothing else here throws anything but
// std::bad_alloc. With -fno-exceptions `value()` aborts instead.
//
// Who owns what. A class that stands for something of the library releases it when it is destroyed,
// and can be moved and not copied. One that was moved from is only destroyed or assigned to. Views
// are valid as long as what they were asked of.
//
// Which threads. Client, Caller, Attachment, Server and DeferredCall: any, also several at once.
// Pending, ReplyStream, RequestStream, BothStreams, EventLoop and a Server in one: the thread that
// has made it, which also destroys it; a Pending of `start_notified` and what coroutines await and
// read: any, one at a time. Call: the thread that serves it, until the service returns.
//
// Messages are classes as protoc makes them (ByteSizeLong, SerializeToArray, ParseFromArray), or
// are encoded already: requests as anything that is a std::string_view, replies as Bytes or
// std::string.
//
// Invariants: no exception enters the library.
// Not here: what is in the headers that this one includes: statuses, results and messages
// (nearcall_base.hpp), services and servers (nearcall_server.hpp), coroutines (nearcall_async.hpp);
// the library itself (nearcall.h), classes for one interface (`nearcall gen --lang cpp`).

#ifndef NEARCALL_HPP
#define NEARCALL_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nearcall_base.hpp"

// What generated code relies on: a header of another version says so when it is compiled.
#define NEARCALL_CPP_VERSION 1

#if defined(__cpp_impl_coroutine) && !defined(NEARCALL_COROUTINES)
#define NEARCALL_COROUTINES 1
#endif

namespace nearcall {

// -- Clients. --

// How a call is made. The default is what the caller and the client say.
class CallOptions {
 public:
  // Time until the call ends by itself.
  template <class Rep, class Period>
  CallOptions& deadline(std::chrono::duration<Rep, Period> time) {
    timeout_ns_ = detail::nanoseconds(time);
    flags_ |= NEARCALL_TIMEOUT;
    return *this;
  }
  CallOptions& deadline_at(std::chrono::steady_clock::time_point time) {
    return deadline(time - std::chrono::steady_clock::now());
  }
  CallOptions& no_deadline() {
    timeout_ns_ = UINT64_MAX;
    return *this;
  }
  // An entry that goes with the request. The key is of lower-case letters, digits and -_. ; the
  // value is printable ASCII, or any bytes if the key ends in -bin.
  CallOptions& metadata(std::string key, std::string value) {
    entries_.emplace_back(std::move(key), std::move(value));
    return *this;
  }
  // Waits until the server is there, at most until the deadline.
  CallOptions& wait_for_ready() {
    flags_ |= NEARCALL_WAIT_FOR_READY;
    return *this;
  }
  // Fails with RESOURCE_EXHAUSTED where the call would have to wait for room.
  CallOptions& no_wait() {
    flags_ |= NEARCALL_NO_WAIT;
    return *this;
  }

 private:
  friend class Caller;
  bool is_default() const { return timeout_ns_ == 0 && flags_ == 0 && entries_.empty(); }
  std::uint64_t timeout_ns_ = 0;
  std::uint32_t flags_ = 0;
  std::vector<std::pair<std::string, std::string>> entries_;
};

// How a client behaves. Zeros: the defaults.
struct ClientOptions {
  // Deadline of calls that have none of their own; 0: none.
  std::chrono::nanoseconds deadline{0};
  // Longest message, in bytes; 0: 4 MiB.
  std::uint32_t message_bytes_max = 0;
  // Credit of a stream in each direction, in bytes; 0: 4 MiB.
  std::uint32_t stream_window_bytes = 0;
};

// Why an attached server is gone.
struct Notice {
  enum class Cause : std::uint32_t {
    Exited = NEARCALL_CAUSE_EXITED,
    Killed = NEARCALL_CAUSE_KILLED,
    Closed = NEARCALL_CAUSE_CLOSED,
    Replaced = NEARCALL_CAUSE_REPLACED,
    Unresponsive = NEARCALL_CAUSE_UNRESPONSIVE,
    Lost = NEARCALL_CAUSE_LOST,
  };
  Cause cause;
  // The exit code, or the signal; 0 for other causes.
  std::int32_t code;
  // The process id that the server had; 0: not known.
  std::int32_t pid;
};

// A watch over a server.
class Attachment {
 public:
  // Waits until the server is gone; 0: only looks. DEADLINE_EXCEEDED: it is still there.
  template <class Rep, class Period>
  Result<Notice> wait(std::chrono::duration<Rep, Period> timeout) const {
    nearcall_notice found{};
    auto* status = nearcall_attachment_wait(held_.get(), detail::nanoseconds(timeout), &found);
    if (status != nullptr) return Status::take(status);
    return Notice{static_cast<Notice::Cause>(found.cause), found.code, found.pid};
  }

 private:
  friend class Client;
  explicit Attachment(nearcall_attachment taken) : held_(taken) {}
  detail::Handle<nearcall_attachment, nearcall_attachment_free> held_;
};

// What the connections have carried and hold that are open now: see nearcall.h.
using Counters = nearcall_counters;

namespace detail {

template <class Count>
Result<Counters> counters(Count count) {
  Counters counted{};
  counted.size = sizeof counted;
  if (auto* status = count(&counted)) return Status::take(status);
  return counted;
}

}  // namespace detail

// Makes connections and keeps them. Callers go on without it.
class Client {
 public:
  static Result<Client> create(const ClientOptions& options = {}) {
    nearcall_client_options set{};
    set.size = sizeof set;
    set.timeout_ns = detail::nanoseconds(options.deadline);
    set.message_bytes_max = options.message_bytes_max;
    set.stream_window_bytes = options.stream_window_bytes;
    nearcall_client made{};
    if (auto* status = nearcall_client_new(NEARCALL_ABI, &set, &made)) return Status::take(status);
    return Client(made);
  }
  // Waits until a server answers at an address.
  template <class Rep, class Period>
  Result<void> hunt(const std::string& address,
                    std::chrono::duration<Rep, Period> timeout) const {
    const std::uint64_t limit = detail::nanoseconds(timeout);
    return Status::take(nearcall_hunt(held_.get(), address.c_str(), limit));
  }
  // Watches over the server at an address, which has to answer now.
  Result<Attachment> attach(const std::string& address) const {
    nearcall_attachment made{};
    if (auto* status = nearcall_attach(held_.get(), address.c_str(), &made))
      return Status::take(status);
    return Attachment(made);
  }
  // Moves the connection of this thread to an address to another mechanism, such as shm, without
  // losing a call.
  template <class Rep, class Period>
  Result<void> switch_to(const std::string& address, const std::string& mechanism,
                         std::chrono::duration<Rep, Period> timeout) const {
    const std::uint64_t limit = detail::nanoseconds(timeout);
    return Status::take(nearcall_switch(held_.get(), address.c_str(), mechanism.c_str(), limit));
  }
  // Messages and loans are of this thread's connections, and of those of notified calls.
  Result<Counters> counters() const {
    return detail::counters([this](Counters* into) {
      return nearcall_client_counters(held_.get(), into);
    });
  }
  nearcall_client get() const { return held_.get(); }

 private:
  explicit Client(nearcall_client taken) : held_(taken) {}
  detail::Handle<nearcall_client, nearcall_client_free> held_;
};

// Memory of the library for an encoded message, which is written and sent without a copy where the
// mechanism can (shm, from 4 KiB on). Destroyed before, it is given back.
class [[nodiscard]] Loan {
 public:
  Loan(nearcall_loan taken, std::uint8_t* data, std::size_t size)
      : held_(taken), data_(data), size_(size) {}
  // Write here; once it was sent there is nothing.
  std::uint8_t* data() { return data_; }
  std::size_t size() const { return size_; }
  // Sends less than was lent.
  void shrink(std::size_t size) {
    if (size < size_) size_ = size;
  }
  nearcall_view view() const { return {data_, size_}; }
  // For a function of nearcall.h, which uses it up.
  nearcall_loan release() {
    data_ = nullptr;
    size_ = 0;
    return held_.release();
  }

 private:
  detail::Handle<nearcall_loan, nearcall_loan_free> held_;
  std::uint8_t* data_;
  std::size_t size_;
};

// A call that was started. Destroyed before its end, it is cancelled.
template <class R>
class [[nodiscard]] Pending {
 public:
  // Whether `wait` would return at once.
  bool is_done() const { return nearcall_pending_is_done(held_.get()) != 0; }
  // Waits for the end of the call, once.
  Result<R> wait(Metadata* metadata = nullptr) {
    nearcall_bytes reply{};
    auto** sent = metadata != nullptr ? metadata->out() : nullptr;
    auto* status = nearcall_pending_wait(held_.release(), &reply, sent);
    return detail::decode_reply<R>(status, reply, metadata);
  }
  void cancel() { held_ = {}; }

 private:
  friend class Caller;
  explicit Pending(nearcall_pending taken) : held_(taken) {}
  detail::Handle<nearcall_pending, nearcall_pending_cancel> held_;
};

namespace detail {

using Stream = Handle<nearcall_stream, nearcall_stream_free>;

template <class Q>
Result<void> send_item(const Stream& stream, const Q& item) {
  const Encoded encoded(item);
  if (!encoded.ok()) return encoded.status();
  return Status::take(nearcall_stream_send(stream.get(), encoded.get()));
}

template <class R>
Result<std::optional<R>> receive_item(const Stream& stream) {
  nearcall_bytes item{};
  std::uint32_t has_item = 0;
  auto* status = nearcall_stream_receive(stream.get(), &item, &has_item);
  return decode_item<R>(status, item, has_item, Code::Internal);
}

inline Result<Metadata> beside(nearcall_status* (*ask)(nearcall_stream, nearcall_metadata**),
                               const Stream& stream) {
  Metadata found;
  if (auto* status = ask(stream.get(), found.out())) return Status::take(status);
  found.filled();
  return found;
}

}  // namespace detail

// A call whose reply is a stream: `for (auto& item : stream)`, then `stream.status()`. Destroyed
// before its end, the call is cancelled.
template <class R>
class [[nodiscard]] ReplyStream : public detail::Items<ReplyStream<R>, R> {
 public:
  // Waits for the next item; none: the call has ended well.
  Result<std::optional<R>> receive() { return detail::receive_item<R>(held_); }
  // Waits for what the service sends before the first item.
  Result<Metadata> headers() { return detail::beside(nearcall_stream_headers, held_); }
  // What came with the end of the items, after it.
  Result<Metadata> trailers() { return detail::beside(nearcall_stream_trailers, held_); }

 private:
  friend class Caller;
  explicit ReplyStream(nearcall_stream taken) : held_(taken) {}
  detail::Stream held_;
};

// A call whose request is a stream. Destroyed before `finish`, it is cancelled.
template <class Q, class R>
class [[nodiscard]] RequestStream {
 public:
  // Sends an item. Waits for credit and for room.
  Result<void> send(const Q& item) { return detail::send_item(held_, item); }
  // Ends the items, and waits for the reply.
  Result<R> finish(Metadata* metadata = nullptr) {
    nearcall_bytes reply{};
    auto** sent = metadata != nullptr ? metadata->out() : nullptr;
    auto* status = nearcall_stream_finish(held_.get(), &reply, sent);
    return detail::decode_reply<R>(status, reply, metadata);
  }

 private:
  friend class Caller;
  explicit RequestStream(nearcall_stream taken) : held_(taken) {}
  detail::Stream held_;
};

// A call whose request and reply are streams, independent of each other.
template <class Q, class R>
class [[nodiscard]] BothStreams : public detail::Items<BothStreams<Q, R>, R> {
 public:
  Result<void> send(const Q& item) { return detail::send_item(held_, item); }
  // Ends the items of the request; the reply goes on to its own end.
  Result<void> finish() {
    return Status::take(nearcall_stream_finish(held_.get(), nullptr, nullptr));
  }
  Result<std::optional<R>> receive() { return detail::receive_item<R>(held_); }
  Result<Metadata> headers() { return detail::beside(nearcall_stream_headers, held_); }
  Result<Metadata> trailers() { return detail::beside(nearcall_stream_trailers, held_); }

 private:
  friend class Caller;
  explicit BothStreams(nearcall_stream taken) : held_(taken) {}
  detail::Stream held_;
};

#ifdef NEARCALL_COROUTINES
template <class Take>
class Async;
template <class R>
class AsyncReplyStream;
template <class Q, class R>
class AsyncRequestStream;
template <class Q, class R>
class AsyncBothStreams;

namespace detail {
template <class R>
struct TakeReply;
template <class S>
struct TakeStream;
}  // namespace detail

// What a coroutine awaits for the Result of a call, and for that of opening a stream.
template <class R>
using AsyncCall = Async<detail::TakeReply<R>>;
template <class S>
using Opening = Async<detail::TakeStream<S>>;
#endif

// Calls the methods of one object by their names.
class Caller {
 public:
  // Makes a caller of the object with an interface, such as home.v1.Thermostat. It connects at the
  // first call.
  static Result<Caller> create(const Client& client, const std::string& address,
                               const std::string& interface) {
    nearcall_caller made{};
    auto* status = nearcall_caller_new(client.get(), address.c_str(), interface.c_str(), &made);
    if (status != nullptr) return Status::take(status);
    return Caller(made);
  }

  // Calls a method with one request and one reply, and waits for its end. `metadata` is set to what
  // came beside the reply, also if the service has failed.
  template <class R = Bytes, class Q>
  Result<R> call(const char* method, const Q& request, const CallOptions& options = {},
                 Metadata* metadata = nullptr) const {
    const detail::Encoded encoded(request);
    if (!encoded.ok()) return encoded.status();
    if (options.is_default()) return call_with<R>(method, encoded.get(), nullptr, metadata);
    return call_with<R>(method, encoded.get(), Options(options).get(), metadata);
  }
  // The same with a request that was written to a loan, by this thread.
  template <class R = Bytes>
  Result<R> call(const char* method, Loan request, const CallOptions& options = {},
                 Metadata* metadata = nullptr) const {
    const nearcall_view view = request.view();
    return call_with<R>(method, view, Options(options, request.release()).get(), metadata);
  }
  // Lends memory for a request, and waits for it as the options say while the server keeps what it
  // was lent before.
  Result<Loan> loan(std::size_t size, const CallOptions& options = {}) const {
    const Options set(options);
    nearcall_loan made{};
    std::uint8_t* data = nullptr;
    auto* status = nearcall_loan_new(held_.get(), size, set.get(), &made, &data);
    if (status != nullptr) return Status::take(status);
    return Loan(made, data, size);
  }
  // Sends a one-way message, which is never answered.
  template <class Q>
  Result<void> send(const char* method, const Q& request, const CallOptions& options = {}) const {
    const detail::Encoded encoded(request);
    if (!encoded.ok()) return encoded.status();
    const Options set(options);
    return Status::take(nearcall_send(held_.get(), method, encoded.get(), set.get()));
  }
  // Starts a call with one request and one reply.
  template <class R = Bytes, class Q>
  Result<Pending<R>> start(const char* method, const Q& request,
                           const CallOptions& options = {}) const {
    const detail::Encoded encoded(request);
    if (!encoded.ok()) return encoded.status();
    const Options set(options);
    nearcall_pending made{};
    auto* status = nearcall_start(held_.get(), method, encoded.get(), set.get(), &made);
    if (status != nullptr) return Status::take(status);
    return Pending<R>(made);
  }
  // The same for a loop that waits for other things as well: `done` is called once, when `wait` of
  // what is returned would not wait any more or the call was cancelled, perhaps before this
  // returns. A thread of the library calls it, the same for all calls: it must be short, such as a
  // write to an eventfd of the loop, and throw nothing. The Pending may be used in any thread.
  template <class R = Bytes, class Q>
  Result<Pending<R>> start_notified(const char* method, const Q& request,
                                    std::function<void()> done,
                                    const CallOptions& options = {}) const {
    const detail::Encoded encoded(request);
    if (!encoded.ok()) return encoded.status();
    const Options set(options);
    auto data = std::make_unique<std::function<void()>>(std::move(done));
    nearcall_pending made{};
    auto* status = nearcall_start_notified(held_.get(), method, encoded.get(), set.get(),
                                           notify, data.get(), &made);
    if (status != nullptr) return Status::take(status);
    // `notify` has it.
    (void)data.release();
    return Pending<R>(made);
  }
#ifdef NEARCALL_COROUTINES
  // Starts a call: `co_await` what is returned for its Result<R>.
  template <class R = Bytes, class Q>
  AsyncCall<R> async_call(const char* method, const Q& request,
                          const CallOptions& options = {}) const;
  // Start calls that stream: `co_await` what is returned for a Result of the stream.
  template <class R = Bytes, class Q>
  Opening<AsyncReplyStream<R>> async_open_reply_stream(const char* method, const Q& request,
                                                       const CallOptions& options = {}) const;
  template <class Q = std::string_view, class R = Bytes>
  Opening<AsyncRequestStream<Q, R>> async_open_request_stream(
      const char* method, const CallOptions& options = {}) const;
  template <class Q = std::string_view, class R = Bytes>
  Opening<AsyncBothStreams<Q, R>> async_open_both_streams(const char* method,
                                                          const CallOptions& options = {}) const;
#endif
  template <class R = Bytes, class Q>
  Result<ReplyStream<R>> open_reply_stream(const char* method, const Q& request,
                                           const CallOptions& options = {}) const {
    const detail::Encoded encoded(request);
    if (!encoded.ok()) return encoded.status();
    const Options set(options);
    nearcall_stream made{};
    auto* status =
        nearcall_open_reply_stream(held_.get(), method, encoded.get(), set.get(), &made);
    if (status != nullptr) return Status::take(status);
    return ReplyStream<R>(made);
  }
  template <class Q = std::string_view, class R = Bytes>
  Result<RequestStream<Q, R>> open_request_stream(const char* method,
                                                  const CallOptions& options = {}) const {
    const Options set(options);
    nearcall_stream made{};
    auto* status = nearcall_open_request_stream(held_.get(), method, set.get(), &made);
    if (status != nullptr) return Status::take(status);
    return RequestStream<Q, R>(made);
  }
  template <class Q = std::string_view, class R = Bytes>
  Result<BothStreams<Q, R>> open_both_streams(const char* method,
                                              const CallOptions& options = {}) const {
    const Options set(options);
    nearcall_stream made{};
    auto* status = nearcall_open_both_streams(held_.get(), method, set.get(), &made);
    if (status != nullptr) return Status::take(status);
    return BothStreams<Q, R>(made);
  }

 private:
  // The options of a call for the library; none for the defaults, which cost nothing.
  class Options {
   public:
    explicit Options(const CallOptions& from, nearcall_loan loan = {}) {
      is_set_ = !from.is_default() || loan.id != 0;
      if (!is_set_) return;
      for (const auto& [key, value] : from.entries_)
        entries_.push_back({key.c_str(), detail::view(value)});
      set_.size = sizeof set_;
      set_.timeout_ns = from.timeout_ns_;
      set_.flags = from.flags_;
      set_.entries = entries_.data();
      set_.entry_count = entries_.size();
      set_.loan = loan;
    }
    Options(const Options&) = delete;
    Options& operator=(const Options&) = delete;
    const nearcall_call_options* get() const { return is_set_ ? &set_ : nullptr; }

   private:
    bool is_set_;
    nearcall_call_options set_{};
    std::vector<nearcall_entry> entries_;
  };

  template <class R>
  Result<R> call_with(const char* method, nearcall_view request,
                      const nearcall_call_options* set, Metadata* metadata) const {
    nearcall_bytes reply{};
    auto** sent = metadata != nullptr ? metadata->out() : nullptr;
    auto* status = nearcall_call_method(held_.get(), method, request, set, &reply, sent);
    return detail::decode_reply<R>(status, reply, metadata);
  }
  static void notify(void* data) noexcept {
    const std::unique_ptr<std::function<void()>> done(static_cast<std::function<void()>*>(data));
    (*done)();
  }
#ifdef NEARCALL_COROUTINES
  template <class S>
  Opening<S> async_open(const char* method, std::uint32_t shape, nearcall_view request,
                        const CallOptions& options) const;
#endif
  explicit Caller(nearcall_caller taken) : held_(taken) {}
  detail::Handle<nearcall_caller, nearcall_caller_free> held_;
};

}  // namespace nearcall

#include "nearcall_server.hpp"
#ifdef NEARCALL_COROUTINES
#include "nearcall_async.hpp"
#endif

#endif  // NEARCALL_HPP
