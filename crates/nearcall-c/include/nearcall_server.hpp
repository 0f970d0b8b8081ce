// Services and servers of nearcall for C++17: a part of nearcall.hpp, which includes it.
//
// Invariants: what a service throws ends in `detail::serve`: an Error is the status of its call,
// anything else is INTERNAL without its text. A call that was deferred is answered at the latest
// when its DeferredCall is destroyed. A coroutine that serves answers its call once, and frees
// itself.
// Not here: statuses, results, messages and clients (nearcall.hpp).

#ifndef NEARCALL_SERVER_HPP
#define NEARCALL_SERVER_HPP

#include "nearcall.hpp"

#ifdef NEARCALL_COROUTINES
#include <coroutine>
#endif

namespace nearcall {

// -- Services. --

// The shape of a method.
enum class Shape : std::uint32_t {
  Unary = NEARCALL_SHAPE_UNARY,
  Oneway = NEARCALL_SHAPE_ONEWAY,
  ReplyStream = NEARCALL_SHAPE_REPLY_STREAM,
  RequestStream = NEARCALL_SHAPE_REQUEST_STREAM,
  BothStreams = NEARCALL_SHAPE_BOTH_STREAMS,
};

// A request that a service is given. Valid until the service returns.
struct Request {
  // The method, such as SetTarget.
  std::string_view method;
  // The index of the method in its interface, in the order of the .proto file.
  std::uint32_t index;
  Shape shape;
  // Encoded; empty if the request is a stream.
  std::string_view message;

  // The message as a class of protoc; INVALID_ARGUMENT if it is of another type.
  template <class Q>
  Result<Q> decode() const {
    return detail::decode<Q>(message, Code::InvalidArgument);
  }
};

// Who calls, by the kernel.
struct Peer {
  std::uint32_t uid;
  std::int32_t pid;
};

// The items of a request: `for (auto& item : items)`, then `items.status()`. Copies are of the same
// items. Valid until the call is answered.
template <class Q>
class ItemReceiver : public detail::Items<ItemReceiver<Q>, Q> {
 public:
  explicit ItemReceiver(nearcall_call call) : call_(call) {}
  // Waits for the next item; none: they have ended.
  Result<std::optional<Q>> receive() {
    nearcall_bytes item{};
    std::uint32_t has_item = 0;
    auto* status = nearcall_call_receive(call_, &item, &has_item);
    return detail::decode_item<Q>(status, item, has_item, Code::InvalidArgument);
  }

 private:
  nearcall_call call_;
};

// Where the items of a reply go. Copies are the same. Valid until the call is answered.
template <class R>
class ItemSender {
 public:
  explicit ItemSender(nearcall_call call) : call_(call) {}
  // Sends an item. Waits for credit and for room.
  Result<void> send(const R& item) const {
    const detail::Encoded encoded(item);
    if (!encoded.ok()) return encoded.status();
    return Status::take(nearcall_call_send(call_, encoded.get()));
  }

 private:
  nearcall_call call_;
};

namespace detail {

// What a call can do at any time.
class AnyCall {
 public:
  nearcall_call get() const { return call_; }
  // Whether the caller does not wait any more.
  bool is_cancelled() const { return nearcall_call_is_cancelled(call_) != 0; }
  // The time until the call ends by itself; none: it has no deadline.
  std::optional<std::chrono::nanoseconds> remaining() const {
    const std::uint64_t left = nearcall_call_remaining_ns(call_);
    if (left > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(left));
  }
  // Sends an entry before the first item and the reply.
  Result<void> add_header(const char* key, std::string_view value) {
    return Status::take(nearcall_call_add_header(call_, key, view(value)));
  }
  // Sends an entry with the end of the call.
  Result<void> add_trailer(const char* key, std::string_view value) {
    return Status::take(nearcall_call_add_trailer(call_, key, view(value)));
  }
  template <class Q = Bytes>
  ItemReceiver<Q> requests() const {
    return ItemReceiver<Q>(call_);
  }
  template <class R = std::string_view>
  ItemSender<R> replies() const {
    return ItemSender<R>(call_);
  }

