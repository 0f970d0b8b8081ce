//! POSIX message queues.

use nearcall_os::mqueue::{self, CreateError};

use crate::partner::SHORT;

#[test]
fn messages_keep_their_order_and_a_full_queue_refuses() {
    let queue = mqueue::create_unlinked(3, 64).unwrap();
    let attributes = mqueue::attributes(&queue).unwrap();
    assert_eq!((attributes.messages_max, attributes.message_bytes_max), (3, 64));
    let mut buffer = [0; 64];
    assert_eq!(mqueue::try_receive(&queue, &mut buffer).unwrap(), None);
    assert_eq!(mqueue::receive_timeout(&queue, &mut buffer, SHORT).unwrap(), None);
    for byte in 0..3u8 {
        mqueue::send(&queue, &[byte; 10]).unwrap();
    }
    assert!(!mqueue::try_send(&queue, b"x").unwrap());
    assert!(!mqueue::send_timeout(&queue, b"x", SHORT).unwrap());
    assert_eq!(mqueue::attributes(&queue).unwrap().messages, 3);
    for byte in 0..3u8 {
        assert_eq!(mqueue::receive(&queue, &mut buffer).unwrap(), 10);
        assert_eq!(buffer[9], byte);
    }
    assert!(mqueue::try_send(&queue, &[]).unwrap());
    assert_eq!(mqueue::try_receive(&queue, &mut buffer).unwrap(), Some(0));
}

#[test]
fn a_queue_travels_as_a_descriptor() {
    use nearcall_os::{descriptor, socket};
    use std::os::fd::AsFd;
    let queue = mqueue::create_unlinked(1, 8).unwrap();
    let (here, there) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
    descriptor::send_with_fds(&here, b"q", &[queue.as_fd()]).unwrap();
    let received = descriptor::receive_with_fds(&there, &mut [0; 1], 1).unwrap();
    mqueue::send(&queue, b"hi").unwrap();
    drop(queue);
    assert_eq!(mqueue::receive(&received.fds[0], &mut [0; 8]).unwrap(), 2);
}

#[test]
fn sizes_that_the_kernel_refuses_are_explained() {
    // A privileged user may go above msg_max, but not to these.
    for (messages, bytes) in [(0, 8), (1, 0), (usize::MAX, 8), (1, 1 << 40)] {
        let error = mqueue::create_unlinked(messages, bytes).unwrap_err();
        assert!(matches!(error, CreateError::Size(_)), "{messages} x {bytes}: {error}");
        assert!(error.to_string().contains("msg_max"), "{error}");
    }
    let queue = mqueue::create_unlinked(1, 8).unwrap();
    assert!(mqueue::send(&queue, &[0; 9]).is_err());
    assert!(mqueue::receive(&queue, &mut [0; 7]).is_err());
    assert!(mqueue::limits().messages_max.is_some_and(|max| max > 0));
}
