// Boost.Interprocess message queues as C functions, for src/shim/boost.rs.
//
// No exception leaves a function: what went wrong is copied to `error`, cut off at its end.

#include <boost/interprocess/ipc/message_queue.hpp>

#include <cstddef>
#include <cstring>
#include <exception>

using boost::interprocess::message_queue;

static void say(char *error, std::size_t error_bytes, const char *what) {
    if (error_bytes == 0) {
        return;
    }
    std::strncpy(error, what, error_bytes - 1);
    error[error_bytes - 1] = '\0';
}

extern "C" {

// Opens the queue `name`, or creates it if `messages` is not zero. Null if that failed.
void *rival_boost_open(const char *name, std::size_t messages, std::size_t message_bytes,
                       char *error, std::size_t error_bytes) {
    using namespace boost::interprocess;
    try {
        if (messages == 0) {
            return new message_queue(open_only, name);
        }
        return new message_queue(create_only, name, messages, message_bytes);
    } catch (const std::exception &exception) {
        say(error, error_bytes, exception.what());
        return nullptr;
    }
}

// Sends `bytes` bytes, waiting for room. False if that failed.
bool rival_boost_send(void *queue, const void *message, std::size_t bytes, char *error,
                      std::size_t error_bytes) {
    try {
        static_cast<message_queue *>(queue)->send(message, bytes, 0);
        return true;
    } catch (const std::exception &exception) {
        say(error, error_bytes, exception.what());
        return false;
    }
}

// Waits for a message, copies it to `message` and sets `bytes`. False if that failed.
bool rival_boost_receive(void *queue, void *message, std::size_t room, std::size_t *bytes,
                         char *error, std::size_t error_bytes) {
    try {
        message_queue::size_type received = 0;
        unsigned int priority = 0;
        static_cast<message_queue *>(queue)->receive(message, room, received, priority);
        *bytes = received;
        return true;
    } catch (const std::exception &exception) {
        say(error, error_bytes, exception.what());
        return false;
    }
}

// Closes a queue. The queue itself stays until its file is removed.
void rival_boost_close(void *queue) { delete static_cast<message_queue *>(queue); }

}
