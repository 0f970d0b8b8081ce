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
// has made it, which also destroys it; a Pending of `start_notified` and an AsyncCall: any, one at a
// time. Call: the thread that serves it, until the service returns.
//
// Messages are classes as protoc makes them (ByteSizeLong, SerializeToArray, ParseFromArray), or
// are encoded already: requests as anything that is a std::string_view, replies as Bytes or
// std::string.
//
// Invariants: no exception enters the library.
// Not here: services and servers (nearcall_server.hpp, which is included), coroutines
// (nearcall_async.hpp, as well), the library itself (nearcall.h), classes for one interface
// (`nearcall gen --lang cpp`).

#ifndef NEARCALL_HPP
#define NEARCALL_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "nearcall.h"

// What generated code relies on: a header of another version says so when it is compiled.
#define NEARCALL_CPP_VERSION 1

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define NEARCALL_EXCEPTIONS 1
#endif

#if defined(__cpp_impl_coroutine) && !defined(NEARCALL_COROUTINES)
#define NEARCALL_COROUTINES 1
#endif

namespace nearcall {

// -- How functions end. --

// The codes of gRPC.
enum class Code : std::uint32_t {
  Ok = 0,
  Cancelled = 1,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Aborted = 10,
  OutOfRange = 11,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  DataLoss = 15,
  Unauthenticated = 16,
};

// Returns the name of a code, such as UNAVAILABLE.
inline const char* code_name(Code code) {
  return nearcall_code_name(static_cast<std::uint32_t>(code));
}

namespace detail {

constexpr const char* kDetailsKey = "grpc-status-details-bin";

inline std::string_view text(const nearcall_view& view) {
  if (view.size == 0) return {};
  return {reinterpret_cast<const char*>(view.data), view.size};
}

inline nearcall_view view(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// A time for the library, for which the largest number is no end.
template <class Rep, class Period>
std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> time) {
  if (!(time > time.zero())) return 0;
  const std::chrono::duration<double> seconds = time;
  if (!(seconds.count() < 9e9)) return UINT64_MAX;
  const auto rounded = std::chrono::duration_cast<std::chrono::nanoseconds>(time);
  return rounded.count() > 0 ? static_cast<std::uint64_t>(rounded.count()) : 1;
}

}  // namespace detail

// Why something has failed; a default one is OK. Copies are cheap.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) {
    if (code == Code::Ok) return;
    data_ = std::make_shared<const Data>(code, std::move(message), std::string(), nullptr);
  }

  // Takes a status of the library; null is OK.
  static Status take(nearcall_status* status) {
    Status taken;
    if (status == nullptr) return taken;
    std::unique_ptr<nearcall_status, void (*)(nearcall_status*)> held(status, nearcall_status_free);
    const auto code = static_cast<Code>(nearcall_status_code(status));
    nearcall_view details{};
    if (nearcall_status_entry(status, detail::kDetailsKey, &details) == 0) details = {};
    auto data = std::make_shared<Data>(code, nearcall_status_message(status),
                                       std::string(detail::text(details)), nullptr);
    data->has_not_begun = nearcall_status_has_not_begun(status) != 0;
    data->held = held.release();
    taken.data_ = std::move(data);
    return taken;
  }

  bool ok() const { return data_ == nullptr; }
  Code code() const { return data_ ? data_->code : Code::Ok; }
  // What happened and what can be done.
  const std::string& message() const { return data_ ? data_->message : empty(); }
  // An encoded google.rpc.Status, or nothing.
  const std::string& details() const { return data_ ? data_->details : empty(); }
  // The same with details, for a service to send.
  Status with_details(std::string details) const {
    Status with;
    if (data_) with.data_ = std::make_shared<const Data>(code(), message(), std::move(details),
                                                         nullptr);
    return with;
  }
  // The method has certainly not begun: the call may be made again whatever it does.
  bool has_not_begun() const { return data_ && data_->has_not_begun; }
  // The first entry with a key that the service has sent beside the error. Valid as long as this
  // status or a copy.
  std::optional<std::string_view> entry(const char* key) const {
    nearcall_view value{};
    if (!data_ || nearcall_status_entry(data_->held, key, &value) == 0) return std::nullopt;
    return detail::text(value);
  }
  std::string to_string() const {
    return ok() ? "OK" : std::string(code_name(code())) + ": " + message();
  }

 private:
  struct Data {
    Data(Code of, std::string text, std::string beside, nearcall_status* status)
        : code(of), message(std::move(text)), details(std::move(beside)), held(status) {}
    Data(const Data&) = delete;
    Data& operator=(const Data&) = delete;
    ~Data() { nearcall_status_free(held); }
    Code code;
    std::string message;
    std::string details;
    bool has_not_begun = false;
    nearcall_status* held;
  };
  static const std::string& empty() {
    static const std::string none;
    return none;
  }
  std::shared_ptr<const Data> data_;
};