 protected:
  explicit AnyCall(nearcall_call call) : call_(call) {}
  Status answer(nearcall_view reply) const {
    return Status::take(nearcall_call_reply(call_, reply));
  }
  Status refuse(const Status& with) const {
    if (with.ok()) return refuse(Status(Code::Internal, "the service has failed with OK"));
    if (!with.details().empty()) {
      const nearcall_view details = view(with.details());
      auto added = Status::take(nearcall_call_add_trailer(call_, kDetailsKey, details));
      if (!added.ok()) return added;
    }
    const auto code = static_cast<std::uint32_t>(with.code());
    return Status::take(nearcall_call_fail(call_, code, with.message().c_str()));
  }
  nearcall_call call_;
};

}  // namespace detail

// A call that is answered later, by any thread. Destroyed without an answer, it fails.
class [[nodiscard]] DeferredCall : public detail::AnyCall {
 public:
  DeferredCall(DeferredCall&& other) noexcept : AnyCall(std::exchange(other.call_, {})) {}
  DeferredCall& operator=(DeferredCall&& other) noexcept {
    DeferredCall moved(std::move(other));
    std::swap(call_, moved.call_);
    return *this;
  }
  ~DeferredCall() {
    if (call_.id == 0) return;
    nearcall_status_free(nearcall_call_fail(call_, static_cast<std::uint32_t>(Code::Internal),
                                            "the service has not answered a deferred call"));
  }

  template <class R>
  Result<void> reply(const R& message) {
    const detail::Encoded encoded(message);
    if (!encoded.ok()) return encoded.status();
    return ended(answer(encoded.get()));
  }
  // Ends a reply that is a stream.
  Result<void> finish() { return ended(answer({})); }
  Result<void> fail(const Status& status) { return ended(refuse(status)); }

 private:
  friend class Call;
  explicit DeferredCall(nearcall_call call) : AnyCall(call) {}
  Status ended(Status status) {
    if (status.ok()) call_ = {};
    return status;
  }
};

// A call that is served. It belongs to the thread that serves it, until the service returns.
class Call : public detail::AnyCall {
 public:
  explicit Call(nearcall_call call) : AnyCall(call) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  template <class R>
  Result<void> reply(const R& message) {
    const detail::Encoded encoded(message);
    if (!encoded.ok()) return encoded.status();
    return answer(encoded.get());
  }
  // Lends memory for an encoded reply, which is sent without a copy where the mechanism can.
  // RESOURCE_EXHAUSTED: the caller holds too much already; reply with other memory.
  Result<Loan> loan(std::size_t size) const {
    nearcall_loan made{};
    std::uint8_t* data = nullptr;
    if (auto* status = nearcall_call_loan(call_, size, &made, &data)) return Status::take(status);
    return Loan(made, data, size);
  }
  Result<void> reply(Loan loan) {
    const nearcall_view message = loan.view();
    return Status::take(nearcall_call_reply_loan(call_, message, loan.release()));
  }
  // Ends a reply that is a stream.
  Result<void> finish() { return answer({}); }
  Result<void> fail(const Status& status) { return refuse(status); }
  // Has the call answered later, whatever the service returns: see `answered_later`. What is read
  // of the call, such as its metadata, is read before.
  Result<DeferredCall> defer() {
    if (auto* status = nearcall_call_defer(call_)) return Status::take(status);
    is_deferred_ = true;
    return DeferredCall(call_);
  }
  bool is_deferred() const { return is_deferred_; }
  // The first entry with a key that came with the request. Valid until the service returns.
  std::optional<std::string_view> metadata(const char* key) const {
    nearcall_view value{};
    if (nearcall_call_entry(call_, key, &value) == 0) return std::nullopt;
    return detail::text(value);
  }
  // All of them, as long.
  std::vector<Entry> metadata() const {
    return detail::entries([this](std::size_t number, nearcall_view* key, nearcall_view* value) {
      return nearcall_call_entry_at(call_, number, key, value);
    });
  }
  // None where the kernel does not know, as over tcp://.
  std::optional<Peer> peer() const {
    Peer found{};
    if (nearcall_call_peer(call_, &found.uid, &found.pid) == 0) return std::nullopt;
    return found;
  }

