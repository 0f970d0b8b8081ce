//! System V message queues.

use nearcall_os::sysv::{self, MessageBuffer, OwnedQueue};

#[test]
fn messages_are_taken_by_type_and_a_full_queue_refuses() {
    let queue = OwnedQueue::create().unwrap();
    let mut message = MessageBuffer::with_capacity(100);
    assert_eq!(message.body().len(), 100);
    assert_eq!(sysv::try_receive(queue.id(), 0, &mut message).unwrap(), None);
    message.body_mut()[..2].copy_from_slice(b"ab");
    sysv::send(queue.id(), 1, &mut message, 2).unwrap();
    message.body_mut()[..2].copy_from_slice(b"cd");
    sysv::send(queue.id(), 2, &mut message, 2).unwrap();
    assert_eq!(sysv::receive(queue.id(), 2, &mut message).unwrap(), 2);
    assert_eq!(&message.body()[..2], b"cd");
    assert_eq!(sysv::receive(queue.id(), 0, &mut message).unwrap(), 2);
    assert_eq!(&message.body()[..2], b"ab");
    let mut sent = 0;
    while sysv::try_send(queue.id(), 1, &mut message, 100).unwrap() {
        sent += 1;
    }
    let stat = sysv::stat(queue.id()).unwrap();
    assert_eq!((stat.messages, stat.bytes_max / 100), (sent, sent));
}

#[test]
fn a_message_too_long_for_the_buffer_stays() {
    let queue = OwnedQueue::create().unwrap();
    sysv::send(queue.id(), 1, &mut MessageBuffer::with_capacity(9), 9).unwrap();
    let mut short = MessageBuffer::with_capacity(8);
    assert_eq!(sysv::receive(queue.id(), 0, &mut short).unwrap_err().raw_os_error(), Some(7));
    let mut long = MessageBuffer::with_capacity(9);
    assert_eq!(sysv::receive(queue.id(), 0, &mut long).unwrap(), 9);
}

#[test]
fn a_queue_goes_with_its_owner_and_wakes_its_waiters() {
    let queue = OwnedQueue::create().unwrap();
    let id = queue.id();
    assert!(sysv::list().unwrap().iter().any(|entry| entry.id == id));
    let waiter = std::thread::spawn(move || {
        sysv::receive(id, 0, &mut MessageBuffer::with_capacity(8)).unwrap_err()
    });
    drop(queue);
    // EIDRM if it waited already, EINVAL if it came too late.
    let errno = waiter.join().unwrap().raw_os_error();
    assert!(matches!(errno, Some(43 | 22)), "{errno:?}");
    assert!(sysv::list().unwrap().iter().all(|entry| entry.id != id));
    assert!(sysv::limits().queue_bytes_max.is_some_and(|max| max > 0));
}