// A status as an exception. Thrown by a service, it is the end of its call.
class Error : public std::exception {
 public:
  explicit Error(Status status)
      : status_(std::move(status)), text_(std::make_shared<std::string>(status_.to_string())) {}
  const Status& status() const noexcept { return status_; }
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  Status status_;
  std::shared_ptr<const std::string> text_;
};

namespace detail {

[[noreturn]] inline void fail(const Status& status) {
#ifdef NEARCALL_EXCEPTIONS
  throw Error(status);
#else
  (void)status;
  std::abort();
#endif
}

}  // namespace detail

// A value, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : held_(std::in_place_index<1>, std::move(status)) {
    if (std::get<1>(held_).ok()) std::get<1>(held_) = Status(Code::Internal, "OK without a value");
  }

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<1>(held_); }
  // The value; throws an Error if there is none.
  T& value() & { return check(), *std::get_if<0>(&held_); }
  const T& value() const& { return check(), *std::get_if<0>(&held_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&held_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check() const {
    if (!ok()) detail::fail(std::get<1>(held_));
  }
  std::variant<T, Status> held_;
};

// Success, or why it is none.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return status_.ok(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  void value() const {
    if (!ok()) detail::fail(status_);
  }

 private:
  Status status_;
};

// -- Messages. --

// Bytes that the library has given.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(nearcall_bytes taken) : held_(taken) {}
  Bytes(Bytes&& other) noexcept : held_(std::exchange(other.held_, nearcall_bytes{})) {}
  Bytes& operator=(Bytes&& other) noexcept {
    Bytes moved(std::move(other));
    std::swap(held_, moved.held_);
    return *this;
  }
  ~Bytes() { nearcall_bytes_free(&held_); }

  const std::uint8_t* data() const { return held_.data; }
  std::size_t size() const { return held_.size; }
  bool empty() const { return held_.size == 0; }
  std::string_view view() const { return detail::text({held_.data, held_.size}); }
  operator std::string_view() const { return view(); }

 private:
  nearcall_bytes held_{};
};

namespace detail {

// A message on its way to the library: encoded here, or where its owner has it.
class Encoded {
 public:
  template <class M>
  explicit Encoded(const M& message) {
    if constexpr (std::is_convertible_v<const M&, std::string_view>) {
      view_ = view(message);
    } else {
      const std::size_t size = message.ByteSizeLong();
      if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
        status_ = Status(Code::InvalidArgument, "the message is longer than 2 GiB");
        return;
      }
      char* into = small_;
      if (size > sizeof small_) {
        large_.resize(size);
        into = large_.data();
      }
      if (!message.SerializeToArray(into, static_cast<int>(size)))
        status_ = Status(Code::InvalidArgument, "the message cannot be encoded");
      view_ = view(std::string_view(into, size));
    }
  }
  Encoded(const Encoded&) = delete;
  Encoded& operator=(const Encoded&) = delete;

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  nearcall_view get() const { return view_; }

 private:
  // Longer ones are encoded on the heap. Most requests of control interfaces are below 100 bytes.
  char small_[512];
  std::string large_;
  nearcall_view view_{};
  Status status_;
};

template <class M>
Result<M> decode(std::string_view encoded, Code code) {
  M message;
  const bool fits = encoded.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (!fits || !message.ParseFromArray(encoded.data(), static_cast<int>(encoded.size())))
    return Status(code, "the message cannot be decoded: is it of another type?");
  return message;
}

template <class M>
Result<M> decode(Bytes bytes, Code code) {
  if constexpr (std::is_same_v<M, Bytes>) {
    (void)code;
    return bytes;
  } else if constexpr (std::is_same_v<M, std::string>) {
    (void)code;
    return std::string(bytes.view());
  } else {
    return decode<M>(bytes.view(), code);
  }
}

// What a handle names, until it is released by `Free`.
template <class H, nearcall_status* (*Free)(H)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(H taken) : held_(taken) {}
  Handle(Handle&& other) noexcept : held_(std::exchange(other.held_, H{})) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle moved(std::move(other));
    std::swap(held_, moved.held_);
    return *this;
  }
  ~Handle() {
    if (held_.id != 0) nearcall_status_free(Free(held_));
  }
  H get() const { return held_; }
  H release() { return std::exchange(held_, H{}); }

 private:
  H held_{};
};

// What is read one by one, as a range. `Self::receive` gives the next one.
template <class Self, class T>
class Items {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;
    Iterator() = default;
    explicit Iterator(Items* of) : of_(of) { ++*this; }
    T& operator*() const { return *of_->current_; }
    T* operator->() const { return &*of_->current_; }
    Iterator& operator++() {
      if (!of_->advance()) of_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return of_ == other.of_; }
    bool operator!=(const Iterator& other) const { return of_ != other.of_; }