  // Answers with what a method of generated code has returned, unless the call was deferred.
  template <class R>
  void end(const Result<R>& with) {
    if (is_deferred_) return;
    Status status = with.status();
    if constexpr (std::is_void_v<R>) {
      if (status.ok()) status = answer({});
    } else {
      if (status.ok()) status = reply(*with).status();
    }
    if (!status.ok()) (void)refuse(status);
  }

 private:
  bool is_deferred_ = false;
};

// What a method returns that has deferred its call.
inline Status answered_later() {
  return {Code::Internal, "the service answers later, but has not deferred the call"};
}

// Serves an interface. A server with several threads calls it in all of them.
class Service {
 public:
  virtual ~Service() = default;
  // The interface, such as home.v1.Thermostat.
  virtual std::string interface_name() const = 0;
  // An encoded google.protobuf.FileDescriptorSet with it and all imports.
  virtual std::string_view descriptor_set() const = 0;
  // Serves a call: answers it before it returns, or defers it. Must not wait long: meanwhile the
  // loop serves nothing else.
  virtual void serve(Call& call, const Request& request) = 0;
};

namespace detail {

// What the library has of a service.
struct Served {
  std::shared_ptr<Service> service;

  static void serve(void* data, nearcall_call handle, const nearcall_request* from) noexcept {
    Call call(handle);
#ifdef NEARCALL_EXCEPTIONS
    try {
      run(data, call, from);
    } catch (const Error& error) {
      end(call, error.status());
    } catch (...) {
      end(call, {Code::Internal, "the service has thrown an exception"});
    }
#else
    run(data, call, from);
#endif
  }
  static void release(void* data) noexcept { delete static_cast<Served*>(data); }