   private:
    Items* of_ = nullptr;
  };

  // Waits for the first item. What is iterated over is not moved meanwhile.
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(); }
  // How the range has ended: OK, if all items were there.
  const Status& status() const { return status_; }

 private:
  bool advance() {
    auto next = static_cast<Self*>(this)->receive();
    status_ = next.status();
    current_ = next.ok() ? std::move(*next) : std::nullopt;
    return current_.has_value();
  }
  std::optional<T> current_;
  Status status_;
};

template <class M>
Result<std::optional<M>> decode_item(nearcall_status* status, nearcall_bytes item,
                                     std::uint32_t has_item, Code code) {
  if (status != nullptr) return Status::take(status);
  Bytes bytes(item);
  if (has_item == 0) return std::optional<M>();
  auto decoded = decode<M>(std::move(bytes), code);
  if (!decoded.ok()) return decoded.status();
  return std::optional<M>(std::move(*decoded));
}

}  // namespace detail

// What a service has sent beside its reply.
class Metadata {
 public:
  // The first entry with a key among what came before the reply. Valid as long as this.
  std::optional<std::string_view> header(const char* key) const {
    nearcall_view value{};
    if (nearcall_metadata_header(held_.get(), key, &value) == 0) return std::nullopt;
    return detail::text(value);
  }
  // The same among what came with the end of the call.
  std::optional<std::string_view> trailer(const char* key) const {
    nearcall_view value{};
    if (nearcall_metadata_trailer(held_.get(), key, &value) == 0) return std::nullopt;
    return detail::text(value);
  }
  // For a function of nearcall.h, which sets it.
  nearcall_metadata** out() {
    held_.reset();
    return &raw_;
  }
  void filled() { held_.reset(std::exchange(raw_, nullptr)); }

 private:
  struct Free {
    void operator()(nearcall_metadata* metadata) const { nearcall_metadata_free(metadata); }
  };
  std::unique_ptr<nearcall_metadata, Free> held_;
  nearcall_metadata* raw_ = nullptr;
};

namespace detail {

template <class M>
Result<M> decode_reply(nearcall_status* status, nearcall_bytes reply, Metadata* metadata) {
  if (metadata != nullptr) metadata->filled();
  if (status != nullptr) return Status::take(status);
  return decode<M>(Bytes(reply), Code::Internal);
}

}  // namespace detail

// -- Clients. --

// How a call is made. The default is what the caller and the client say.
class CallOptions {
 public:
  // Time until the call ends by itself.
  template <class Rep, class Period>
  CallOptions& deadline(std::chrono::duration<Rep, Period> time) {
    // 0 is the default of the client, which a deadline that has passed is not.
    const std::uint64_t timeout = detail::nanoseconds(time);
    timeout_ns_ = timeout == 0 ? 1 : timeout;
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
  nearcall_client get() const { return held_.get(); }

 private:
  explicit Client(nearcall_client taken) : held_(taken) {}
  detail::Handle<nearcall_client, nearcall_client_free> held_;
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
template <class R>
class AsyncCall;
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
    const Options set(options);
    nearcall_bytes reply{};
    auto** sent = metadata != nullptr ? metadata->out() : nullptr;
    auto* status =
        nearcall_call_method(held_.get(), method, encoded.get(), set.get(), &reply, sent);
    return detail::decode_reply<R>(status, reply, metadata);
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
    explicit Options(const CallOptions& from) {
      is_set_ = from.timeout_ns_ != 0 || from.flags_ != 0 || !from.entries_.empty();
      if (!is_set_) return;
      for (const auto& [key, value] : from.entries_)
        entries_.push_back({key.c_str(), detail::view(value)});
      set_.size = sizeof set_;
      set_.timeout_ns = from.timeout_ns_;
      set_.flags = from.flags_;
      set_.entries = entries_.data();
      set_.entry_count = entries_.size();
    }
    Options(const Options&) = delete;
    Options& operator=(const Options&) = delete;
    const nearcall_call_options* get() const { return is_set_ ? &set_ : nullptr; }

   private:
    bool is_set_;
    nearcall_call_options set_{};
    std::vector<nearcall_entry> entries_;
  };

  static void notify(void* data) noexcept {
    const std::unique_ptr<std::function<void()>> done(static_cast<std::function<void()>*>(data));
    (*done)();
  }
  explicit Caller(nearcall_caller taken) : held_(taken) {}
  detail::Handle<nearcall_caller, nearcall_caller_free> held_;
};

}  // namespace nearcall

#include "nearcall_server.hpp"
#ifdef NEARCALL_COROUTINES
#include "nearcall_async.hpp"
#endif

#endif  // NEARCALL_HPP