 private:
  static void run(void* data, Call& call, const nearcall_request* from) {
    const Request request{from->method, from->index, static_cast<Shape>(from->shape),
                          text(from->message)};
    static_cast<Served*>(data)->service->serve(call, request);
  }
  // One that was answered or deferred before the exception stays as it is.
  static void end(Call& call, const Status& status) {
    if (!call.is_deferred()) (void)call.fail(status);
  }
};

}  // namespace detail

#ifdef NEARCALL_COROUTINES
// -- Services that are coroutines, from C++20 on. --

// What a coroutine that serves awaits for its call: `DeferredCall& call = co_await this_call;`.
struct ThisCall {};
inline constexpr ThisCall this_call{};

namespace detail {

struct KnownCall {
  DeferredCall* call;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  DeferredCall& await_resume() const noexcept { return *call; }
};

}  // namespace detail

// A coroutine that serves a call: it ends by `co_return` of an R, a Status or a Result<R>, which is
// the answer, or by an exception, as a method of a service does. Give it to `serve_by`. Its
// parameters are copies: nothing of the request is there after its first `co_await`.
template <class R>
class [[nodiscard]] Serving {
 public:
  class promise_type {
   public:
    Serving get_return_object() { return Serving(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_value(const Result<R>& with) {
      Status status = with.status();
      if constexpr (std::is_void_v<R>) {
        if (status.ok()) status = call_->finish().status();
      } else {
        if (status.ok()) status = call_->reply(*with).status();
      }
      if (!status.ok()) (void)call_->fail(status);
    }
    void unhandled_exception() noexcept {
#ifdef NEARCALL_EXCEPTIONS
      try {
        throw;
      } catch (const Error& error) {
        (void)call_->fail(error.status());
      } catch (...) {
        (void)call_->fail({Code::Internal, "the service has thrown an exception"});
      }
#endif
    }
    template <class Awaited>
    Awaited&& await_transform(Awaited&& awaited) noexcept {
      return static_cast<Awaited&&>(awaited);
    }
    detail::KnownCall await_transform(ThisCall) noexcept { return detail::KnownCall{&*call_}; }

   private:
    friend class Serving;
    // Fails the call if the coroutine is destroyed before its end.
    std::optional<DeferredCall> call_;
  };

  Serving(Serving&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Serving& operator=(Serving&&) = delete;
  // One that was not given to `serve_by` does not run.
  ~Serving() {
    if (handle_) handle_.destroy();
  }

 private:
  using Handle = std::coroutine_handle<promise_type>;
  template <class T>
  friend Status serve_by(Call& call, Serving<T> coroutine);
  explicit Serving(Handle handle) : handle_(handle) {}
  // From now on it frees itself, perhaps before this returns.
  void start(DeferredCall call) {
    const auto handle = std::exchange(handle_, {});
    handle.promise().call_.emplace(std::move(call));
    handle.resume();
  }
  Handle handle_;
};

// Has a coroutine serve a call, and returns what the method returns: `return serve_by(call,
// run(request));`. It runs here until it waits for the first time, and then where what it waits
// for has it go on; it answers from there.
template <class R>
Status serve_by(Call& call, Serving<R> coroutine) {
  auto deferred = call.defer();
  if (!deferred.ok()) return deferred.status();
  coroutine.start(std::move(*deferred));
  return answered_later();
}
#endif

// -- Servers. --

// How a server behaves. Zeros: the defaults.
struct ServerOptions {
  // Loops, each in a thread of its own; 0: one. Not used by a server in a loop.
  std::uint32_t threads = 0;
  // Longest message, in bytes; 0: 4 MiB.
  std::uint32_t message_bytes_max = 0;
  // Credit of a stream in each direction, in bytes; 0: 4 MiB.
  std::uint32_t stream_window_bytes = 0;
  // Connections; 0: 4096.
  std::uint32_t connections_max = 0;
};

// Who may connect where a server listens.
struct ListenOptions {
  // The user ids that may connect; none: those that can reach the socket.
  std::optional<std::vector<std::uint32_t>> users;
  // Mode of the socket's file, such as 0660; 0: 0600, or 0666 if `users` says who may connect.
  std::uint32_t socket_mode = 0;
};

// A loop for servers, for a program that has another loop. Servers in it are destroyed before it.
class EventLoop {
 public:
  static Result<EventLoop> create() {
    nearcall_loop made{};
    if (auto* status = nearcall_loop_new(NEARCALL_ABI, &made)) return Status::take(status);
    return EventLoop(made);
  }
  // When it is readable, or may be, `turn` has work. Turn the loop once before the first wait.
  Result<int> descriptor() const {
    std::int32_t found = -1;
    if (auto* status = nearcall_loop_descriptor(held_.get(), &found)) return Status::take(status);
    return static_cast<int>(found);
  }
  // Does what there is to do at this time, and does not wait.
  Result<void> turn() { return Status::take(nearcall_loop_turn(held_.get())); }
  nearcall_loop get() const { return held_.get(); }

 private:
  explicit EventLoop(nearcall_loop taken) : held_(taken) {}
  detail::Handle<nearcall_loop, nearcall_loop_free> held_;
};

// A server that runs. Destroyed, it is stopped.
class Server {
 public:
  class Builder;
  // Prepares a server: register services, listen, then start it.
  static Builder builder(const ServerOptions& options = {});

  // The address with a number, from 0 on, at which it listens: such as a port that the kernel has
  // chosen.
  Result<std::string> address(std::size_t number = 0) const {
    nearcall_bytes found{};
    if (auto* status = nearcall_server_address(held_.get(), number, &found))
      return Status::take(status);
    return std::string(Bytes(found).view());
  }
  // What its connections have carried and hold. Waits for the method that each loop runs, for a
  // second at most.
  Result<Counters> counters() const {
    return detail::counters([this](Counters* into) {
      return nearcall_server_counters(held_.get(), into);
    });
  }
  // Takes no more clients and calls, and waits until those under way have ended;
  // DEADLINE_EXCEEDED: some have not. Not for a server in a loop, as the next one.
  template <class Rep, class Period>
  Result<void> drain(std::chrono::duration<Rep, Period> timeout) {
    return Status::take(nearcall_server_drain(held_.get(), detail::nanoseconds(timeout)));
  }
  // Waits for SIGTERM or SIGINT, or until another thread stops the server; drains and stops it.
  Result<void> run_until_signal() {
    return Status::take(nearcall_server_run_until_signal(held_.get()));
  }
  // Closes its connections. Doing it again is no error.
  Result<void> stop() { return Status::take(nearcall_server_stop(held_.get())); }

 private:
  using Held = detail::Handle<nearcall_server, nearcall_server_free>;
  explicit Server(Held taken) : held_(std::move(taken)) {}
  Held held_;
};

// A server before its start, which reports the first error of any step.
class Server::Builder {
 public:
  explicit Builder(const ServerOptions& options = {}) {
    nearcall_server_options set{};
    set.size = sizeof set;
    set.threads = options.threads;
    set.message_bytes_max = options.message_bytes_max;
    set.stream_window_bytes = options.stream_window_bytes;
    set.connections_max = options.connections_max;
    nearcall_server made{};
    status_ = Status::take(nearcall_server_new(NEARCALL_ABI, &set, &made));
    held_ = Held(made);
  }
  // Serves a service, which lives until no call uses it any more. `object`: a name, by which
  // callers address one of several objects (ADDRESS#object), or nothing.
  Builder& register_service(std::shared_ptr<Service> service, const std::string& object = {}) {
    if (!status_.ok()) return *this;
    if (service == nullptr) {
      status_ = Status(Code::InvalidArgument, "`service` is null");
      return *this;
    }
    const std::string interface = service->interface_name();
    const nearcall_view set = detail::view(service->descriptor_set());
    auto data = std::make_unique<detail::Served>();
    data->service = std::move(service);
    nearcall_service table{};
    table.size = sizeof table;
    table.data = data.get();
    table.serve = detail::Served::serve;
    table.release = detail::Served::release;
    const char* name = object.empty() ? nullptr : object.c_str();
    status_ = Status::take(
        nearcall_server_register(held_.get(), name, set, interface.c_str(), &table));
    // From now on the library's.
    if (status_.ok()) (void)data.release();
    return *this;
  }
  // Listens at an address: a name, unix:/PATH, unix:@NAME, tcp://HOST:PORT.
  Builder& listen(const std::string& address, const ListenOptions& options = {}) {
    if (!status_.ok()) return *this;
    static constexpr std::uint32_t no_user = 0;
    nearcall_listen_options set{};
    set.size = sizeof set;
    if (options.users) {
      set.users = options.users->empty() ? &no_user : options.users->data();
      set.user_count = options.users->size();
    }
    set.socket_mode = options.socket_mode;
    status_ = Status::take(nearcall_server_listen(held_.get(), address.c_str(), &set));
    return *this;
  }
  const Status& status() const { return status_; }
  nearcall_server get() const { return held_.get(); }
  // Starts the server in threads of its own. Nothing is left to start again, also if this fails.
  Result<Server> start() {
    return started([](nearcall_server server) { return nearcall_server_start(server); });
  }
  // Starts the server in a loop of this thread: it serves while the loop turns.
  Result<Server> start_in(const EventLoop& loop) {
    const nearcall_loop in = loop.get();
    return started([in](nearcall_server server) { return nearcall_server_start_in(server, in); });
  }

 private:
  template <class Start>
  Result<Server> started(Start start) {
    if (!status_.ok()) return status_;
    status_ = Status(Code::FailedPrecondition, "the server was started already");
    Held server = std::move(held_);
    if (auto* status = start(server.get())) return Status::take(status);
    return Server(std::move(server));
  }
  Held held_;
  Status status_;
};

inline Server::Builder Server::builder(const ServerOptions& options) { return Builder(options); }

}  // namespace nearcall

#endif  // NEARCALL_SERVER_HPP
